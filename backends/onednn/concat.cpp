// Concat over the channels of images that do not lie plain: parts are copied, whole blocks or pixel
// by pixel.
#include <cstring>

#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

class Concat final : public Kernel {
 public:
  struct Part {
    int64_t image, place, bytes;  // bytes of an image, of a row, and where rows begin in those of y
  };

  Concat(std::vector<Part> parts, int64_t images, int64_t rows, int64_t image, int64_t row)
      : parts_(std::move(parts)), images_(images), rows_(rows), image_(image), row_(row) {}

  void run(const void* const* in, void* const* out, void*) const override {
    const auto parts = static_cast<int64_t>(parts_.size());
    parallel_tasks(images_ * parts, threads(), [&](int64_t task, int) {
      const int64_t n = task / parts, k = task % parts;
      const Part& p = parts_[static_cast<size_t>(k)];
      const char* from = static_cast<const char*>(in[k]) + n * p.image;
      char* to = static_cast<char*>(out[0]) + n * image_ + p.place;
      for (int64_t r = 0; r < rows_; ++r) {
        std::memcpy(to + r * row_, from + r * p.bytes, static_cast<size_t>(p.bytes));
      }
    });
  }

 private:
  std::vector<Part> parts_;
  int64_t images_, rows_, image_, row_;  // of y: bytes from image to image, from row to row
};

// The layout of the parts and y, which every part but the last fills in whole blocks.
Layout check(const Node& node, const ndt_tensor_type* in) {
  if (node.in(0).rank != 4 || node.i("axis") != 1) unsupported("it is not over channels of images");
  if (size_of(node.in(0).dtype) > 4 || count(node.out()) == 0)
    unsupported("it is empty or of 64 bits");
  Layout layout = Layout::kPlain;
  for (int k = 0; k < node.inputs() && layout == Layout::kPlain; ++k) {
    layout = layout_of(in[k], "an input");
  }
  if (layout == Layout::kPlain) unsupported("its parts are plain");
  for (int k = 0; k < node.inputs(); ++k) {
    if (node.constant(k)) unsupported("part ", k, " is constant");
    const bool whole = in[k].dims[1] % block() == 0 || k == node.inputs() - 1;
    if (layout == Layout::kBlocked && !whole) {
      unsupported("part ", k, " has ", in[k].dims[1], " channels, no multiple of ", block());
    }
  }
  return layout;
}

}  // namespace

std::unique_ptr<Kernel> prepare_concat(const ndt_device&, const Node& node) {
  std::vector<ndt_tensor_type> in;
  for (int k = 0; k < node.inputs(); ++k) in.push_back(node.in(k));
  const Layout layout = check(node, in.data());
  const ndt_tensor_type& y = node.out();
  if (!lies(y, layout) || has_gaps(y, layout)) unsupported("its output does not lie as its parts");
  const int64_t size = size_of(y.dtype);
  const bool last = layout == Layout::kLast;
  const int64_t rows = last ? y.dims[2] * y.dims[3] : 1;
  std::vector<Concat::Part> parts;
  int64_t place = 0;
  for (int k = 0; k < node.inputs(); ++k) {
    const ndt_tensor_type& x = in[static_cast<size_t>(k)];
    if (!lies(x, layout) || has_gaps(x, layout)) unsupported("part ", k, " lies otherwise");
    const int64_t image = image_extent(x, layout) * size;
    parts.push_back({image, place, image / rows});
    place += image / rows;
  }
  const int64_t image = image_extent(y, layout) * size;
  return std::make_unique<Concat>(std::move(parts), y.dims[0], rows, image, image / rows);
}

void prefer_concat(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const Layout layout = check(node, in);
  for (int k = 0; k < node.inputs(); ++k) set_layout(in[k], layout);
  set_layout(out[0], layout);
}

}  // namespace ndtrain::onednn
