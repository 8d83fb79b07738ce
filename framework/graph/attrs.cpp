#include "framework/graph/attrs.h"

namespace ndtrain {

const Attr& Attrs::at(std::string_view name) const {
  const auto it = map_.find(name);
  if (it == map_.end()) throw Error("attribute ", name, " is missing");
  return it->second;
}

template <typename T>
const T& Attrs::get(std::string_view name, const char* kind) const {
  const T* v = std::get_if<T>(&at(name));
  if (!v) throw Error("attribute ", name, " is not ", kind);
  return *v;
}

int64_t Attrs::i(std::string_view name) const { return get<int64_t>(name, "an integer"); }
double Attrs::f(std::string_view name) const { return get<double>(name, "a float"); }
const std::string& Attrs::s(std::string_view name) const {
  return get<std::string>(name, "a string");
}
const Ints& Attrs::ints(std::string_view name) const {
  return get<Ints>(name, "a list of integers");
}
const Floats& Attrs::floats(std::string_view name) const {
  return get<Floats>(name, "a list of floats");
}
const Tensor& Attrs::tensor(std::string_view name) const { return get<Tensor>(name, "a tensor"); }

void Attrs::erase(std::string_view name) {
  if (const auto it = map_.find(name); it != map_.end()) map_.erase(it);
}

}  // namespace ndtrain
