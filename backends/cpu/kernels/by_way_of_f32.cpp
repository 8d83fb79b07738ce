#include "backends/cpu/kernels/by_way_of_f32.h"

#include "backends/cpu/gemm/packed_constant.h"
#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

template <typename From, typename To>
void convert(const void* from, void* to, int64_t n) {
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      as<To>(to)[i] = static_cast<To>(static_cast<float>(as<From>(from)[i]));
    }
  });
}

// A port whose data passes through f32.
struct Passage {
  int port;
  ndt_dtype dtype;
  int64_t n;
  int64_t at = 0;  // floats into the workspace
  std::shared_ptr<const std::byte[]> constant = nullptr;

  void widen(const void* from, void* to) const {
    dtype == NDT_F16 ? convert<F16, float>(from, to, n) : convert<BF16, float>(from, to, n);
  }
  void narrow(const void* from, void* to) const {
    dtype == NDT_F16 ? convert<float, F16>(from, to, n) : convert<float, BF16>(from, to, n);
  }
};

// The node as the f32 kernel sees it.
struct F32Node {
  std::vector<ndt_tensor_type> in, out;
  std::vector<const void*> constants;
  std::vector<Passage> reads, writes;
  ndt_node node;

  explicit F32Node(const Node& from) : node(from.abi()) {
    for (int i = 0; i < from.inputs(); ++i) {
      in.push_back(node.inputs[i]);
      constants.push_back(from.constant(i));
      if (!is_half(in[i].dtype)) continue;
      Passage p{.port = i, .dtype = in[i].dtype, .n = count(in[i])};
      in[i].dtype = NDT_F32;
      if (constants[i]) {
        p.constant = packed_constant(from.constant_id(i), "f32", bytes(in[i]),
                                     [&](void* to) { p.widen(constants[i], to); });
        constants[i] = p.constant.get();
      }
      reads.push_back(std::move(p));
    }
    for (int i = 0; i < from.outputs(); ++i) {
      out.push_back(node.outputs[i]);
      if (!is_half(out[i].dtype)) continue;
      if (count(out[i]) > 0 && out[i].dims[0] > 1 &&
          out[i].strides[0] != count(out[i], 1, out[i].rank)) {
        unsupported("gaps in the output");
      }
      writes.push_back({.port = i, .dtype = out[i].dtype, .n = count(out[i])});
      out[i].dtype = NDT_F32;
    }
    node.inputs = in.data();
    node.outputs = out.data();
    node.constants = constants.data();
  }
};

class ByWayOfF32 final : public Kernel {
 public:
  ByWayOfF32(const Node& of, F32Node node, KernelFactory make)
      : kernel_(make(Node(node.node, false, of.less_memory()))),
        reads_(std::move(node.reads)),
        writes_(std::move(node.writes)),
        inputs_(of.inputs()),
        outputs_(of.outputs()) {
    int64_t floats = whole_lines(ceil_div(static_cast<int64_t>(kernel_->workspace_bytes), 4));
    packed_inputs = kernel_->packed_inputs;
    for (Passage& p : reads_) {
      if (packed_inputs >> p.port & 1) p.constant.reset();
      packed_inputs |= uint64_t{p.constant != nullptr} << p.port;
      if (packed_inputs >> p.port & 1) continue;
      p.at = floats;
      floats += whole_lines(p.n);
    }
    for (Passage& p : writes_) {
      p.at = floats;
      floats += whole_lines(p.n);
    }
    workspace_bytes = static_cast<size_t>(floats) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const void* wide_in[NDT_MAX_PORTS];
    void* wide_out[NDT_MAX_PORTS];
    std::copy_n(in, inputs_, wide_in);
    std::copy_n(out, outputs_, wide_out);
    for (const Passage& p : reads_) {
      if (p.constant) {
        wide_in[p.port] = p.constant.get();
      } else if (!(packed_inputs >> p.port & 1)) {
        p.widen(in[p.port], as<float>(workspace) + p.at);
        wide_in[p.port] = as<float>(workspace) + p.at;
      }
    }
    for (const Passage& p : writes_) wide_out[p.port] = as<float>(workspace) + p.at;
    kernel_->run(wide_in, wide_out, workspace);
    for (const Passage& p : writes_) p.narrow(wide_out[p.port], out[p.port]);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<Passage> reads_, writes_;
  int inputs_, outputs_;
};

}  // namespace

std::unique_ptr<Kernel> by_way_of_f32(const Node& node, KernelFactory make) {
  return std::make_unique<ByWayOfF32>(node, F32Node(node), make);
}

}  // namespace ndtrain::cpu
