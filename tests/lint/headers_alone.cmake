# cmake -D LINT=ndt_lint -D TREE=dir -D GENERATED=dir -D CXX=compiler -P headers_alone.cmake
execute_process(COMMAND ${LINT} ${TREE} --headers
  OUTPUT_VARIABLE headers OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" headers "${headers}")
list(FILTER headers EXCLUDE REGEX "^examples/")
# What includes CUDA's headers is compiled where they are found, for devices and for the host.
list(FILTER headers EXCLUDE REGEX "^((backends|tests)/cuda|backends/nccl)/")

set(failed "")
set(count 0)
foreach(header IN LISTS headers)
  # Plugins of devices that this machine may lack answer for themselves in their build.
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -I${TREE} -isystem ${GENERATED}
    -x c++ ${TREE}/${header}
    RESULT_VARIABLE result ERROR_VARIABLE errors)
  math(EXPR count "${count} + 1")
  if(NOT result EQUAL 0)
    message("${errors}does not compile alone: ${header}")
    list(APPEND failed ${header})
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "headers that do not compile alone: ${failed}")
endif()
message("${count} headers compile alone; the others are the first include of some source")
