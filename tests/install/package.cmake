# Makes the Debian package of BUILD and looks into it.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

foreach(tool dpkg-deb dpkg-shlibdeps file)
  find_program(found_${tool} ${tool})
  if(NOT found_${tool})
    message("SKIPPED: ${tool} is not installed")
    return()
  endif()
endforeach()
run(dpkg --print-architecture)
string(STRIP "${run_output}" architecture)

file(REMOVE_RECURSE ${WORK})
# What it holds is looked at, not how small it is.
run(${CPACK} -G DEB --config ${BUILD}/CPackConfig.cmake -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -B ${WORK})
set(package ${WORK}/ndtrain_${VERSION}_${architecture}.deb)
if(NOT EXISTS ${package})
  file(GLOB made ${WORK}/*)
  message(FATAL_ERROR "${package} is not there, but ${made}")
endif()

run(dpkg-deb --contents ${package})
set(contents "${run_output}")
set(wanted bin/ndtrain ${LIBDIR}/libndtrain.a ${LIBDIR}/cmake/ndtrain/ndtrainConfig.cmake
  include/ndtrain/framework/graph/graph.h include/ndtrain/framework/runtime/backend_abi.h
  include/ndtrain/models/zoo.h share/doc/ndtrain/copyright share/doc/ndtrain/docs/operations.md
  share/doc/ndtrain/examples/tuner.env share/doc/ndtrain/examples/member.env share/doc/ndtrain/examples/pipestore.env share/doc/ndtrain/examples/ndtrain-alerts.yml
  share/doc/ndtrain/examples/ndtrain-grafana.json share/doc/ndtrain/examples/ndtrain.sbatch share/doc/ndtrain/examples/ndtrain-kubernetes.yaml
  lib/systemd/system/ndtrain-tuner.service lib/systemd/system/ndtrain-member.service lib/systemd/system/ndtrain-pipestore@.service
  lib/sysusers.d/ndtrain.conf share/man/man1/ndtrain.1 share/man/man1/ndtrain-train.1 share/man/man1/ndtrain-job-submit.1
  share/bash-completion/completions/ndtrain share/zsh/vendor-completions/_ndtrain)
foreach(level IN LISTS LEVELS)
  if(level MATCHES "^x86-64-")
    list(APPEND wanted ${LIBDIR}/ndtrain/backends/${level}/libndt_cpu.so)
  else()
    list(APPEND wanted ${LIBDIR}/ndtrain/backends/libndt_cpu.so)
  endif()
endforeach()
if(ONEDNN)
  list(APPEND wanted ${LIBDIR}/ndtrain/backends/libndt_onednn.so)
endif()
if(MPI)
  list(APPEND wanted ${LIBDIR}/ndtrain/backends/libndt_mpi.so)
endif()
foreach(path IN LISTS wanted)
  expect("${contents}" "\\./usr/${path}\n")
endforeach()
if(contents MATCHES "_test|/tests/|/testing/|\\.cpp\n")
  message(FATAL_ERROR "the package holds what belongs to the source tree:\n${contents}")
endif()

run(dpkg-deb --field ${package} Depends)
foreach(library libc6 libopenblas libprotobuf libonnx libjpeg libpng16 libsqlite3 libssl
    libgrpc\\+\\+ libarchive13 libzstd1 libxxhash0)
  expect("${run_output}" "${library}[^,]*")
endforeach()

# The services: made for the user that the package makes, and what systemd understands.
run(dpkg-deb --info ${package} postinst)
expect("${run_output}" "systemd-sysusers ndtrain.conf")
run(dpkg-deb --extract ${package} ${WORK}/unpacked)
# What pages point at is there, too.
run(bash ${CMAKE_CURRENT_LIST_DIR}/dead_links ${WORK}/unpacked/usr/share/doc/ndtrain)
if(NOT run_output STREQUAL "")
  message(FATAL_ERROR "the package lacks pages or pictures:\n${run_output}")
endif()
find_program(found_systemd_analyze systemd-analyze)
if(NOT found_systemd_analyze)
  message("systemd-analyze is not installed: the units are not verified")
  return()
endif()
set(units ${WORK}/unpacked/usr/lib/systemd/system)
file(RENAME ${units}/ndtrain-pipestore@.service ${units}/ndtrain-pipestore@a.service)
foreach(unit ndtrain-tuner ndtrain-member ndtrain-pipestore@a)
  file(READ ${units}/${unit}.service text)
  string(REPLACE "ExecStart=ndtrain " "ExecStart=${WORK}/unpacked/usr/bin/ndtrain " text "${text}")
  file(WRITE ${units}/${unit}.service "${text}")
  execute_process(COMMAND systemd-analyze verify --man=no ${units}/${unit}.service
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0 OR NOT said STREQUAL "")
    message(FATAL_ERROR "systemd-analyze verify ${unit}.service, exit status ${result}:\n${said}")
  endif()
endforeach()
