#include "backends/onednn/conv_shape.h"

#include <cstring>

namespace ndtrain::onednn {
namespace {

// More than this, and the zeros cost more than another implementation would.
constexpr int64_t kMostMerged = 16;

}  // namespace

Dims ConvShape::weights() const {
  if (groups == 1) return {out, in, height, width};
  return {groups, out, in, height, width};
}

Dims ConvShape::as_asked() const {
  if (groups == merged) return {out * merged, wide_in, height, width};
  return {groups / merged, out * merged, wide_in, height, width};
}

std::vector<std::byte> ConvShape::widened(const void* weights, size_t size) const {
  const auto row = static_cast<size_t>(in * height * width) * size;
  const auto wide_row = static_cast<size_t>(wide_in * height * width) * size;
  std::vector<std::byte> wide(static_cast<size_t>(groups * out) * wide_row);
  for (int64_t o = 0; o < groups * out; ++o) {
    const auto place = static_cast<size_t>(o / out % merged) * row;
    std::memcpy(wide.data() + static_cast<size_t>(o) * wide_row + place,
                static_cast<const std::byte*>(weights) + static_cast<size_t>(o) * row, row);
  }
  return wide;
}

ConvShape conv_shape(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& w) {
  if (x.rank != 4 || w.rank != 4) unsupported("its input has rank ", x.rank, ", not 4");
  if (count(x) == 0 || count(w) == 0) unsupported("it is empty");
  const auto strides = node.ints("strides"), dilations = node.ints("dilations"),
             pads = node.ints("pads");
  if (strides.size() != 2 || dilations.size() != 2 || pads.size() != 4) {
    invalid("strides, dilations or pads are not for two spatial dims");
  }
  ConvShape s;
  s.groups = node.i("group");
  if (s.groups < 1 || w.dims[0] % s.groups || w.dims[1] * s.groups != x.dims[1]) {
    invalid("group ", s.groups, " does not suit ", describe(w));
  }
  s.out = w.dims[0] / s.groups;
  s.in = s.wide_in = w.dims[1];
  s.height = w.dims[2];
  s.width = w.dims[3];
  s.strides = {strides[0], strides[1]};
  s.dilations = {dilations[0] - 1, dilations[1] - 1};
  s.begin = {pads[0], pads[1]};
  s.end = {pads[2], pads[3]};
  return s;
}

bool merge_groups(ConvShape& s) {
  const int64_t b = block(), most = std::min(s.groups, kMostMerged);
  for (int64_t m = 1; m <= most; ++m) {
    if (s.groups % m || m * s.in % b || m * s.out % b) continue;
    s.merged = m;
    s.wide_in = m * s.in;
    return true;
  }
  return false;
}

void fill_blocks(ConvShape& s) {
  if (s.depthwise()) return;
  if (s.groups == 1) {
    s.wide_in = std::max<int64_t>(s.in, block());
  } else if (!merge_groups(s)) {
    unsupported("its groups of ", s.in, " by ", s.out, " channels do not fill blocks of ", block());
  }
}

}  // namespace ndtrain::onednn
