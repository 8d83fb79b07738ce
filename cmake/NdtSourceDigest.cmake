# ndt_source_digest(<name> <file…>): a change of a kernel may change bits, so a plugin's numerics name
# its sources. Makes the header "backends/<name>/version.h", which defines NDT_<NAME>_VERSION, anew when
# one of them changed; it is a source of the targets that read it, and found below the directory
# <name>_version_root.
function(ndt_source_digest name)
  set(root ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(header ${root}/backends/${name}/version.h)
  string(TOUPPER NDT_${name}_VERSION macro)
  set(files "")
  foreach(file IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH file NORMALIZE)
    list(APPEND files ${file})
  endforeach()
  list(JOIN files "," joined)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -D OUT=${header} -D MACRO=${macro} -D VERSION=${PROJECT_VERSION}
      -D FILES=${joined} -P ${PROJECT_SOURCE_DIR}/cmake/source_digest.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/source_digest.cmake VERBATIM)
  set(${name}_version_header ${header} PARENT_SCOPE)
  set(${name}_version_root ${root} PARENT_SCOPE)
endfunction()
