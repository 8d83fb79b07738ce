set(NDT_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint>
  <cstring> <deque> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string>
  <string_view> <thread> <utility> <variant> <vector>)

# The first is for compiler caches, to see through them. gcc 12 warns of std::string where there is
# nothing (PR 105651), and of one in a precompiled header though it is a system's.
set(NDT_PRECOMPILED_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-restrict>")

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
