#include <omp.h>

#include <algorithm>

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
