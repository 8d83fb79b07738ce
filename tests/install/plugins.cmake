# Each of PLUGINS is among what is built with the program.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

run(${NINJA} -C ${BUILD} -n -t inputs ndtrain_program)
foreach(plugin IN LISTS PLUGINS)
  expect("${run_output}" "/${plugin}\\.dir/")
endforeach()
