#include "framework/runtime/abi_node.h"

namespace ndtrain {
namespace {

// Lists of floats and tensors are for shape arithmetic and importers; no kernel reads one.
struct ToAbi {
  const char* name;
  std::vector<ndt_attr>& out;

  void operator()(const int64_t& v) const { out.push_back({name, 1, &v, 0, nullptr}); }
  void operator()(const double& v) const { out.push_back({name, -1, nullptr, v, nullptr}); }
  void operator()(const std::string& v) const { out.push_back({name, -2, nullptr, 0, v.c_str()}); }
  void operator()(const Ints& v) const {
    out.push_back({name, static_cast<int64_t>(v.size()), v.data(), 0, nullptr});
  }
  void operator()(const Floats&) const {}
  void operator()(const Tensor&) const {}
};

}  // namespace

AbiNode::AbiNode(const Node& n, std::span<const ndt_tensor_type> types) {
  for (ValueId v : n.inputs) inputs_.push_back(v == kNone ? ndt_tensor_type{} : types[index(v)]);
  for (ValueId v : n.outputs) outputs_.push_back(types[index(v)]);
  for (const auto& [name, attr] : n.attrs) std::visit(ToAbi{name.c_str(), attrs_}, attr);
  constants_.resize(n.inputs.size());
  ids_.resize(n.inputs.size());
  node_ = {.op = n.op.c_str(),
           .inputs = inputs_.data(),
           .outputs = outputs_.data(),
           .attrs = attrs_.data(),
           .n_inputs = static_cast<int32_t>(inputs_.size()),
           .n_outputs = static_cast<int32_t>(outputs_.size()),
           .n_attrs = static_cast<int32_t>(attrs_.size()),
           .constants = constants_.data(),
           .constant_ids = ids_.data()};
}

}  // namespace ndtrain
