#include "framework/comm/native_collective.h"

#include <algorithm>

#include "framework/comm/library_calls.h"

namespace ndtrain {
namespace {

using Kind = CommOp::Kind;

}  // namespace

// The library's parts are equally long: where these are not, they are laid out with room between.
std::optional<Transport::Request> NativeCollective::begin(Transport& transport) {
  on_device_ = transport.collects_on_device();
  if (on_device_) {
    const std::vector<LibraryCall> calls = calls_on_device(op_, place_);
    if (calls.empty()) return std::nullopt;
    return transport.collect(calls, op_.after);
  }
  const size_t ranks = op_.group.size();
  size_t most = 0;
  for (size_t p = 0; p < ranks; ++p) most = std::max(most, part(p).size());
  const bool equal = most * ranks == op_.data.size();
  const auto at = [&](size_t place) { return in_.data() + place * most; };
  LibraryCollective what = LibraryCollective::kAllReduce;
  std::span<float> in, out;
  if (op_.kind == Kind::kAllGather) {
    what = LibraryCollective::kAllGather;
    if (!equal) {
      in_.resize(most * ranks);
      std::ranges::copy(part(place_), at(place_));
    }
    in = equal ? part(place_) : std::span(at(place_), most);
    out = equal ? op_.data : std::span(in_);
  } else if (op_.kind == Kind::kReduceScatter) {
    what = LibraryCollective::kReduceScatter;
    in = summands();
    if (!equal) {
      const std::vector<float> all(in.begin(), in.end());
      in_.assign(most * ranks, 0.0F);
      for (size_t p = 0; p < ranks; ++p) {
        std::copy_n(all.begin() + op_.part_begin[p], part(p).size(), at(p));
      }
      in = in_;
    }
    out_.resize(most);
    out = out_;
  } else {
    in = out = summands();
  }
  if (std::max(in.size(), out.size()) == 0) return std::nullopt;
  const LibraryCall call{what, in, out};
  return transport.collect(std::span(&call, 1), op_.after);
}

// What this rank adds: `data` where it may change, or a copy.
std::span<float> NativeCollective::summands() {
  const bool adds = op_.leaf_begin[place_] < op_.leaf_begin[place_ + 1];
  const bool changes = !adds || !op_.more_subtrees.empty();
  const bool all_change =
      op_.kind == Kind::kAllReduce || (op_.kind == Kind::kReduce && op_.group[place_] == op_.root);
  if (!all_change && (changes || op_.kind == Kind::kReduce)) {
    in_.assign(op_.data.begin(), op_.data.end());
  }
  const std::span<float> sums = in_.empty() ? op_.data : std::span(in_);
  if (!adds) std::ranges::fill(sums, 0.0F);
  for (const float* more : op_.more_subtrees) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  }
  return sums;
}

void NativeCollective::take() {
  if (on_device_) return;
  if (op_.kind == Kind::kReduceScatter) {
    std::copy_n(out_.begin(), part(place_).size(), part(place_).begin());
  } else if (op_.kind == Kind::kAllGather && !in_.empty()) {
    const size_t most = in_.size() / op_.group.size();
    for (size_t p = 0; p < op_.group.size(); ++p) {
      if (p == place_) continue;
      std::copy_n(in_.data() + p * most, part(p).size(), part(p).begin());
    }
  }
  in_ = {};
  out_ = {};
}

}  // namespace ndtrain
