# Sources of the plugin: they are built for devices here and for the host in tests/cuda. Each file in
# the folders is one; dnn/ops.inc and kernels/ops.inc list the ops.
cmake_path(SET folder NORMALIZE ${CMAKE_CURRENT_LIST_DIR})
file(GLOB ndt_cuda_sources CONFIGURE_DEPENDS
  ${folder}/*.cpp ${folder}/dnn/*.cpp ${folder}/dnn/*.cu ${folder}/kernels/*.cpp ${folder}/kernels/*.cu)
foreach(file IN ITEMS answer host node tuning tuning_file)
  list(APPEND ndt_cuda_sources ${PROJECT_SOURCE_DIR}/backends/plugin/${file}.cpp)
endforeach()
file(GLOB ndt_cuda_headers CONFIGURE_DEPENDS ${folder}/*.h ${folder}/*/*.h ${folder}/*/*.inc
  ${PROJECT_SOURCE_DIR}/backends/plugin/*.h)
ndt_source_digest(cuda ${ndt_cuda_sources} ${ndt_cuda_headers})
list(APPEND ndt_cuda_sources ${cuda_version_header})

# The lowest architecture that this build has code for.
set(ndt_cuda_lowest 75)
if(CMAKE_CUDA_ARCHITECTURES)
  list(GET CMAKE_CUDA_ARCHITECTURES 0 ndt_cuda_lowest)
  string(REGEX MATCH "[0-9]+" ndt_cuda_lowest "${ndt_cuda_lowest}")
endif()
set(ndt_cuda_definitions NDT_CUDA_LOWEST=${ndt_cuda_lowest})
