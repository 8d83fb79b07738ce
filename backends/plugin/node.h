// What prepare() was asked, for the author of a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/plugin/answer.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain::plugin {

std::string_view name_of(ndt_dtype t);                        // "f32"
int64_t size_of(ndt_dtype t);                                 // bytes; 0 for NDT_ABSENT
int64_t count(const ndt_tensor_type& t, int begin, int end);  // product of dims [begin, end)
int64_t count(const ndt_tensor_type& t, int begin = 0);       // and of all from `begin`
std::string describe(const ndt_tensor_type& t);  // "f32[2,3]", "f32[1,64,7,7] blocked by 16"

// A view of the node; valid as long as what it was made from.
class Node {
 public:
  explicit Node(const ndt_node& node);

  std::string_view op() const { return node_.op; }
  int inputs() const { return node_.n_inputs; }
  int outputs() const { return node_.n_outputs; }
  bool has(int i) const { return i >= 0 && i < inputs() && node_.inputs[i].dtype != NDT_ABSENT; }
  bool has_output(int i) const { return i < outputs() && node_.outputs[i].dtype != NDT_ABSENT; }
  const ndt_tensor_type& in(int i) const;  // throws for a port that is not there
  const ndt_tensor_type& out(int i = 0) const;

  // Attributes are complete inside a Graph; a getter without `none` throws when one is absent.
  int64_t i(std::string_view name) const;
  int64_t i(std::string_view name, int64_t none) const { return has_attr(name) ? i(name) : none; }
  double f(std::string_view name) const;
  double f(std::string_view name, double none) const { return has_attr(name) ? f(name) : none; }
  std::string_view s(std::string_view name) const;
  std::string_view s(std::string_view name, std::string_view none) const {
    return has_attr(name) ? s(name) : none;
  }
  std::span<const int64_t> ints(std::string_view name) const;  // empty when absent
  bool has_attr(std::string_view name) const { return find(name) != nullptr; }

  const void* constant(int i) const;  // null: input i changes from run to run
  uint64_t constant_id(int i) const;  // 0: has no identity
  const void* need_constant(int i, std::string_view what) const;       // or unsupported()
  std::vector<float> known(int i, std::string_view what) const;        // f32, bf16, bytes or i32
  float known_single(int i, std::string_view what, float none) const;  // `none`: not there

  ndt_node with(const ndt_tensor_type* in, const ndt_tensor_type* out) const;  // other port types
  const ndt_node& abi() const { return node_; }

  std::string describe() const;  // "Conv(f32[1,3,8,8], f32[4,3,3,3])"

 private:
  const ndt_attr* find(std::string_view name) const;
  const ndt_attr& get(std::string_view name) const;

  const ndt_node& node_;
};

}  // namespace ndtrain::plugin
