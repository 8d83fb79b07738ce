#include <dnnl_debug.h>
#include <omp.h>

#include <algorithm>
#include <string_view>

#include "backends/onednn/dnnl_make.h"
#include "backends/onednn/node.h"

namespace ndtrain::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

Tag plain_tag(int rank) {
  static constexpr Tag kTags[] = {Tag::a,    Tag::a,     Tag::ab,     Tag::abc,
                                  Tag::abcd, Tag::abcde, Tag::abcdef, Tag::abcdefg};
  if (rank >= static_cast<int>(std::size(kTags))) unsupported("has rank ", rank);
  return kTags[rank];
}

// An instruction set is the bits of all that it has.
constexpr unsigned bits(dnnl_cpu_isa_t isa) { return static_cast<unsigned>(isa); }
unsigned isa() { return bits(dnnl_get_effective_cpu_isa()); }

}  // namespace

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

bool has_avx512() { return (isa() & 0x20U) != 0; }

bool has_vnni() {
  constexpr unsigned kAvx512 = 0x40U;
  return (isa() & (kAvx512 | (bits(dnnl_cpu_isa_avx2_vnni) & ~bits(dnnl_cpu_isa_avx2)))) != 0;
}

bool has_bf16() {
  return (isa() & (bits(dnnl_cpu_isa_avx512_core_bf16) & ~bits(dnnl_cpu_isa_avx512_core_vnni))) !=
         0;
}

bool has_amx() {
  constexpr unsigned kAmx = bits(dnnl_cpu_isa_avx512_core_amx);
  return (isa() & kAmx) == kAmx;
}

std::string library_name() {
  const dnnl_version_t* v = dnnl_version();
  std::string_view name = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  name.remove_prefix(std::string_view("cpu_isa_").size());
  return text_of(v->major, '.', v->minor, '.', v->patch, ' ', name);
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
  Dims dims(t.dims, t.dims + std::max(t.rank, 1));
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

Desc columns_desc(const Dims& dims, int64_t step, ndt_dtype t) {
  return {dims, data_type(t), Dims{1, step}};
}

Desc swapped_desc(const Dims& dims, ndt_dtype t) {
  int64_t inner = 1;
  for (size_t i = 2; i < dims.size(); ++i) inner *= dims[i];
  Dims strides = {inner, dims[0] * inner};
  for (size_t i = 2; i < dims.size(); ++i) {
    inner /= dims[i];
    strides.push_back(inner);
  }
  return {dims, data_type(t), strides};
}

Desc any_desc(const Dims& dims, ndt_dtype t) { return {dims, data_type(t), Tag::any}; }

struct Primitive::Bound {
  dnnl::stream stream{engine()};
  std::vector<dnnl::memory> memory;
  std::vector<void*> data;
  std::vector<dnnl_exec_arg_t> args;
};

Primitive::Primitive(const dnnl::primitive& primitive, Ports ports, Fixed fixed, size_t scratch,
                     std::string algorithm)
    : primitive_(primitive),
      ports_(std::move(ports)),
      fixed_(std::move(fixed)),
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
  for (const auto& [arg, memory] : fixed_) bound->args.push_back({arg, memory.get()});
  return bound;
}

void Primitive::run(void* const* data, void* scratch) const {
  stay_in_this_thread();
  std::unique_ptr<Bound> bound = take();
  for (size_t i = 0; i < bound->memory.size(); ++i) {
    void* const wanted = i < ports_.size() ? data[i] : scratch;
    // Version 2 writes zeros into the padding lanes of a new handle: not needed twice, and packed
    // weights are read by others meanwhile.
    if (bound->data[i] == wanted) continue;
    bound->memory[i].set_data_handle(wanted);
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

namespace {

[[noreturn]] void cannot_lay_out(const dnnl::error& e) {
  if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
  unsupported("oneDNN cannot lay out its weights: ", e.what());
}

}  // namespace

Packed::Packed(const Desc& desc) try : memory(desc, engine()) {
} catch (const dnnl::error& e) {
  cannot_lay_out(e);
}

std::shared_ptr<const Packed> pack(const Desc& from, const void* data, const Desc& to) {
  stay_in_this_thread();
  const auto packed = std::make_shared<Packed>(to);
  try {
    // The library does not write to what it reorders from.
    dnnl::memory source(from, engine(), const_cast<void*>(data));
    dnnl::stream stream(engine());
    dnnl::reorder(source, packed->memory).execute(stream, source, packed->memory);
    stream.wait();
  } catch (const dnnl::error& e) {
    cannot_lay_out(e);
  }
  return packed;
}

}  // namespace ndtrain::onednn
