# scripts/demo builds the plugins for accelerators only where nvidia-smi lists a device.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

find_program(BASH bash REQUIRED)
foreach(tool IN ITEMS dirname rm)
  find_program(path_of_${tool} ${tool} REQUIRED)
  file(MAKE_DIRECTORY ${WORK}/tools)
  file(CREATE_LINK ${path_of_${tool}} ${WORK}/tools/${tool} SYMBOLIC)
endforeach()

function(write_program file text)
  file(WRITE ${file} "#!${BASH}\n${text}\n")
  file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

file(COPY ${SOURCE}/scripts/demo DESTINATION ${WORK}/scripts)
write_program(${WORK}/scripts/lib.sh
  "say() { :; }\ninstall_packages() { :; }\nbuild() { echo \"builds $*\"; }")
write_program(${WORK}/build/release/bin/ndtrain "echo \"runs $*\"")
write_program(${WORK}/device/nvidia-smi "echo 'GPU 0: some device'")
write_program(${WORK}/no_device/nvidia-smi "echo 'No devices were found' >&2; exit 6")

foreach(machine IN ITEMS device no_device no_program)
  run(${CMAKE_COMMAND} -E env "PATH=${WORK}/${machine}:${WORK}/tools" ${BASH} ${WORK}/scripts/demo)
  set(plugins "")
  if(machine STREQUAL "device")
    set(plugins " ndt_accelerator_plugins")
  endif()
  expect("${run_output}" "^builds release ndtrain_program${plugins}\nruns demo build/demo\n$")
endforeach()
