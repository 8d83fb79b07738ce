# Finds what the nccl plugin needs. NDT_NCCL_FOUND: it can be built. NDT_NCCL_HEADERS: its sources can be
# compiled, which is how they are tested where there is no device. The imported target NDT::nccl has
# the libraries.
set(NDT_NCCL_FOUND OFF)
set(NDT_NCCL_HEADERS OFF)

find_package(CUDAToolkit 12 QUIET)
set(version 0)
if(CUDAToolkit_FOUND)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64)
  if(NCCL_INCLUDE_DIR)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h line REGEX "define NCCL_VERSION_CODE ")
    string(REGEX MATCH "[0-9]+" version "${line}")
  endif()
endif()
if(NOT NCCL_LIBRARY OR version LESS 21800)
  if(NDT_NCCL STREQUAL "ON")
    message(FATAL_ERROR "NDT_NCCL is ON and needs the CUDA toolkit 12 or later and NCCL 2.18")
  endif()
  message(STATUS "No nccl plugin: it needs the CUDA toolkit 12 or later and NCCL 2.18")
  return()
endif()
set(NDT_NCCL_HEADERS ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
list(REMOVE_DUPLICATES NDT_NCCL_HEADERS)

# Sanitizers watch the same sources on fakes.
if(NDT_SANITIZE)
  return()
endif()
add_library(NDT::nccl INTERFACE IMPORTED)
target_include_directories(NDT::nccl SYSTEM INTERFACE ${NDT_NCCL_HEADERS})
target_link_libraries(NDT::nccl INTERFACE CUDA::cudart ${NCCL_LIBRARY})
set(NDT_NCCL_FOUND ON)
