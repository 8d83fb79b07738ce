#include "backends/onednn/dnnl_v2.h"

#include <omp.h>

#include <algorithm>

#include "backends/onednn/node.h"

namespace ndtrain::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// The library is built for OpenMP; threads are the host's. The setting belongs to the thread that
// makes or runs a primitive.
void stay_in_this_thread() {
  static thread_local const bool set = (omp_set_num_threads(1), true);
  (void)set;
}

Tag plain_tag(int rank) {
  static constexpr Tag kTags[] = {Tag::a,    Tag::a,     Tag::ab,     Tag::abc,
                                  Tag::abcd, Tag::abcde, Tag::abcdef, Tag::abcdefg};
  if (rank >= static_cast<int>(std::size(kTags))) unsupported("has rank ", rank);
  return kTags[rank];
}

dnnl::primitive_attr attributes(const Finish& f) {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!f.scales.empty()) a.set_output_scales(f.scales.size() == 1 ? 0 : 1 << 1, f.scales);
  if (f.src_zero) a.set_zero_points(DNNL_ARG_SRC, 0, {f.src_zero});
  if (f.dst_zero) a.set_zero_points(DNNL_ARG_DST, 0, {f.dst_zero});
  dnnl::post_ops post;
  if (f.sum) post.append_sum(f.sum_scale, f.sum_zero, f.sum_type);
  if (f.activation) {
    post.append_eltwise(1.0F, f.activation->kind, f.activation->alpha, f.activation->beta);
  }
  a.set_post_ops(post);
  return a;
}

// What every primitive is made by: `describe` gives the library's primitive descriptor.
template <typename P, typename F>
PrimitivePtr make(const char* what, const std::vector<int>& args, const F& describe) {
  stay_in_this_thread();
  try {
    const auto d = describe();
    Primitive::Ports ports;
    for (const int arg : args) ports.emplace_back(arg, d.query_md(dnnl::query::exec_arg_md, arg));
    return std::make_shared<Primitive>(P(d), std::move(ports), d.scratchpad_desc().get_size(),
                                       d.impl_info_str());
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    unsupported("oneDNN has no ", what, " for it: ", e.what());
  }
}

}  // namespace

bool has_avx512() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & 0x20U) != 0;
}

bool has_vnni() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & 0x440U) != 0;
}

std::string library_name() {
  const dnnl_version_t* v = dnnl_version();
  const char* isa = "sse41";
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx:
      isa = "avx";
      break;
    case dnnl::cpu_isa::avx2:
      isa = "avx2";
      break;
    case dnnl::cpu_isa::avx2_vnni:
      isa = "avx2_vnni";
      break;
    case dnnl::cpu_isa::avx512_core:
      isa = "avx512_core";
      break;
    case dnnl::cpu_isa::avx512_core_vnni:
      isa = "avx512_core_vnni";
      break;
    case dnnl::cpu_isa::avx512_core_bf16:
      isa = "avx512_core_bf16";
      break;
    case dnnl::cpu_isa::avx512_core_amx:
      isa = "avx512_core_amx";
      break;
    default:
      break;
  }
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch) + " " + isa;
}

Type data_type(ndt_dtype t) {
  switch (t) {
    case NDT_F32:
      return Type::f32;
    case NDT_BF16:
      return Type::bf16;
    case NDT_I8:
      return Type::s8;
    case NDT_U8:
      return Type::u8;
    case NDT_I32:
      return Type::s32;
    default:
      unsupported("dtype ", name_of(t), " is not for oneDNN");
  }
}

Desc desc_of(const ndt_tensor_type& t, Layout layout, int64_t images) {
  Dims dims(t.dims, t.dims + t.rank);
  if (dims.empty()) dims.push_back(1);
  dims[0] = images;
  const Type type = data_type(t.dtype);
  if (layout == Layout::kBlocked) return {dims, type, block() == 16 ? Tag::nChw16c : Tag::nChw8c};
  if (layout == Layout::kLast) return {dims, type, Tag::nhwc};
  return {dims, type, plain_tag(static_cast<int>(dims.size()))};
}

Desc plain_desc(const Dims& dims, ndt_dtype t) {
  return {dims, data_type(t), plain_tag(static_cast<int>(dims.size()))};
}

Desc transposed_desc(const Dims& dims, ndt_dtype t) { return {dims, data_type(t), Tag::ba}; }

Desc any_desc(const Dims& dims, ndt_dtype t) { return {dims, data_type(t), Tag::any}; }

DescPart cut(const Desc& whole, const Dims& dims, const Dims& first) {
  try {
    Desc part = whole.submemory_desc(dims, first);
    const int64_t elements = part.data.offset0 - whole.data.offset0;
    part.data.offset0 = whole.data.offset0;
    return {part, elements * static_cast<int64_t>(dnnl::memory::data_type_size(part.data_type()))};
  } catch (const dnnl::error& e) {
    unsupported("oneDNN cannot cut it: ", e.what());
  }
}

struct Primitive::Bound {
  dnnl::stream stream{engine()};
  std::vector<dnnl::memory> memory;
  std::vector<void*> data;
  std::vector<dnnl_exec_arg_t> args;
};

Primitive::Primitive(const dnnl::primitive& primitive, Ports ports, size_t scratch,
                     std::string algorithm)
    : primitive_(primitive),
      ports_(std::move(ports)),
      scratch_(scratch),
      algorithm_(std::move(algorithm)) {
  if (algorithm_.starts_with("ref")) unsupported("oneDNN has no fast kernel for it");
  free_.push_back(take());
}

Primitive::~Primitive() = default;

const Desc& Primitive::desc(int arg) const {
  return std::ranges::find(ports_, arg, &Ports::value_type::first)->second;
}

std::unique_ptr<Primitive::Bound> Primitive::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<Bound> bound = std::move(free_.back());
      free_.pop_back();
      return bound;
    }
  }
  auto bound = std::make_unique<Bound>();
  const auto add = [&](int arg, const Desc& desc) {
    bound->memory.emplace_back(desc, engine(), static_cast<void*>(DNNL_MEMORY_NONE));
    bound->data.push_back(nullptr);
    bound->args.push_back({arg, bound->memory.back().get()});
  };
  for (const auto& [arg, desc] : ports_) add(arg, desc);
  if (scratch_) {
    add(DNNL_ARG_SCRATCHPAD, {{static_cast<int64_t>(scratch_)}, Type::u8, Tag::a});
  }
  return bound;
}

void Primitive::run(void* const* data, void* scratch) const {
  stay_in_this_thread();
  std::unique_ptr<Bound> bound = take();
  for (size_t i = 0; i < bound->memory.size(); ++i) {
    void* const wanted = i < ports_.size() ? data[i] : scratch;
    // Setting a handle writes zeros into the padding lanes: not needed twice, and packed weights
    // are read by others meanwhile.
    if (bound->data[i] == wanted) continue;
    bound->memory[i].set_data_handle(wanted, bound->stream);
    bound->data[i] = wanted;
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), bound->stream.get(),
                             static_cast<int>(bound->args.size()), bound->args.data());
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(bound));
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) invalid("oneDNN ", algorithm_, " failed with status ", status);
}

PrimitivePtr convolution(const Convolution& c) {
  using F = dnnl::convolution_forward;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (c.bias) args.push_back(DNNL_ARG_BIAS);
  args.push_back(DNNL_ARG_DST);
  return make<F>("convolution", args, [&] {
    const auto kind =
        c.winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
    const auto how = dnnl::prop_kind::forward_inference;
    const F::desc d = c.bias ? F::desc(how, kind, c.src, c.weights, *c.bias, c.dst, c.strides,
                                       c.dilations, c.begin, c.end)
                             : F::desc(how, kind, c.src, c.weights, c.dst, c.strides, c.dilations,
                                       c.begin, c.end);
    return F::primitive_desc(d, attributes(c.finish), engine());
  });
}

PrimitivePtr pooling(const Pooling& p) {
  using F = dnnl::pooling_forward;
  return make<F>("pooling", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const F::desc d(dnnl::prop_kind::forward_inference, p.kind, p.src, p.dst, p.strides, p.kernel,
                    p.begin, p.end);
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr elementwise(const Activation& a, const Desc& x) {
  using F = dnnl::eltwise_forward;
  return make<F>("elementwise", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const F::desc d(dnnl::prop_kind::forward_inference, a.kind, x, a.alpha, a.beta);
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr binary(dnnl::algorithm kind, const Desc& x) {
  using F = dnnl::binary;
  return make<F>("binary", {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1, DNNL_ARG_DST}, [&] {
    return F::primitive_desc(F::desc(kind, x, x, x), attributes({}), engine());
  });
}

PrimitivePtr matmul(const Desc& a, const Desc& b, const std::optional<Desc>& bias, const Desc& y) {
  using F = dnnl::matmul;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (bias) args.push_back(DNNL_ARG_BIAS);
  args.push_back(DNNL_ARG_DST);
  return make<F>("matmul", args, [&] {
    const F::desc d = bias ? F::desc(a, b, *bias, y) : F::desc(a, b, y);
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr softmax(const Desc& x) {
  using F = dnnl::softmax_forward;
  return make<F>("softmax", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const auto axis = static_cast<int>(x.dims().size()) - 1;
    return F::primitive_desc(F::desc(dnnl::prop_kind::forward_inference, x, axis), attributes({}),
                             engine());
  });
}

PrimitivePtr layer_norm(const Desc& x, float epsilon, bool shift) {
  using F = dnnl::layer_normalization_forward;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_SCALE};
  if (shift) args.push_back(DNNL_ARG_SHIFT);
  args.push_back(DNNL_ARG_DST);
  return make<F>("layer normalization", args, [&] {
    auto flags = dnnl::normalization_flags::use_scale;
    if (shift) flags = flags | dnnl::normalization_flags::use_shift;
    const F::desc d(dnnl::prop_kind::forward_inference, x, epsilon, flags);
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr reorder(const Desc& from, const Desc& to, const Finish& f) {
  using F = dnnl::reorder;
  return make<F>("reorder", {DNNL_ARG_FROM, DNNL_ARG_TO},
                 [&] { return F::primitive_desc(engine(), from, engine(), to, attributes(f)); });
}

std::shared_ptr<const Packed> pack(const Desc& from, const void* data, const Desc& to) {
  stay_in_this_thread();
  try {
    auto packed = std::make_shared<Packed>(Packed{dnnl::memory(to, engine())});
    // The library does not write to what it reorders from.
    dnnl::memory source(from, engine(), const_cast<void*>(data));
    dnnl::stream stream(engine());
    dnnl::reorder(source, packed->memory).execute(stream, source, packed->memory);
    stream.wait();
    return packed;
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    unsupported("oneDNN cannot lay out its weights: ", e.what());
  }
}

}  // namespace ndtrain::onednn
