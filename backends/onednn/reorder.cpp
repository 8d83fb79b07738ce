// Reorder: the same values in another layout.
#include <algorithm>
#include <cstdint>

#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

// Values are moved, not read: any dtype of a size will do.
ndt_tensor_type movable(ndt_tensor_type t) {
  switch (size_of(t.dtype)) {
    case 1:
      t.dtype = NDT_U8;
      return t;
    case 2:
      t.dtype = NDT_BF16;
      return t;
    case 4:
      t.dtype = NDT_F32;
      return t;
    default:
      unsupported("elements of ", size_of(t.dtype), " bytes are not moved");
  }
}

// Elements of 2 bytes where the library would change them: without AVX-512.
class HalfMove final : public Kernel {
 public:
  HalfMove(const ndt_tensor_type& from, const ndt_tensor_type& to) : from_(from), to_(to) {}

  void run(const void* const* in, void* const* out, void*) const override {
    const auto* x = static_cast<const uint16_t*>(in[0]);
    auto* y = static_cast<uint16_t*>(out[0]);
    parallel_tasks(from_.image.n, threads(), [&](int64_t image, int) {
      move_image(x + image * from_.image.step, y + image * to_.image.step);
    });
  }

 private:
  // Where the elements of a type are: of extents beyond its rank there is one.
  struct Place {
    struct Extent {
      int64_t n = 1, step = 0;
    };
    Extent image, channel, row, pixel;
    int64_t block = 1;

    explicit Place(const ndt_tensor_type& t) : block(std::max(1, t.channel_block)) {
      Extent* const extents[] = {&image, &channel, &row, &pixel};
      for (int d = 0; d < t.rank; ++d) *extents[d] = {t.dims[d], t.strides[d]};
    }
    int64_t of_channel(int64_t c) const { return c / block * channel.step + c % block; }
    int64_t lanes() const { return (channel.n + block - 1) / block * block; }
  };

  void move_image(const uint16_t* x, uint16_t* y) const {
    for (int64_t c = 0; c < to_.lanes(); ++c) {
      const bool padding = c >= to_.channel.n;
      const uint16_t* const from = padding ? nullptr : x + from_.of_channel(c);
      uint16_t* const to = y + to_.of_channel(c);
      for (int64_t h = 0; h < to_.row.n; ++h) {
        for (int64_t w = 0; w < to_.pixel.n; ++w) {
          to[h * to_.row.step + w * to_.pixel.step] =
              padding ? 0 : from[h * from_.row.step + w * from_.pixel.step];
        }
      }
    }
  }

  const Place from_, to_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_reorder(const ndt_device&, const Node& node) {
  const ndt_tensor_type x = movable(node.in(0)), y = movable(node.out());
  if (node.in(0).dtype != node.out().dtype) unsupported("its dtype changes");
  if (x.rank != y.rank || !std::equal(x.dims, x.dims + x.rank, y.dims)) {
    invalid("its dims change to ", describe(y));
  }
  if (x.rank < 1 || count(x) == 0) unsupported("it is empty or a scalar");
  const Layout from = layout_of(x, "input 0"), to = layout_of(y, "output 0");
  if (size_of(x.dtype) == 2 && !has_avx512() && x.rank <= 4)
    return std::make_unique<HalfMove>(x, y);
  Sliced::Plan plan{.images = x.dims[0], .sizes = {1}};
  plan.make = [=](int64_t images) {
    return reorder(desc_of(x, from, images), desc_of(y, to, images));
  };
  plan.ports.push_back(input_port(0, x, from));
  set_output(plan, y, to);
  return std::make_unique<Sliced>(std::move(plan));
}

}  // namespace ndtrain::onednn
