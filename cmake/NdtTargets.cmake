# What the sanitizers ask of every target, generated code included.
function(ndt_sanitize target)
  if(NDT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${NDT_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    if(NDT_SANITIZE MATCHES "undefined")
      # A third of the compile time; what the first and last find, the address sanitizer finds.
      target_compile_options(${target} PRIVATE -fno-sanitize=null,vptr,object-size)
      if(NDT_SANITIZE_EXCEPT)
        target_compile_options(${target} PRIVATE -fno-sanitize=${NDT_SANITIZE_EXCEPT})
      endif()
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${NDT_SANITIZE})
  endif()
  if(NDT_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# ndt_hot(<target>): long loops are in it, so that the sanitizers' builds optimise it too.
function(ndt_hot target)
  if(NDT_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# ndt_cold(<target>): its time is that of disks, networks and people, so that a fifth less of compiling
# counts for more than what else -O2 does, but for filling and copying, which is memset() and memcpy().
function(ndt_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-ftree-loop-distribute-patterns>)
endfunction()

# How every target of the project is compiled, but for what sanitizers ask.
function(ndt_plain_options target)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/ndtrain>)
  set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor
               # Configuration is structs with defaults and designated initialisers.
               -Wno-missing-field-initializers
               # gcc 12 sees ghosts in optional<variant<…>> (PR 80635).
               -Wno-maybe-uninitialized)
  if(NDT_WERROR)
    list(APPEND warnings -Werror)
  endif()
  # nvcc's own code for the host is not made for -Wextra.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${NDT_WERROR}>>:--Werror=all-warnings>")
endfunction()

# How every target of the project is compiled.
function(ndt_compile_options target)
  ndt_plain_options(${target})
  ndt_sanitize(${target})
endfunction()

# A program with what all test programs are compiled and linked with. Under the address sanitizer it is
# the product that is watched: tests are compiled as the release preset compiles them, so that a compiler
# cache has them already. (The thread sanitizer would miss what a test's own atomics order.)
function(ndt_test_program target)
  add_executable(${target} ${ARGN})
  ndt_plain_options(${target})
  if(NDT_SANITIZE MATCHES "address")
    target_link_options(${target} PRIVATE -fsanitize=${NDT_SANITIZE})
  else()
    ndt_sanitize(${target})
  endif()
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
  # -pthread as gRPC's users have it, or the headers parsed once would not be theirs.
  target_compile_options(${target} PRIVATE -pthread
    "$<$<COMPILE_LANGUAGE:CXX>:${NDT_PRECOMPILED_OPTIONS}>")
endfunction()

# ndt_tests(<area> LIBS lib… SOURCES file… [LABEL unit] [TOGETHER pattern] [LONG pattern] [SHARDS n]
# [BACKENDS path] [COST n] [OPTIMISED]):
# one executable, one ctest entry per TEST, but one for all that match the pattern, because they share
# a costly fixture; or n entries, where a process costs more than a test, as it does under sanitizers.
# BACKENDS: where plugins are looked for, when not where they are built. COST: entries of a higher one
# begin first, so that no long one is left for the end. LONG: these do what others do, a hundred times
# or with large networks: under sanitizers they are an entry of their own, labelled slow. OPTIMISED: it
# computes much itself.
function(ndt_tests area)
  cmake_parse_arguments(ARG "OPTIMISED" "LABEL;TIMEOUT;TOGETHER;LONG;SHARDS;BACKENDS;COST" "LIBS;SOURCES" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_BACKENDS)
    set(ARG_BACKENDS ${NDT_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  ndt_test_program(${area}_test ${ARG_SOURCES})
  ndt_batch(${area}_test)  # gtest's and gmock's templates, once for a dozen files: half of the compile time
  target_compile_options(${area}_test PRIVATE -Wno-shadow)  # of what a file before it has
  if(ARG_OPTIMISED)
    target_precompile_headers(${area}_test REUSE_FROM ndt_optimised_test_headers)
  else()
    # A third of the compile time: what is tested is optimised, most tests are not.
    target_compile_options(${area}_test PRIVATE -O0)
    target_precompile_headers(${area}_test REUSE_FROM ndt_test_headers)
  endif()
  target_link_libraries(${area}_test PRIVATE ${ARG_LIBS} ndt_test_build)
  set(filter "*")
  set(environment "NDTRAIN_BACKEND_PATH=${ARG_BACKENDS}")
  if(ARG_TOGETHER)
    add_test(NAME ${area}_together COMMAND ${area}_test --gtest_filter=${ARG_TOGETHER})
    set_tests_properties(${area}_together PROPERTIES
      LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ENVIRONMENT "${environment}")
    set(filter "-${ARG_TOGETHER}")
  endif()
  if(filter STREQUAL "-*")
    return()
  endif()
  if(NDT_SANITIZE AND ARG_LONG)
    add_test(NAME ${area}_long COMMAND ${area}_test "--gtest_filter=${ARG_LONG}")
    set_tests_properties(${area}_long PROPERTIES
      LABELS slow TIMEOUT 3600 COST ${ARG_COST} ENVIRONMENT "${environment}")
    set(filter "-${ARG_LONG}")
    if(ARG_TOGETHER)
      string(APPEND filter ":${ARG_TOGETHER}")
    endif()
  endif()
  if(NDT_SANITIZE AND NOT ARG_SHARDS)
    # Under a sanitizer a process takes longer to begin than most tests do, but not than costly ones.
    set(ARG_SHARDS 3)
    if(ARG_COST GREATER 0)
      set(ARG_SHARDS 8)
    endif()
    set(ARG_TIMEOUT 1800)
  endif()
  if(NOT ARG_SHARDS)
    gtest_discover_tests(${area}_test DISCOVERY_TIMEOUT 120 TEST_FILTER "${filter}"
      PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ENVIRONMENT "${environment}")
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    set(name ${area}_${shard}_of_${ARG_SHARDS})
    add_test(NAME ${name} COMMAND ${area}_test "--gtest_filter=${filter}")
    set_tests_properties(${name} PROPERTIES
      LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ENVIRONMENT
      "${environment};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
