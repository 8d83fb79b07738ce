# Finds what the cuda plugin needs. NDT_CUDA_FOUND: it can be built. NDT_CUDA_HEADERS: its sources can
# be compiled for the host, which is how they are tested where there is no device. The imported target
# NDT::cuda has the libraries.
set(NDT_CUDA_FOUND OFF)
set(NDT_CUDA_HEADERS OFF)

find_package(CUDAToolkit 12 QUIET)
if(CUDAToolkit_FOUND)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64)
endif()
set(missing "")
if(NOT CUDAToolkit_FOUND)
  set(missing "the CUDA toolkit 12 or later")
elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY OR NOT TARGET CUDA::cublasLt)
  set(missing "cuDNN 9 and cuBLASLt")
endif()
if(missing)
  if(NDT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "NDT_CUDA is ON and needs ${missing}")
  endif()
  message(STATUS "No cuda plugin: it needs ${missing}")
  return()
endif()
set(NDT_CUDA_HEADERS ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})
list(REMOVE_DUPLICATES NDT_CUDA_HEADERS)

# Sanitizers watch the same sources built for the host.
if(NDT_SANITIZE)
  return()
endif()

# sm_75 (T4) to sm_90 (H100), and PTX that later ones translate; sm_70 (V100) as long as there is a
# compiler for it.
if(DEFINED ENV{CUDAARCHS} AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90)
  if(CUDAToolkit_VERSION VERSION_LESS 13)
    list(PREPEND CMAKE_CUDA_ARCHITECTURES 70-real)
  endif()
endif()
if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "The compiler nvcc calls")
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

add_library(NDT::cuda INTERFACE IMPORTED)
target_include_directories(NDT::cuda SYSTEM INTERFACE ${NDT_CUDA_HEADERS})
target_link_libraries(NDT::cuda INTERFACE CUDA::cudart CUDA::cublasLt ${CUDNN_LIBRARY})
# Stands in for the driver's library, which is on machines with a card only.
find_file(NDT_CUDA_STUB libcuda.so HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES stubs
  NO_DEFAULT_PATH)
set(NDT_CUDA_FOUND ON)
