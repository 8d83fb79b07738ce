#include "backends/cpu/kernels/by_way_of.h"

#include "backends/cpu/gemm/packed_constant.h"
#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

template <typename From, typename To>
void convert(const void* from, void* to, int64_t n) {
  using Wide = std::conditional_t<(sizeof(From) > sizeof(To)), From, To>;
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      as<To>(to)[i] = static_cast<To>(static_cast<Wide>(as<From>(from)[i]));
    }
  });
}

// f.template operator()<T>() with the type that `t` is, where it is narrower than Wide; else
// nothing.
template <typename Wide, typename F>
bool if_narrow(ndt_dtype t, F f) {
  if constexpr (std::is_same_v<Wide, float>) {
    if (!is_half(t)) return false;
    for_float(t, "", [&]<typename T>() {
      if constexpr (sizeof(T) < sizeof(Wide)) f.template operator()<T>();
    });
  } else {
    if (t == NDT_F32 || t == NDT_F64 || is_half(t) || t == NDT_BOOL) return false;
    if (size_of(t) == int64_t{sizeof(Wide)}) return false;
    for_int(t, "", [&]<typename T>() {
      if constexpr (sizeof(T) < sizeof(Wide)) f.template operator()<T>();
    });
  }
  return true;
}

template <typename Wide>
constexpr ndt_dtype kDType = std::is_same_v<Wide, float> ? NDT_F32 : NDT_I64;

template <typename Wide>
bool is_narrow(ndt_dtype t) {
  return if_narrow<Wide>(t, []<typename T>() {});
}

// A port whose data passes through the wide type.
template <typename Wide>
struct Passage {
  int port;
  ndt_dtype dtype;
  int64_t n;
  int64_t at = 0;  // wide numbers into the workspace
  std::shared_ptr<const std::byte[]> constant = nullptr;

  void widen(const void* from, void* to) const {
    if_narrow<Wide>(dtype, [&]<typename T>() { convert<T, Wide>(from, to, n); });
  }
  void narrow(const void* from, void* to) const {
    if_narrow<Wide>(dtype, [&]<typename T>() { convert<Wide, T>(from, to, n); });
  }
};

// The node as the wide kernel sees it.
template <typename Wide>
struct WideNode {
  std::vector<ndt_tensor_type> in, out;
  std::vector<const void*> constants;
  std::vector<Passage<Wide>> reads, writes;
  ndt_node node;

  explicit WideNode(const Node& from) : node(from.abi()) {
    for (int i = 0; i < from.inputs(); ++i) {
      in.push_back(node.inputs[i]);
      constants.push_back(from.constant(i));
      if (!is_narrow<Wide>(in[i].dtype)) continue;
      Passage<Wide> p{.port = i, .dtype = in[i].dtype, .n = count(in[i])};
      in[i].dtype = kDType<Wide>;
      if (constants[i]) {
        p.constant = packed_constant(from.constant_id(i), std::string(name_of(in[i].dtype)),
                                     bytes(in[i]), [&](void* to) { p.widen(constants[i], to); });
        constants[i] = p.constant.get();
      }
      reads.push_back(std::move(p));
    }
    for (int i = 0; i < from.outputs(); ++i) {
      out.push_back(node.outputs[i]);
      if (!is_narrow<Wide>(out[i].dtype)) continue;
      if (count(out[i]) > 0 && out[i].dims[0] > 1 &&
          out[i].strides[0] != count(out[i], 1, out[i].rank)) {
        unsupported("gaps in the output");
      }
      writes.push_back({.port = i, .dtype = out[i].dtype, .n = count(out[i])});
      out[i].dtype = kDType<Wide>;
    }
    node.inputs = in.data();
    node.outputs = out.data();
    node.constants = constants.data();
  }
};

template <typename Wide>
class ByWayOf final : public Kernel {
 public:
  ByWayOf(const Node& of, WideNode<Wide> node, KernelFactory make)
      : kernel_(make(Node(node.node, false, of.less_memory()))),
        reads_(std::move(node.reads)),
        writes_(std::move(node.writes)),
        inputs_(of.inputs()),
        outputs_(of.outputs()) {
    int64_t numbers = whole_lines(
        ceil_div(static_cast<int64_t>(kernel_->workspace_bytes), int64_t{sizeof(Wide)}));
    packed_inputs = kernel_->packed_inputs;
    for (Passage<Wide>& p : reads_) {
      if (packed_inputs >> p.port & 1) p.constant.reset();
      packed_inputs |= uint64_t{p.constant != nullptr} << p.port;
      if (packed_inputs >> p.port & 1) continue;
      p.at = numbers;
      numbers += whole_lines(p.n);
    }
    for (Passage<Wide>& p : writes_) {
      p.at = numbers;
      numbers += whole_lines(p.n);
    }
    workspace_bytes = static_cast<size_t>(numbers) * sizeof(Wide);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const void* wide_in[NDT_MAX_PORTS];
    void* wide_out[NDT_MAX_PORTS];
    std::copy_n(in, inputs_, wide_in);
    std::copy_n(out, outputs_, wide_out);
    for (const Passage<Wide>& p : reads_) {
      if (p.constant) {
        wide_in[p.port] = p.constant.get();
      } else if (!(packed_inputs >> p.port & 1)) {
        p.widen(in[p.port], as<Wide>(workspace) + p.at);
        wide_in[p.port] = as<Wide>(workspace) + p.at;
      }
    }
    for (const Passage<Wide>& p : writes_) wide_out[p.port] = as<Wide>(workspace) + p.at;
    kernel_->run(wide_in, wide_out, workspace);
    for (const Passage<Wide>& p : writes_) p.narrow(wide_out[p.port], out[p.port]);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<Passage<Wide>> reads_, writes_;
  int inputs_, outputs_;
};

}  // namespace

std::unique_ptr<Kernel> by_way_of_f32(const Node& node, KernelFactory make) {
  return std::make_unique<ByWayOf<float>>(node, WideNode<float>(node), make);
}

std::unique_ptr<Kernel> by_way_of_i64(const Node& node, KernelFactory make) {
  return std::make_unique<ByWayOf<int64_t>>(node, WideNode<int64_t>(node), make);
}

}  // namespace ndtrain::cpu
