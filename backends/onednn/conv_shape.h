// A convolution of images as the library is asked for it.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/node.h"

namespace ndtrain::onednn {

// Groups and channels of a convolution, and what becomes of them: the library is fast where the
// channels of a group fill whole blocks. Few channels are widened with zeros (the padding lanes of
// a blocked input), `merged` small groups become one that is zero off its diagonal.
struct ConvShape {
  int64_t groups = 1, out = 0, in = 0;  // channels per group
  int64_t merged = 1, wide_in = 0;      // of the library's groups: `out * merged`, `wide_in`
  int64_t height = 1, width = 1;        // of the kernel
  Dims strides, dilations, begin, end;

  bool depthwise() const { return groups > 1 && in == 1 && out == 1; }
  bool few_channels() const { return groups == 1 && in <= 3; }  // such images are read plain
  bool changed() const { return merged > 1 || wide_in != in; }
  Dims weights() const;   // [G,] O, I, H, W as they come
  Dims as_asked() const;  // as the library is given them
  // Weights of elements of `size` bytes, widened.
  std::vector<std::byte> widened(const void* weights, size_t size) const;
};

// Of a node with a convolution's attributes, images `x` [N, C, H, W] and weights `w`. Throws
// Unsupported for another rank.
ConvShape conv_shape(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& w);
// For inputs blocked by block(): throws Unsupported where the groups cannot be merged to blocks.
void fill_blocks(ConvShape& s);
// Merges small groups to whole blocks. False where that is not possible.
bool merge_groups(ConvShape& s);

}  // namespace ndtrain::onednn
