# The nccl plugin's sources; the tests build them on fakes (tests/nccl).
set(ndt_nccl_sources device.cpp group.cpp plugin.cpp)
list(TRANSFORM ndt_nccl_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
