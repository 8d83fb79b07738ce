// Loads a plugin by its path, asks it for one graph that it takes and one that it refuses.
#include <iostream>

#include "framework/core/error.h"
#include "framework/runtime/executor.h"
using namespace ndtrain;

int main(int argc, char** argv) try {
  if (argc != 2) throw Error("usage: run_plugin libndt_NAME.so");
  const Device device(Backend::load(argv[1]));
  std::cout << "loaded " << device.numerics() << '\n';

  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {4}});
  const ValueId y = g.add1("Relu", {x});
  g.mark_output(y);
  const Plan plan(g, device);
  const Tensor given = Tensor::of<float>(DType::kF32, {4}, {-2, -1, 1, 2});
  std::cout << "relu";
  for (const double v : Executor(plan).run(std::vector{given})[0].to_doubles()) {
    std::cout << ' ' << v;
  }
  std::cout << '\n';

  g.set_outputs({g.add1("Exp", {g.add1("Sqrt", {y})})});
  try {
    const Plan refused(g, device);
    throw Error("the plugin took Exp and Sqrt");
  } catch (const Error& e) {
    std::cout << e.what() << '\n';
  }
} catch (const std::exception& e) {
  std::cerr << "run_plugin: " << e.what() << '\n';
  return 1;
}
