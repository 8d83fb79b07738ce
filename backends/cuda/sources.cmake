# Sources of the plugin, from the root of the tree: they are built for devices here and for the host in
# tests/cuda.
include(${CMAKE_CURRENT_LIST_DIR}/dnn/sources.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/kernels/sources.cmake)
set(ndt_cuda_sources
  backends/cuda/check.cpp
  backends/cuda/device.cpp
  backends/cuda/devices.cpp
  backends/cuda/graph.cpp
  backends/cuda/layout.cpp
  backends/cuda/memory.cpp
  backends/cuda/ops.cpp
  backends/cuda/plugin.cpp
  backends/plugin/answer.cpp
  backends/plugin/node.cpp
  backends/plugin/tuning.cpp
  backends/plugin/tuning_file.cpp
  ${ndt_cuda_dnn_sources}
  ${ndt_cuda_kernel_sources}
)

cmake_path(SET folder NORMALIZE ${CMAKE_CURRENT_LIST_DIR})
file(GLOB ndt_cuda_headers CONFIGURE_DEPENDS ${folder}/*.h ${folder}/*/*.h ${folder}/*/*.inc
  ${PROJECT_SOURCE_DIR}/backends/plugin/*.h)
list(TRANSFORM ndt_cuda_sources PREPEND ${PROJECT_SOURCE_DIR}/)
ndt_source_digest(cuda ${ndt_cuda_sources} ${ndt_cuda_headers})
list(APPEND ndt_cuda_sources ${cuda_version_header})

# The lowest architecture that this build has code for.
set(ndt_cuda_lowest 75)
if(CMAKE_CUDA_ARCHITECTURES)
  list(GET CMAKE_CUDA_ARCHITECTURES 0 ndt_cuda_lowest)
  string(REGEX MATCH "[0-9]+" ndt_cuda_lowest "${ndt_cuda_lowest}")
endif()
set(ndt_cuda_definitions NDT_CUDA_LOWEST=${ndt_cuda_lowest})
