// Prints the best instruction set that the plugin can be built for and this CPU has, by the same
// test as the loader (framework/runtime/backend.cpp).
#include <cstdio>

int main() {
#if defined(__x86_64__)
  std::puts(__builtin_cpu_supports("x86-64-v4")   ? "x86-64-v4"
            : __builtin_cpu_supports("x86-64-v3") ? "x86-64-v3"
                                                  : "x86-64");
#endif
}
