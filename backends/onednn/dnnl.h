// oneDNN as this plugin uses it. What differs between versions 2 and 3 of the library is in
// dnnl_v2.cpp and dnnl_v3.cpp, one of which is built: operation descriptors and scales.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/onednn/layout.h"
#include "backends/onednn/pool_window.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

bool has_avx512();
bool has_vnni();                                 // products of bytes are summed without saturation
bool has_bf16();                                 // products of bf16 at twice the rate of f32
bool has_amx();                                  // products of bf16 and of bytes many times as fast
std::string library_name();                      // "2.6.3 avx512_core_bf16"
dnnl::memory::data_type data_type(ndt_dtype t);  // throws Unsupported for what the library lacks

// `images` of the tensor, without a gap after each.
Desc desc_of(const ndt_tensor_type& t, Layout layout, int64_t images);
Desc plain_desc(const Dims& dims, ndt_dtype t);
Desc transposed_desc(const Dims& dims, ndt_dtype t);  // of a matrix: its columns lie together
// A matrix of which a column lies together, and the next `step` elements further in each row.
Desc columns_desc(const Dims& dims, int64_t step, ndt_dtype t);
// Of `dims`, the first two of which lie in turn: [1], [0], [2], …
Desc swapped_desc(const Dims& dims, ndt_dtype t);
Desc any_desc(const Dims& dims, ndt_dtype t);  // laid out as the primitive likes

// Elements [first, first + dims) of `whole`, and how many bytes into it they begin. Throws
// Unsupported where blocks would be cut.
struct DescPart {
  Desc desc;
  int64_t offset;
};
DescPart cut(const Desc& whole, const Dims& dims, const Dims& first);

// One primitive with its ports in a fixed order. Immutable; run() may be called from any threads at
// once and computes in the calling thread alone.
class Primitive {
 public:
  using Ports = std::vector<std::pair<int, Desc>>;          // DNNL_ARG_…
  using Fixed = std::vector<std::pair<int, dnnl::memory>>;  // what every run reads: scales
  // A slow reference implementation is refused: the cpu plugin has better.
  Primitive(const dnnl::primitive& primitive, Ports ports, Fixed fixed, size_t scratch,
            std::string algorithm);

  const Desc& desc(int arg) const;
  size_t scratch() const { return scratch_; }                  // bytes
  const std::string& algorithm() const { return algorithm_; }  // "jit:avx512_core"
  // `data` in the order of the ports. Allocates what dnnl_primitive_execute() does by itself, a map
  // of a few arguments per call; no option of the library avoids it.
  void run(void* const* data, void* scratch) const;

 private:
  // dnnl ties a buffer to its memory object, so a call needs objects of its own: a free list, as
  // long as most calls that ran at once.
  struct Bound;
  std::unique_ptr<Bound> take() const;

  dnnl::primitive primitive_;
  Ports ports_;
  Fixed fixed_;
  size_t scratch_;
  std::string algorithm_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Bound>> free_;

 public:
  ~Primitive();
};

using PrimitivePtr = std::shared_ptr<const Primitive>;

// y = activation(x): x kept between alpha and beta for Clip; see dnnl's table for the others.
struct Activation {
  dnnl::algorithm kind;
  float alpha = 0, beta = 0;
};

// dst = factor * activation(scales[c] * result + sum_scale * (dst - sum_zero)) + dst_zero
struct Finish {
  std::vector<float> scales = {};  // none, one, or one per output channel
  bool sum = false;
  float sum_scale = 1;
  int32_t sum_zero = 0;
  dnnl::memory::data_type sum_type = dnnl::memory::data_type::undef;  // as what dst is read
  std::optional<Activation> activation = {};
  float factor = 1;
  int32_t src_zero = 0, dst_zero = 0;
};

struct Convolution {
  Desc src, weights, dst;
  std::optional<Desc> bias;
  Dims strides, dilations, begin, end;  // dilations as the library counts: 0 is none
  Finish finish = {};
};

// All throw Unsupported when the library has no fast implementation.
PrimitivePtr convolution(const Convolution& c);  // SRC, WEIGHTS, [BIAS,] DST
// Backwards `c.src` and `c.weights` are what is wanted in turn; neither bias nor finish.
PrimitivePtr convolution_back_data(const Convolution& c);     // DIFF_DST, WEIGHTS, DIFF_SRC
PrimitivePtr convolution_back_weights(const Convolution& c);  // SRC, DIFF_DST, DIFF_WEIGHTS
PrimitivePtr pooling(const PoolWindow& w, const Desc& x, const Desc& y);  // SRC, DST
PrimitivePtr elementwise(const Activation& a, const Desc& x);             // SRC, DST
PrimitivePtr relu_back(const Desc& x);                                    // DIFF_DST, DST, DIFF_SRC
// SRC_0, SRC_1, DST; `x` is that of SRC_0 and DST, `y` may have one value where it has many.
PrimitivePtr binary(dnnl::algorithm kind, const Desc& x, const Desc& y);
PrimitivePtr matmul(const Desc& a, const Desc& b, const std::optional<Desc>& bias, const Desc& y,
                    const Finish& finish);  // SRC, WEIGHTS, [BIAS,] DST
PrimitivePtr softmax(const Desc& x);        // over the last axis; SRC, DST
// Over the last axis; SRC, SCALE, [SHIFT,] DST, scale and shift of f32.
PrimitivePtr layer_norm(const Desc& x, float epsilon, bool shift);
PrimitivePtr reorder(const Desc& from, const Desc& to, const Finish& f = {});  // FROM, TO

// Memory of the library's own.
struct Packed {
  explicit Packed(const Desc& desc);  // not filled; throws bad_alloc
  dnnl::memory memory;
  void* data() const { return memory.get_data_handle(); }
};
// Filled by a reorder.
std::shared_ptr<const Packed> pack(const Desc& from, const void* data, const Desc& to);

}  // namespace ndtrain::onednn
