#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/core/tensor.h"

namespace ndtrain {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Attr = std::variant<int64_t, double, std::string, Ints, Floats, Tensor>;

// A node's attributes by name. Inside a Graph they are complete: every attribute with a default is
// there, and nothing the op does not know (Graph::add sees to both). Getters throw Error naming the
// attribute when it is absent or of another type.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, Attr>> list) : map_(list) {}

  bool has(std::string_view name) const { return map_.find(name) != map_.end(); }
  const Attr& at(std::string_view name) const;  // of any type
  int64_t i(std::string_view name) const;
  double f(std::string_view name) const;
  bool flag(std::string_view name) const { return i(name) != 0; }
  const std::string& s(std::string_view name) const;
  const Ints& ints(std::string_view name) const;
  const Floats& floats(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;

  void set(std::string name, Attr value) {
    map_.insert_or_assign(std::move(name), std::move(value));
  }
  void erase(std::string_view name);
  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }
  size_t size() const { return map_.size(); }

 private:
  template <typename T>
  const T& get(std::string_view name, const char* kind) const;

  std::map<std::string, Attr, std::less<>> map_;
};

// What an op says of one of its attributes.
struct AttrSpec {
  enum class Kind { kInt, kFloat, kString, kInts, kFloats, kTensor };
  std::string_view name;
  Kind kind;
  std::optional<Attr> fallback = std::nullopt;  // the default, made explicit in every node
  bool required = false;                        // neither: the attribute may be absent
};

}  // namespace ndtrain
