# Installs BUILD to WORK/prefix, builds SOURCE/examples there and runs what comes out.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
# Away from the source tree, so that only installed headers can be found.
file(COPY ${SOURCE}/examples DESTINATION ${WORK})
set(prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

file(GLOB_RECURSE installed ${prefix}/*.cmake)
foreach(file IN LISTS installed)
  file(READ ${file} text)
  string(FIND "${text}" "${SOURCE}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} names the source tree")
  endif()
endforeach()

# Headers are those that users need: each stands on installed ones alone, and what only the library and
# its tests include is not there.
set(include ${prefix}/include/ndtrain)
file(GLOB_RECURSE headers RELATIVE ${include} ${include}/*)
foreach(header IN LISTS headers)
  run(${CXX} -std=c++20 -fsyntax-only -x c++ -I ${include} -include ${header} /dev/null)
endforeach()
foreach(internal IN ITEMS framework/testing/memory_fs.h framework/core/net.h framework/runtime/arena.h
    framework/onnx/lower.h models/builder.h)
  if(NOT EXISTS ${SOURCE}/${internal})
    message(FATAL_ERROR "there is no ${internal} any more: name another")
  endif()
  if(internal IN_LIST headers)
    message(FATAL_ERROR "${internal} is installed")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${WORK}/examples -B ${WORK}/build -G ${GENERATOR}
  -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D CMAKE_C_COMPILER=${C}
  -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${WORK}/build)

# The installed program finds its plugins by itself; a program elsewhere is told.
unset(ENV{NDTRAIN_BACKEND_PATH})
run(${prefix}/bin/ndtrain doctor)
expect("${run_output}" "backend cpu +.*${prefix}/")
run(${prefix}/bin/ndtrain model build tinynet -o ${WORK}/base.onnx)

set(ENV{NDTRAIN_BACKEND_PATH} ${prefix}/${LIBDIR}/ndtrain/backends)
run(${WORK}/build/train ${WORK}/base.onnx ${WORK}/trained.onnx)
string(REGEX MATCH "step 0 loss ([0-9.]+)" found "${run_output}")
set(before "${CMAKE_MATCH_1}")
string(REGEX MATCH "step 100 loss ([0-9.]+)" found "${run_output}")
set(after "${CMAKE_MATCH_1}")
if(NOT after LESS before)
  message(FATAL_ERROR "the loss did not fall from '${before}' to '${after}':\n${run_output}")
endif()
run(${prefix}/bin/ndtrain model inspect ${WORK}/trained.onnx)

run(${WORK}/build/run_plugin ${WORK}/build/libndt_null.so)
expect("${run_output}" "loaded null 1\nrelu 0 0 1 2\n")
expect("${run_output}" "no kernel for 2 of 3 nodes:.*Relu only, not Sqrt.*Relu only, not Exp")
