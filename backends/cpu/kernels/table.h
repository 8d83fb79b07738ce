// The table of what this plugin computes. Each kernel file puts its own ops there: the plugin is a
// module, made of every object of its sources, so that none is dropped.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

struct ndt_kernel;

namespace ndtrain::cpu {

class Node;
using KernelFactory = std::unique_ptr<ndt_kernel> (*)(const Node&);

enum class Trait : uint8_t {
  kNone,
  kGapped,  // its output may have gaps after every image
  kPlain    // f16 and f64 take plain loops, some more than ten times slower than those of f32
};

struct KernelRow {
  std::string_view op;
  KernelFactory make;
  Trait trait = Trait::kNone;
};

// An object with static storage, at the end of a kernel file:
//   const Registered registered{{"Pad", pad_kernel}};
struct Registered {
  Registered(std::initializer_list<KernelRow> rows);
};

const KernelRow* find_kernel(std::string_view op);  // null: not here
std::string_view registered_twice();                // an op; "": none, as it must be

}  // namespace ndtrain::cpu
