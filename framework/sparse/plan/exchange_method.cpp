#include "framework/sparse/plan/exchange_method.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/parallel/plan_by_sizes.h"

namespace ndtrain {
namespace {

constexpr std::string_view kUsualCompressor = "threshold-v16";  // of SparseSyncOptions

std::vector<std::string_view> fields_of(std::string_view word) {
  std::vector<std::string_view> fields;
  for (size_t at = 0;;) {
    const size_t colon = word.find(':', at);
    fields.push_back(word.substr(at, colon - at));
    if (colon == std::string_view::npos) return fields;
    at = colon + 1;
  }
}

// The numbers behind the name, each within its bounds.
class Numbers {
 public:
  Numbers(std::string_view word, std::string_view form)
      : word_(word), form_(form), fields_(fields_of(word)) {}

  size_t count() const { return fields_.size() - 1; }

  void check_count(size_t least, size_t most) const {
    if (count() < least || count() > most) fail("as " + std::string(form_));
  }

  int64_t integer(size_t i, const char* what, int64_t least, int64_t most) const {
    const auto n = number<int64_t>(i);
    if (n < least || n > most) fail(fmt::format("{}: {} to {}", what, least, most));
    return n;
  }

  std::string name(size_t i, std::span<const std::string_view> names) const {
    const std::string_view field = fields_[i + 1];
    if (std::ranges::count(names, field) == 0) {
      fail(fmt::format("there is no compressor {}; there are {}", field, fmt::join(names, ", ")));
    }
    return std::string(field);
  }

  double below_1(size_t i, const char* what) const {
    const auto x = number<double>(i);
    if (!(x >= 0 && x < 1)) fail(fmt::format("{}: 0 to below 1", what));
    return x;
  }

 private:
  template <class T>
  T number(size_t i) const {
    const std::string_view field = fields_[i + 1];
    T value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size()) {
      fail("as " + std::string(form_));
    }
    return value;
  }

  [[noreturn]] void fail(const std::string& why) const { throw Error(word_, ": ", why); }

  std::string_view word_, form_;
  std::vector<std::string_view> fields_;
};

ExchangeMethod sparse_method_of(std::string_view word) {
  const Numbers numbers(word, "sparse:1:0.99, a staleness and a drop");
  numbers.check_count(2, 3);
  SparseSyncOptions options;
  options.staleness =
      static_cast<int>(numbers.integer(0, "the staleness", 0, limits::kSparseStaleness));
  options.drop = numbers.below_1(1, "the drop");
  if (numbers.count() > 2) options.compressor = numbers.name(2, compressor_names());
  return {.sync = "sparse", .options = options};
}

ExchangeMethod low_rank_method_of(std::string_view word) {
  const Numbers numbers(word, "powersgd:4, the columns");
  numbers.check_count(1, 1);
  return {.sync = "powersgd",
          .options = PowerSgdOptions{.rank = static_cast<int>(numbers.integer(
                                         0, "the columns", 1, limits::kPowerSgdRank))}};
}

ExchangeMethod local_method_of(std::string_view word, const std::string& name) {
  const Numbers numbers(word,
                        "diloco:50 or diloco:50:4:5, the inner steps, fragments and their overlap");
  numbers.check_count(1, 3);
  LocalStepsOptions options;
  const int64_t inner = numbers.integer(0, "the inner steps", 1, limits::kInnerSteps);
  if (name == "local") options = averaging(inner);
  options.inner_steps = inner;
  if (numbers.count() > 1) {
    options.fragments = static_cast<int>(numbers.integer(1, "the fragments", 1, inner));
  }
  if (numbers.count() > 2) options.overlap = numbers.integer(2, "the overlap", 0, inner - 1);
  return {.sync = name, .options = options, .drain_every = drained_every(inner)};
}

}  // namespace

std::string ExchangeMethod::text() const {
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&options)) {
    std::string word = fmt::format("{}:{}:{}", sync, sparse->staleness, sparse->drop);
    return sparse->compressor == kUsualCompressor ? word : word + ":" + sparse->compressor;
  }
  if (const auto* low_rank = std::get_if<PowerSgdOptions>(&options)) {
    return fmt::format("{}:{}", sync, low_rank->rank);
  }
  if (const auto* local = std::get_if<LocalStepsOptions>(&options)) {
    std::string word = fmt::format("{}:{}", sync, local->inner_steps);
    if (local->fragments > 1 || local->overlap > 0) word += fmt::format(":{}", local->fragments);
    if (local->overlap > 0) word += fmt::format(":{}", local->overlap);
    return word;
  }
  return sync;
}

std::string ExchangeMethod::flags() const {
  std::string all = "--sync " + sync;
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&options)) {
    if (sparse->staleness > 0) all += fmt::format(" --staleness {}", sparse->staleness);
    if (sparse->compressor != kUsualCompressor) all += " --compressor " + sparse->compressor;
    all += fmt::format(" --drop {}", sparse->drop);
  } else if (const auto* low_rank = std::get_if<PowerSgdOptions>(&options)) {
    all += fmt::format(" --factor-rank {}", low_rank->rank);
  } else if (const auto* local = std::get_if<LocalStepsOptions>(&options)) {
    all += fmt::format(" --inner-steps {}", local->inner_steps);
    if (local->fragments > 1) all += fmt::format(" --fragments {}", local->fragments);
    if (local->overlap > 0) all += fmt::format(" --overlap {}", local->overlap);
  }
  return all;
}

ExchangeMethod parse_exchange_method(std::string_view word) {
  const std::string name(word.substr(0, word.find(':')));
  if (name == "sparse") return sparse_method_of(word);
  if (name == "powersgd") return low_rank_method_of(word);
  if (name == "local" || name == "diloco") return local_method_of(word, name);
  try {
    (void)goes_by_sizes(word);
  } catch (const Error& e) {
    throw Error(word, ": ", e.what(), "; and sparse:S:DROP, powersgd:R, local:H, diloco:H");
  }
  return {.sync = std::string(word)};
}

int64_t drained_every(int64_t inner_steps) {
  const int64_t least = SlowLinkTraining::Options{}.drain_every;
  return (least + inner_steps - 1) / inner_steps * inner_steps;
}

std::vector<ExchangeMethod> slow_link_methods() {
  std::vector<ExchangeMethod> all;
  for (const char* word :
       {"sparse:0:0.99", "sparse:1:0.99", "sparse:0:0.99:topk", "sparse:1:0.99:topk", "powersgd:4",
        "local:50", "diloco:50", "diloco:50:4:5"}) {
    all.push_back(parse_exchange_method(word));
  }
  return all;
}

std::vector<ExchangeMethod> usual_methods() {
  std::vector<ExchangeMethod> all;
  for (const char* word : {"auto", "ddp", "blocking"}) all.push_back(parse_exchange_method(word));
  for (ExchangeMethod& method : slow_link_methods()) all.push_back(std::move(method));
  return all;
}

}  // namespace ndtrain
