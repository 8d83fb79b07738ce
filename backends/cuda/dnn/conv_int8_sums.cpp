#include <algorithm>
#include <cstdlib>

#include "backends/cuda/dnn/conv_int8.h"
#include "backends/cuda/dnn/conv_kernel.h"
#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

constexpr size_t kLine = 256;

size_t whole_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

void check_weights(const Node& node, const BytePorts& p) {
  if (node.in(p.w).dtype != NDT_I8) unsupported("its weights are not i8");
  (void)node.need_constant(p.w, "weight");
  if (p.w_zero < 0) return;
  for (const float zero : node.known(p.w_zero, "zero point of weights")) {
    if (zero != 0) unsupported("the zero point of its weights is ", zero, ", not 0");
  }
}

ndt_tensor_type as(ndt_tensor_type t, ndt_dtype dtype) {
  t.dtype = dtype;
  return t;
}

// cuDNN's fast engines for bytes hand their sums out as f32: whole numbers below 2^24 are exact.
bool sums_fit_f32(const Node& node, int i) {
  constexpr int64_t kLargestByte = 128, kExact = int64_t{1} << 24;
  const ndt_tensor_type& w = node.in(i);
  const auto* data = static_cast<const int8_t*>(node.constant(i));
  const int64_t each = count(w, 1);
  for (int64_t m = 0; m < w.dims[0]; ++m) {
    int64_t sum = 0;
    for (int64_t k = 0; k < each; ++k) sum += std::abs(data[m * each + k]);
    if (sum * kLargestByte >= kExact) return false;
  }
  return true;
}

// Of x with its padding written out.
AskedConv ask_signed(const Node& node, const BytePorts& p) {
  AskedConv a = ask_conv(ConvPass::kForward, node, as(node.in(p.x), NDT_I8), node.in(p.w),
                         as(node.out(), NDT_I8));
  a.y.dtype = sums_fit_f32(node, p.w) ? NDT_F32 : NDT_I32;
  for (size_t d = 0; d < a.window.begin.size(); ++d) {
    a.x.dims[d + 2] += a.window.begin[d] + a.window.end[d];
    a.window.begin[d] = a.window.end[d] = 0;
  }
  return a;
}

ByteStage stage_of(const ByteConv& c, const AskedConv& a) {
  ByteStage s{.x_signed = c.x_signed, .images = c.images, .channels = a.x.dims[1]};
  std::copy_n(c.x_dims, ByteConv::kSpatial, s.x_dims);
  std::copy_n(c.begin, ByteConv::kSpatial, s.begin);
  std::copy_n(c.x_strides, 2 + ByteConv::kSpatial, s.x_strides);
  const int missing = ByteConv::kSpatial - (a.x.rank - 2);
  for (int d = 2; d < a.x.rank; ++d) s.dims[d - 2 + missing] = a.x.dims[d];
  return s;
}

std::shared_ptr<const Memory> sums_of_weights(const ndt_device& device, const Node& node, int i) {
  const ndt_tensor_type& w = node.in(i);
  const auto* data = static_cast<const int8_t*>(node.constant(i));
  const int64_t channels = w.dims[0], each = count(w, 1);
  return packed_weights(device, node.constant_id(i), "sums " + plugin::describe(w),
                        static_cast<size_t>(channels) * sizeof(int32_t), [&](void* to) {
                          for (int64_t m = 0; m < channels; ++m) {
                            int32_t sum = 0;
                            for (int64_t k = 0; k < each; ++k) sum += data[m * each + k];
                            static_cast<int32_t*>(to)[m] = sum;
                          }
                        });
}

class SumsByCudnn final : public Kernel {
 public:
  SumsByCudnn(Plan plan, const ByteConv& c, const BytePorts& p, const AskedConv& a,
              std::shared_ptr<const Memory> weights, std::shared_ptr<const Memory> sums)
      : plan_(std::move(plan)),
        conv_(c),
        ports_(p),
        stage_(stage_of(c, a)),
        in_f32_(a.y.dtype == NDT_F32),
        weights_(std::move(weights)),
        weight_sums_(std::move(sums)) {
    x_at_ = whole_lines(plan_.workspace_bytes());
    sums_at_ = x_at_ + whole_lines(static_cast<size_t>(count(a.x)));
    workspace_bytes = sums_at_ + static_cast<size_t>(count(a.y)) * sizeof(int32_t);
  }

  void run(ndt_stream& stream, const void* const* in, void* const* out,
           void* workspace) const override {
    auto* const bytes = static_cast<char*>(workspace);
    ByteConvData data = data_of(ports_, in, out);
    stage_bytes(stage_, data.x, data.x_zero, reinterpret_cast<int8_t*>(bytes + x_at_),
                stream.stream);
    void* const bound[] = {bytes + x_at_, weights_->data(), bytes + sums_at_};
    plan_.run(stream.dnn, bound, workspace);
    if (in_f32_) {
      data.float_sums = static_cast<const float*>(bound[2]);
    } else {
      data.int_sums = static_cast<const int32_t*>(bound[2]);
    }
    data.w_sums = static_cast<const int32_t*>(weight_sums_->data());
    convolve_bytes(conv_, data, stream.stream);
  }

 private:
  Plan plan_;
  ByteConv conv_;
  BytePorts ports_;
  ByteStage stage_;
  bool in_f32_;
  std::shared_ptr<const Memory> weights_, weight_sums_;
  size_t x_at_ = 0, sums_at_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> sums_by_cudnn(ndt_device& device, const Node& node, const ByteConv& c,
                                      const BytePorts& p) {
  constexpr bool kLast = true;
  check_weights(node, p);
  const AskedConv a = ask_signed(node, p);
  const Layer layer{.key = key_of(a, kLast) + (a.y.dtype == NDT_F32 ? " to f32" : " to i32"),
                    .graph = [&](int64_t images) { return plain_graph(a, kLast, images); },
                    .images = a.x.dims[0],
                    .fallbacks = Fallbacks::kNot};
  const PlanningHandle::Lease lease(device);
  auto kernel = std::make_unique<SumsByCudnn>(choose(device, lease.handle(), layer), c, p, a,
                                              weights_port(device, node, p.w, a.w, kLast).data,
                                              sums_of_weights(device, node, p.w));
  kernel->packed_inputs = packed_bits(node, p.w);
  return kernel;
}

}  // namespace ndtrain::cuda
