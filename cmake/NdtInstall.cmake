# cmake --install, find_package(ndtrain) and cpack -G DEB. The include root of an installation is
# include/ndtrain, so that #include "framework/graph/graph.h" means the same there and here.
# Plugins install themselves (backends/).
include(CMakePackageConfigHelpers)

set(ndt_headers ${CMAKE_INSTALL_INCLUDEDIR}/ndtrain)
set(ndt_config ${CMAKE_INSTALL_LIBDIR}/cmake/ndtrain)

install(TARGETS ndtrain EXPORT ndtrainTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ndtrainTargets NAMESPACE ndtrain:: DESTINATION ${ndt_config})
install(TARGETS ndtrain_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# What users of the library include; what these include comes along.
set(ndt_public_headers
  framework/core/error.h framework/core/fsync.h framework/core/log.h framework/core/rng.h
  framework/graph/differentiate.h framework/graph/op.h framework/graph/split.h
  framework/onnx/export.h framework/onnx/import.h
  framework/runtime/backend_abi.h framework/runtime/executor.h framework/runtime/interpreter.h
  framework/train/head.h framework/train/step_graph.h framework/train/trainer.h
  models/zoo.h)
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(HEADERS \"${ndt_public_headers}\")
  set(DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${ndt_headers}\")")
install(SCRIPT cmake/install_headers.cmake)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
# The pages and what they point at lie as in the source tree: their links hold, and what the program
# calls docs/security.md is there.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(file bench/RESULTS.md bench/deltas.svg bench/netlab/time.svg ndp/wire/wire.proto tools/gpu_bundle/README.md)
  get_filename_component(directory ${file} DIRECTORY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${directory})
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
# The services: systemd looks for both below /usr and /usr/local.
install(FILES packaging/ndtrain-tuner.service packaging/ndtrain-member.service packaging/ndtrain-pipestore@.service
        DESTINATION lib/systemd/system)
install(FILES packaging/ndtrain.sysusers DESTINATION lib/sysusers.d RENAME ndtrain.conf)
install(FILES examples/plan_published.json packaging/tuner.env packaging/member.env packaging/pipestore.env
        packaging/ndtrain-alerts.yml packaging/ndtrain-grafana.json packaging/cluster/ndtrain-kubernetes.yaml
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(PROGRAMS packaging/cluster/ndtrain.sbatch DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

configure_package_config_file(cmake/ndtrainConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ndtrainConfig.cmake INSTALL_DESTINATION ${ndt_config}
  PATH_VARS ndt_headers CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ndtrainConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ndtrainConfig.cmake
              ${PROJECT_BINARY_DIR}/ndtrainConfigVersion.cmake
        DESTINATION ${ndt_config})

set(CPACK_GENERATOR DEB)
# All but what needs libraries that are not Debian's.
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};${PROJECT_NAME};Unspecified;/")
set(CPACK_PACKAGE_NAME ndtrain)
set(CPACK_PACKAGE_CONTACT "ndtrain developers <ndtrain@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/packaging/postinst ${PROJECT_SOURCE_DIR}/packaging/prerm
  ${PROJECT_SOURCE_DIR}/packaging/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# HEIC, where libheif's decoders are packages of their own (Debian 13).
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libheif-plugin-libde265)
# mpirun, for ranks; the rest is for those who build against the library.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, libonnx-dev, libprotobuf-dev, libssl-dev, libfmt-dev, \
libspdlog-dev, nlohmann-json3-dev, libxxhash-dev, pkg-config, cmake")
include(CPack)
