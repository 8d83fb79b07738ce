#include "backends/onednn/conv_cut.h"

namespace ndtrain::onednn {
namespace {

using Part = Sliced::Plan::Part;

constexpr int64_t kTile = 4;  // blocks of channels that the library computes at once

int64_t bytes_of_channel(const ndt_tensor_type& t) {
  return t.dims[2] * t.dims[3] * size_of(t.dtype);
}
int64_t bytes_of_row(const ndt_tensor_type& t) { return t.dims[1] * t.dims[3] * size_of(t.dtype); }

// Channels of the output, or whole groups of one channel each.
Part of_channels(AskedConv a, const Desc& weights, int64_t images, const Run& run) {
  const bool depthwise = a.shape.depthwise();
  a.y.dims[1] = run.n;
  if (depthwise) {
    a.x.dims[1] = a.shape.groups = run.n;
  } else {
    a.shape.groups = a.shape.merged = 1;
    a.shape.out = run.n;
  }
  Dims at(a.shape.as_asked().size(), 0);
  at[0] = run.first;
  const DescPart w = cut(weights, a.shape.as_asked(), at);
  std::vector<int64_t> offsets = {depthwise ? run.first * bytes_of_channel(a.x) : 0, w.offset};
  if (a.how.bias) {
    const DescPart b = cut(*a.how.bias, {run.n}, {run.first});
    a.how.bias = b.desc;
    offsets.push_back(b.offset);
  }
  offsets.push_back(run.first * bytes_of_channel(a.y));
  return {a.make(images, w.desc), std::move(offsets)};
}

Part of_rows(AskedConv a, const Desc& weights, const Run& run) {
  const ConvShape& s = a.shape;
  const int64_t reach = (s.height - 1) * (s.dilations[0] + 1) + 1;
  const int64_t top = run.first * s.strides[0] - s.begin[0];
  const int64_t bottom = top + (run.n - 1) * s.strides[0] + reach;
  const int64_t first = std::max<int64_t>(top, 0), end = std::min(bottom, a.x.dims[2]);
  if (first >= end) unsupported("rows of nothing but padding");
  a.x.dims[2] = end - first;
  a.y.dims[2] = run.n;
  a.how.begin[0] = first - top;
  a.how.end[0] = bottom - end;
  std::vector<int64_t> offsets = {first * bytes_of_row(a.x), 0};
  if (a.how.bias) offsets.push_back(0);
  offsets.push_back(run.first * bytes_of_row(a.y));
  return {a.make(1, weights), std::move(offsets)};
}

}  // namespace

std::vector<Part> cut_image(const AskedConv& a, const Desc& weights, int64_t images, int64_t n) {
  const bool rows = a.to == Layout::kLast, one_group = a.shape.groups == a.shape.merged;
  if (!rows && !one_group && !a.shape.depthwise()) return {};
  if (images > 1 && (rows || a.shape.depthwise())) return {};  // whole images fill slices up
  const int64_t channels = a.y.dims[1];
  // Whole tiles where that leaves no thread with much more than its share.
  const int64_t tile = kTile * block(), most = ((channels + tile - 1) / tile + n - 1) / n * tile;
  const int64_t grain = most * n * 10 <= channels * 11 ? tile : block();
  const std::vector<Run> all = rows ? runs(a.y.dims[2], 1, n) : runs(channels, grain, n);
  const std::string algorithm = a.make(images, weights)->algorithm();
  std::vector<Part> parts;
  for (const Run& run : all) {
    parts.push_back(rows ? of_rows(a, weights, run) : of_channels(a, weights, images, run));
    if (parts.back().primitive->algorithm() != algorithm) return {};
  }
  return parts;
}

}  // namespace ndtrain::onednn
