#include "framework/sparse/selection/compressor.h"

#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/sparse/selection/compressors/make.h"

namespace ndtrain {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Compressor> (*make)(const CompressorOptions&);
};

constexpr std::array kCompressors = {Entry{"topk", compressors::topk},
                                     Entry{"randomk", compressors::randomk},
                                     Entry{"threshold-v", compressors::threshold_v},
                                     Entry{"threshold-v16", compressors::threshold_v16},
                                     Entry{"gaussian", compressors::gaussian},
                                     Entry{"signum", compressors::signum},
                                     Entry{"efsignum", compressors::efsignum}};

constexpr auto kNames = [] {
  std::array<std::string_view, kCompressors.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kCompressors[i].name;
  return names;
}();

}  // namespace

void Compressor::take(std::span<float> values, int64_t k, const Rng& rng, CompressorState& state,
                      CompressorScratch& scratch, Selection& out) const {
  const auto n = static_cast<int64_t>(values.size());
  if (k < 1) throw Error("compressor: asked for ", k, " of ", n, " elements");
  if (k < n || takes_all()) {
    take_some(values, k, rng, state, scratch, out);
  } else {
    std::vector<uint32_t> all(values.size());
    std::iota(all.begin(), all.end(), 0);
    move_out(values, std::move(all), out);
  }
  ++state.step;
}

std::unique_ptr<Compressor> make_compressor(std::string_view name,
                                            const CompressorOptions& options) {
  std::string known;
  for (const Entry& entry : kCompressors) {
    if (entry.name == name) return entry.make(options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error("there is no compressor '", name, "'; there are ", known);
}

std::span<const std::string_view> compressor_names() { return kNames; }

int64_t elements_to_send(int64_t n, double drop, int ranks) {
  if (n < 1 || n > limits::kSparseElements) {
    throw Error("a tensor of ", n, " elements cannot be sent sparsely: 1 to ",
                limits::kSparseElements, " can");
  }
  if (!(drop >= 0 && drop < 1)) {
    throw Error("drop is ", drop,
                "; it is the part of a gradient that is not sent: from 0 to below 1");
  }
  if (ranks < 1) throw Error("elements of ", ranks, " ranks are none");
  if (drop == 0) return n;
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(static_cast<double>(n) * (1 - drop) / ranks)));
}

}  // namespace ndtrain
