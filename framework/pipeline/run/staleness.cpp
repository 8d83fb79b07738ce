#include "framework/pipeline/run/staleness.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

template <typename T>
T positive(std::string_view of, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || !(value > T{0}) || !std::isfinite(static_cast<double>(value))) {
    throw Error("staleness: '", of, ":", text, "' wants a positive number");
  }
  return value;
}

void add(Staleness& to, std::string_view one) {
  const size_t colon = one.find(':');
  const std::string_view name = one.substr(0, colon);
  const std::string_view value =
      colon == std::string_view::npos ? std::string_view{} : one.substr(colon + 1);
  if (name == "lr-scale") {
    to.lr_scale_steps = positive<int64_t>(name, value);
  } else if (name == "delay-compensation") {
    to.compensation = positive<double>(name, value);
  } else if (one == "predict") {
    to.predict = true;
  } else {
    throw Error("staleness: '", one,
                "'; there are lr-scale:STEPS, predict and delay-compensation:LAMBDA");
  }
}

}  // namespace

void Staleness::check(const OptimizerConfig& optimizer) const {
  if (lr_scale_steps < 0) throw Error("staleness: lr-scale over ", lr_scale_steps, " steps");
  if (!(compensation >= 0) || !std::isfinite(compensation)) {
    throw Error("staleness: delay-compensation by ", compensation);
  }
  if (predict && optimizer.layer_decay != 1) {
    throw Error("staleness: predict goes on at one rate for all layers, and layer decay ",
                optimizer.layer_decay, " gives each its own; leave one away");
  }
  if (predict && optimizer.has_rates()) {
    throw Error("staleness: predict goes on at one rate for all parameters, and that of '",
                optimizer.lr_of[0].first, "' is another; leave one away");
  }
  using Kind = OptimizerConfig::Kind;
  const bool steps_by_momentum =
      (optimizer.kind == Kind::kSgd || optimizer.kind == Kind::kRmsProp) && optimizer.momentum > 0;
  if (predict && !steps_by_momentum) {
    throw Error(
        "staleness: predict goes on as the momentum does, which is that of sgd or rmsprop; take "
        "one of them, with momentum, or leave predict away");
  }
}

double Staleness::lr_factor(int updates_late, int64_t step) const {
  if (lr_scale_steps == 0 || updates_late < 2) return 1;
  const double done = static_cast<double>(step) / static_cast<double>(lr_scale_steps);
  return std::pow(updates_late, std::min(done, 1.0) - 1);
}

Staleness parse_staleness(std::string_view text) {
  Staleness s;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    add(s, text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return s;
}

}  // namespace ndtrain
