// The keys of a job's JSON, taken one after the other.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {

template <typename E, size_t N>
using Names = std::array<std::pair<E, std::string_view>, N>;

template <typename E, size_t N>
std::string_view name_in(const Names<E, N>& names, E value) {
  for (const auto& [e, name] : names) {
    if (e == value) return name;
  }
  throw Error("an enumerator without a name");
}

// Takes keys out of an object; whatever is left at the end is unknown. Where a key is absent, what
// it would be taken to stays. All throw Error naming the key and its value.
class JobReader {
 public:
  explicit JobReader(Json json) : json_(std::move(json)) {}

  template <typename T>
  void take(const char* key, T& to) {
    const auto it = json_.find(key);
    if (it == json_.end()) return;
    try {
      to = it->get<T>();
    } catch (const Json::exception&) {
      throw Error("job: ", key, " ", json_text(*it), " is of the wrong kind");
    }
    if constexpr (std::is_integral_v<T>) {
      if (it->is_number_float() && it->template get<double>() != static_cast<double>(to)) {
        throw Error("job: ", key, " ", json_text(*it), " is no whole number");
      }
    }
    json_.erase(it);
  }
  template <typename E, size_t N>
  void take(const char* key, const Names<E, N>& names, E& to) {
    std::string text(name_in(names, to)), known;
    take(key, text);
    for (const auto& [e, name] : names) {
      if (name == text) {
        to = e;
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    throw Error("job: ", key, " '", text, "': there are ", known);
  }
  template <typename T>
  void take(const char* key, std::optional<T>& to) {
    if (!json_.contains(key)) return;
    T value{};
    take(key, value);
    to = std::move(value);
  }
  void take(const char* key, Promote& to);         // true, false or "rule"
  void take(const char* key, StoreSelection& to);  // "all", a number, or a list of names
  void finish(std::string_view kind) const;        // `kind`: of the job, for the error

 private:
  Json json_;
};

}  // namespace ndtrain::tuner
