# ndt_precompile(<target> [header…]): the standard library's headers that most files read, and those
# named, are parsed once for the target. Each file still includes what it uses.
set(NDT_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint>
  <cstring> <deque> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string>
  <string_view> <thread> <utility> <variant> <vector>)

function(ndt_precompile target)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE more)
  list(TRANSFORM NDT_STANDARD_HEADERS REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>"
    OUTPUT_VARIABLE standard)
  target_precompile_headers(${target} PRIVATE ${standard} ${more})
  # What a compiler cache needs to see through it.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
