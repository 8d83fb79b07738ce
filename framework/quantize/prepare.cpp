#include "framework/quantize/prepare.h"

#include <algorithm>
#include <map>
#include <set>

#include "framework/graph/uses.h"
#include "framework/passes/fold.h"

namespace ndtrain {
namespace {

class Preparation {
 public:
  Preparation(const Model& model, const std::vector<std::string>& until)
      : m_(model), fixed_(until.begin(), until.end()), part_(fixed_) {
    fixed_.insert(m_.outputs.begin(), m_.outputs.end());
    for (size_t i = m_.nodes.size(); i-- > 0;) {
      const ModelNode& n = m_.nodes[i];
      if (in_part(n)) part_.insert(n.inputs.begin(), n.inputs.end());
    }
  }

  Model run() {
    drop_identities();
    fold_batch_norms();
    fold_transposes();
    drop_unread();
    return std::move(m_);
  }

 private:
  bool in_part(const ModelNode& n) const {
    return std::ranges::any_of(n.outputs, [&](const auto& out) { return part_.contains(out); });
  }

  void drop_identities() {
    std::map<std::string, std::string> by;
    std::vector<ModelNode> left;
    for (ModelNode& n : m_.nodes) {
      for (std::string& in : n.inputs) {
        if (const auto it = by.find(in); it != by.end()) in = it->second;
      }
      const bool nothing = n.op == "Identity" || (n.op == "Dropout" && n.outputs.size() == 1);
      if (nothing && in_part(n) && !fixed_.contains(n.outputs[0])) {
        by[n.outputs[0]] = n.inputs[0];
      } else {
        left.push_back(std::move(n));
      }
    }
    m_.nodes = std::move(left);
  }

  bool has_data(const std::string& name) const { return m_.initialisers.contains(name); }
  const Tensor& data_of(const std::string& name) const { return m_.initialisers.at(name); }

  void fold_batch_norms() {
    const Uses<std::string> uses = uses_of(m_, fixed_);
    for (ModelNode& bn : m_.nodes) {
      if (bn.op != "BatchNormalization" || bn.outputs.size() != 1 || !in_part(bn)) continue;
      if (bn.attrs.has("training_mode") && bn.attrs.flag("training_mode")) continue;
      const int from = uses.producer(bn.inputs[0]);
      if (from < 0 || uses.reads(bn.inputs[0]) != 1) continue;
      ModelNode& conv = m_.nodes[static_cast<size_t>(from)];
      if (conv.op != "Conv" || !std::all_of(conv.inputs.begin() + 1, conv.inputs.end(),
                                            [&](const auto& in) { return has_data(in); })) {
        continue;
      }
      if (!std::all_of(bn.inputs.begin() + 1, bn.inputs.end(),
                       [&](const auto& in) { return has_data(in); })) {
        continue;
      }
      fold(conv, bn);
    }
  }

  // Of matrices, as exporters leave them before a MatMul.
  void fold_transposes() {
    for (ModelNode& n : m_.nodes) {
      if (n.op != "Transpose" || !in_part(n) || fixed_.contains(n.outputs[0])) continue;
      if (!has_data(n.inputs[0]) || data_of(n.inputs[0]).shape().rank() != 2) continue;
      if (n.attrs.has("perm") && n.attrs.ints("perm") != Ints{1, 0}) continue;
      const Tensor& w = data_of(n.inputs[0]);
      const auto rows = static_cast<size_t>(w.shape()[0]),
                 columns = static_cast<size_t>(w.shape()[1]);
      const std::vector<double> from = w.to_doubles();
      std::vector<double> to(from.size());
      for (size_t i = 0; i < from.size(); ++i) to[i % columns * rows + i / columns] = from[i];
      m_.initialisers[n.outputs[0]] =
          Tensor::from_doubles({w.type().dtype, {w.shape()[1], w.shape()[0]}}, to);
      n.op.clear();
    }
  }

  // The convolution takes the place of both.
  void fold(ModelNode& conv, ModelNode& bn) {
    const double epsilon = bn.attrs.has("epsilon") ? bn.attrs.f("epsilon") : 1e-5;
    const ChannelAffine a =
        batch_norm_affine(data_of(bn.inputs[1]), data_of(bn.inputs[2]), data_of(bn.inputs[3]),
                          data_of(bn.inputs[4]), epsilon);
    const Tensor& w = data_of(conv.inputs[1]);
    std::vector<double> weights = w.to_doubles(), bias = a.offset;
    const size_t row = weights.size() / bias.size();
    for (size_t i = 0; i < weights.size(); ++i) weights[i] *= a.factor[i / row];
    if (conv.inputs.size() > 2) {
      const std::vector<double> b = data_of(conv.inputs[2]).to_doubles();
      for (size_t c = 0; c < bias.size(); ++c) bias[c] += b[c] * a.factor[c];
    }
    const std::string out = bn.outputs[0];
    const auto channels = static_cast<int64_t>(bias.size());
    m_.initialisers[out + "@weight"] = Tensor::from_doubles(w.type(), weights);
    m_.initialisers[out + "@bias"] = Tensor::from_doubles({DType::kF32, {channels}}, bias);
    conv.inputs = {conv.inputs[0], out + "@weight", out + "@bias"};
    conv.outputs = {out};
    bn.op.clear();
  }

  void drop_unread() {
    std::erase_if(m_.nodes, [](const ModelNode& n) { return n.op.empty(); });
    std::set<std::string> read = fixed_;
    for (const ModelNode& n : m_.nodes) read.insert(n.inputs.begin(), n.inputs.end());
    std::erase_if(m_.initialisers, [&](const auto& i) { return !read.contains(i.first); });
  }

  Model m_;
  std::set<std::string> fixed_;  // names that stay
  std::set<std::string> part_;   // values before `until`, and these
};

}  // namespace

Model prepared_for_quantization(const Model& model, const std::vector<std::string>& until) {
  return Preparation(model, until).run();
}

}  // namespace ndtrain
