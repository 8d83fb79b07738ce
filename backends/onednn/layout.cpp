#include "backends/onednn/layout.h"

#include "backends/onednn/dnnl.h"
#include "backends/onednn/node.h"

namespace ndtrain::onednn {
namespace {

// Strides of extents 1 say nothing.
bool agree(const ndt_tensor_type& a, const ndt_tensor_type& b, int first) {
  for (int d = first; d < a.rank; ++d) {
    const bool steps = d == 1 && b.channel_block > 1 ? a.dims[1] > b.channel_block : a.dims[d] > 1;
    if (steps && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

// In the given layout, but for a gap after every image.
bool lies_in_rows(const ndt_tensor_type& t, Layout layout) {
  const ndt_tensor_type want = dense(t, layout);
  if (t.channel_block > 1 ? t.channel_block != want.channel_block : want.channel_block > 1) {
    return false;
  }
  if (!agree(t, want, 1)) return false;
  return t.rank == 0 || t.dims[0] <= 1 || t.strides[0] >= want.strides[0];
}

// A pixel of at least C elements, and everything else in step with it.
bool lies_last(const ndt_tensor_type& t) {
  if (t.rank != 4 || t.channel_block > 1) return false;
  if (t.dims[1] > 1 && t.strides[1] != 1) return false;
  const int64_t h = t.dims[2], w = t.dims[3], pixel = t.strides[3];
  if (pixel < t.dims[1] && w > 1) return false;
  const int64_t step = w > 1           ? pixel
                       : h > 1         ? t.strides[2]
                       : t.dims[0] > 1 ? t.strides[0]
                                       : t.dims[1];
  return step >= t.dims[1] && (h == 1 || t.strides[2] == w * step) &&
         (t.dims[0] <= 1 || t.strides[0] == h * w * step);
}

}  // namespace

bool lies(const ndt_tensor_type& t, Layout layout) {
  if (layout == Layout::kLast) return lies_last(t);
  return (layout == Layout::kPlain || t.rank == 4) && lies_in_rows(t, layout);
}

int block() { return has_avx512() ? 16 : 8; }

void set_layout(ndt_tensor_type& t, Layout layout) {
  t.channel_block = layout == Layout::kBlocked ? block() : 0;
  if (layout == Layout::kLast) {
    t.strides[1] = 1;
    t.strides[3] = t.dims[1];
    t.strides[2] = t.strides[3] * t.dims[3];
    t.strides[0] = t.strides[2] * t.dims[2];
    return;
  }
  int64_t step = layout == Layout::kBlocked ? t.channel_block : 1;
  for (int d = t.rank; d-- > 0;) {
    t.strides[d] = step;
    step *= d == 1 && layout == Layout::kBlocked ? (t.dims[1] + block() - 1) / block() : t.dims[d];
  }
}

Layout layout_of(const ndt_tensor_type& t, const char* what) {
  if (t.rank == 4 && t.channel_block > 1) {
    if (lies(t, Layout::kBlocked)) return Layout::kBlocked;
    unsupported(what, " ", describe(t), " is not blocked as this plugin blocks, by ", block());
  }
  if (t.channel_block > 1) unsupported(what, " ", describe(t), " is blocked and not of rank 4");
  const bool plain = lies(t, Layout::kPlain), last = lies_last(t);
  if (last && (!plain || size_of(t.dtype) == 1)) return Layout::kLast;
  if (plain) return Layout::kPlain;
  unsupported(what, " ", describe(t), " is neither row-major nor channels-last");
}

int64_t image_extent(const ndt_tensor_type& t, Layout layout) {
  ndt_tensor_type one = dense(t, layout);
  return one.rank == 0 ? 1 : one.strides[0];
}

int64_t image_step(const ndt_tensor_type& t, Layout layout) {
  return t.rank > 0 && t.dims[0] > 1 ? t.strides[0] : image_extent(t, layout);
}

bool has_gaps(const ndt_tensor_type& t, Layout layout) { return !agree(t, dense(t, layout), 0); }

ndt_tensor_type dense(ndt_tensor_type t, Layout layout) {
  set_layout(t, layout);
  return t;
}

}  // namespace ndtrain::onednn
