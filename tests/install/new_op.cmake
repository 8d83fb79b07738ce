# Adds the op of OP, an operator of ONNX, to a copy of the tree as docs/adding_an_op.md says: two files
# and a line; for onednn a file more and its line, for cuda, where it is a function of elements, two
# lines. It is then built, checked against its definition on each plugin (cuda on the fakes of its
# libraries) and exported by what stands there.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

foreach(variable IN ITEMS GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE)
  unset(ENV{${variable}})
endforeach()
execute_process(
  COMMAND git -C ${SOURCE} -c core.quotePath=off ls-files --cached --others --exclude-standard
  RESULT_VARIABLE result OUTPUT_VARIABLE files ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT result EQUAL 0)
  message("SKIPPED: ${SOURCE} is no checkout: ${why}")
  return()
endif()

# Times are kept, and what was built: a second run compiles what changed.
set(tree ${WORK}/tree)
file(GLOB before ${tree}/* ${tree}/.*)
list(REMOVE_ITEM before ${tree}/build)
foreach(file IN LISTS before)
  file(REMOVE_RECURSE ${file})
endforeach()
string(REPLACE "\n" ";" files "${files}")
foreach(file IN LISTS files)
  if(EXISTS ${SOURCE}/${file})
    cmake_path(GET file PARENT_PATH folder)
    file(COPY ${SOURCE}/${file} DESTINATION ${tree}/${folder})
  endif()
endforeach()
run(git -C ${tree} init --quiet)
run(git -C ${tree} add --all)

file(COPY ${OP}/ DESTINATION ${tree})
file(APPEND ${tree}/framework/ops/ops.inc "OPS(shrink)\n")
file(APPEND ${tree}/backends/onednn/ops.inc "OP(Shrink, prepare_shrink, prefer_shrink)\n")
file(APPEND ${tree}/backends/cuda/kernels/ops.inc "OP(Shrink, prepare_unary, follow_images)\n")
file(APPEND ${tree}/backends/cuda/kernels/functions.inc
  "FLOAT(Shrink, p < -b ? p + a : p > b ? p - a : W(0))\n")
run(git -C ${tree} add --intent-to-add --all)
run(git -C ${tree} diff --name-only)
set(of_cpu backends/cpu/kernels/shrink.cpp)
set(of_cuda backends/cuda/kernels/functions.inc backends/cuda/kernels/ops.inc)
set(of_onednn backends/onednn/ops.inc backends/onednn/shrink.cpp)
set(of_all framework/ops/ops.inc framework/ops/shrink.cpp)
list(APPEND wanted ${of_cpu} ${of_cuda} ${of_onednn} ${of_all})
list(JOIN wanted "\n" wanted)
string(APPEND wanted "\n")
if(NOT run_output STREQUAL wanted)
  message(FATAL_ERROR "an op is these files:\n${wanted}and not\n${run_output}")
endif()

# A compiler cache knows paths from the folder of the build: as deep as those of the presets.
set(ENV{CCACHE_BASEDIR} ${tree})
set(ENV{CCACHE_NOHASHDIR} true)
set(ENV{CCACHE_SLOPPINESS} pch_defines,time_macros,include_file_mtime,include_file_ctime)
run(${CMAKE_COMMAND} -S ${tree} -B ${tree}/build/copy -G ${GENERATOR} -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
  -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CMAKE_C_COMPILER=${C} -D CMAKE_CXX_COMPILER=${CXX}
  -D "${FLAGS}" -D NDT_WERROR=${WERROR} -D NDT_CPU_LEVELS=${LEVEL} -D NDT_ONEDNN=${ONEDNN}
  -D NDT_CUDA=${CUDA} -D NDT_BUILD_BENCH=OFF)
set(programs ops_test onnx_test kernels_test)
if(ONEDNN)
  list(APPEND programs onednn_test)
endif()
if(CUDA)
  list(APPEND programs cuda_examples_test)
endif()
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
run(${CMAKE_COMMAND} --build ${tree}/build/copy --parallel ${cores}
  --target ${programs})

# Every program but one for a plugin that cannot be built here, on the op's examples.
set(plugins ${tree}/build/copy/bin/ndtrain-backends)
set(emulated ${tree}/build/copy/tests/cuda/plugins)
foreach(program IN LISTS programs)
  set(ENV{NDTRAIN_BACKEND_PATH} ${plugins})
  if(program STREQUAL "cuda_examples_test")
    set(ENV{NDTRAIN_BACKEND_PATH} ${emulated}:${plugins})
  endif()
  run(${tree}/build/copy/bin/${program} --gtest_filter=*/Shrink*:OnnxOps.*:OpTable.*)
  expect("${run_output}" "OK \\][^\n]*/Shrink")
endforeach()
