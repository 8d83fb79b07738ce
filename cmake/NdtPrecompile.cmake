set(NDT_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint>
  <cstring> <deque> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string>
  <string_view> <thread> <utility> <variant> <vector>)

# The first is for compiler caches, to see through them. gcc 12 to 14 warn of std::string where there is
# nothing (PR 105651), and of one in a precompiled header though it is a system's.
set(NDT_PRECOMPILED_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,15>>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-restrict>")

# ndt_precompile(<target> [header…]): the standard library's headers that most files read, and those
# named, are parsed once for the target. Each file still includes what it uses.
function(ndt_precompile target)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE more)
  list(TRANSFORM NDT_STANDARD_HEADERS REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>"
    OUTPUT_VARIABLE standard)
  target_precompile_headers(${target} PRIVATE ${standard} ${more})
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${NDT_PRECOMPILED_OPTIONS}>")
endfunction()

# ndt_batch(<target>): its files are compiled a dozen at a time, which parses what they share once.
# Names without linkage must differ within a folder. A file that has definitions of its own
# is compiled by itself.
option(NDT_BATCH "compile a dozen cold files at a time" ON)
function(ndt_batch target)
  if(NDT_BATCH)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # Says of a file's own types, in a batch, that a header might have them.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()
