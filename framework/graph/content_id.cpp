#include "framework/graph/model.h"
#include "framework/graph/op.h"

namespace ndtrain {
namespace {

class ContentHash {
 public:
  explicit ContentHash(const Model& model) : model_(model) {}

  void run() {
    hash_.field(static_cast<int64_t>(model_.inputs.size()));
    for (const ModelInput& in : model_.inputs) {
      define(in.name);
      hash_.field(name_of(in.dtype)).field(static_cast<int64_t>(in.dims.size()));
      for (int64_t d : in.dims) hash_.field(d);
    }
    hash_.field(static_cast<int64_t>(model_.nodes.size()));
    for (const ModelNode& n : model_.nodes) node(n);
    hash_.field(static_cast<int64_t>(model_.outputs.size()));
    for (const std::string& name : model_.outputs) use(name);
  }

  Sha256& hash() { return hash_; }

 private:
  // Values count by their place: the number of their definition, or their bytes.
  void define(const std::string& name) { numbers_.emplace(name, numbers_.size()); }

  void use(const std::string& name) {
    const auto weight = model_.initialisers.find(name);
    if (weight != model_.initialisers.end() && !numbers_.contains(name)) {
      hash_.field("weight");
      tensor(weight->second);
      define(name);
      return;
    }
    const auto it = numbers_.find(name);
    hash_.field(it == numbers_.end() ? int64_t{-1} : static_cast<int64_t>(it->second));
  }

  void tensor(const Tensor& t) {
    hash_.field(name_of(t.type().dtype)).field(static_cast<int64_t>(t.shape().rank()));
    for (int64_t d : t.shape().dims()) hash_.field(d);
    hash_.update(t.data(), t.bytes());
  }

  void node(const ModelNode& n) {
    hash_.field(n.op).field(static_cast<int64_t>(n.inputs.size()));
    for (const std::string& name : n.inputs) use(name);
    hash_.field(static_cast<int64_t>(n.outputs.size()));
    for (const std::string& name : n.outputs) define(name);
    const Attrs attrs = with_defaults(n);
    hash_.field(static_cast<int64_t>(attrs.size()));
    for (const auto& [name, attr] : attrs) {
      hash_.field(name).field(static_cast<int64_t>(attr.index()));
      std::visit([&](const auto& v) { value(v); }, attr);
    }
  }

  // As a file would bring them back: an import states what was left out.
  static Attrs with_defaults(const ModelNode& n) {
    Attrs attrs = n.attrs;
    const OpDef* def = try_find_op(n.op);
    for (const AttrSpec& s : def ? def->attrs : std::vector<AttrSpec>()) {
      if (s.fallback && !attrs.has(s.name)) attrs.set(std::string(s.name), *s.fallback);
    }
    return attrs;
  }

  void value(int64_t v) { hash_.field(v); }
  void value(double v) {
    v = static_cast<float>(v);  // what ONNX keeps of it
    hash_.update(&v, sizeof v);
  }
  void value(const std::string& v) { hash_.field(v); }
  void value(const Tensor& v) { tensor(v); }
  template <typename T>
  void value(const std::vector<T>& list) {
    hash_.field(static_cast<int64_t>(list.size()));
    for (const T& v : list) value(v);
  }

  const Model& model_;
  Sha256 hash_;
  std::map<std::string, size_t> numbers_;
};

}  // namespace

Digest content_id(const Model& model, std::span<const std::string> metadata_keys) {
  ContentHash content(model);
  content.run();
  for (const std::string& key : metadata_keys) {
    const auto it = model.metadata.find(key);
    content.hash().field(key).field(it == model.metadata.end() ? "" : it->second);
  }
  return content.hash().finish();
}

}  // namespace ndtrain
