#include "tests/runtime/plugin_runner.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace ndtrain {
namespace {

constexpr size_t kGuard = 64;
constexpr int kGuardByte = 0xA5;

int lent_threads = 1;

void parallel_for(int64_t n, int64_t grain, void (*body)(int64_t, int64_t, void*), void* arg) {
  ASSERT_GT(grain, 0);
  const int64_t chunks = (n + grain - 1) / grain;
  const auto chunk = [&](int64_t c) { body(c * grain, std::min(n, (c + 1) * grain), arg); };
  if (lent_threads == 1) {
    for (int64_t c = chunks; c-- > 0;) chunk(c);
    return;
  }
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t c; (c = next++) < chunks;) chunk(c);
  };
  std::vector<std::jthread> threads;
  for (int t = 1; t < lent_threads; ++t) threads.emplace_back(work);
  work();
}

ndt_tensor_type abi_of(const TensorType& t) {
  ndt_tensor_type type{};
  type.dtype = static_cast<ndt_dtype>(t.dtype);
  type.rank = t.shape.rank();
  int64_t stride = 1;
  for (int d = type.rank; d-- > 0; stride *= t.shape[d]) {
    type.dims[d] = t.shape[d];
    type.strides[d] = stride;
  }
  return type;
}

std::vector<ndt_attr> abi_of(const Attrs& attrs) {
  std::vector<ndt_attr> list;
  for (const auto& [name, value] : attrs) {
    ndt_attr a{.name = name.c_str(), .n = 0, .i = nullptr, .f = 0, .s = nullptr};
    if (const auto* i = std::get_if<int64_t>(&value)) {
      a.n = 1;
      a.i = i;
    } else if (const auto* f = std::get_if<double>(&value)) {
      a.n = -1;
      a.f = *f;
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      a.n = -2;
      a.s = s->c_str();
    } else if (const auto* ints = std::get_if<Ints>(&value)) {
      a.n = static_cast<int64_t>(ints->size());
      a.i = ints->data();
    } else {
      continue;
    }
    list.push_back(a);
  }
  return list;
}

bool guard_intact(const Bytes& b) {
  for (size_t i = b.size() - kGuard; i < b.size(); ++i) {
    if (b.data()[i] != std::byte{kGuardByte}) return false;
  }
  return true;
}

// 0xFF bytes are NaN in every float dtype.
Bytes poisoned(size_t size) {
  Bytes b(size + kGuard, 0xFF);
  std::memset(b.data() + size, kGuardByte, kGuard);
  return b;
}

struct OpenDevice {
  explicit OpenDevice(const ndt_backend& a) : abi(a) {
    const ndt_options options{sizeof(ndt_options), 1, 0, nullptr};
    EXPECT_EQ(abi.open(0, &options, &device), NDT_OK);
    EXPECT_EQ(abi.stream_create(device, &stream), NDT_OK);
  }
  ~OpenDevice() {
    if (kernel) abi.release(kernel);
    abi.stream_destroy(stream);
    abi.close(device);
  }
  const ndt_backend& abi;
  ndt_device* device = nullptr;
  ndt_stream* stream = nullptr;
  ndt_kernel* kernel = nullptr;
};

std::vector<Bytes> run_once(const OpenDevice& d, const ndt_prepared& prepared, const NodeRun& node,
                            int in_place) {
  std::vector<const void*> in;
  for (size_t i = 0; i < node.data.size(); ++i) {
    const bool packed = node.constant[i] && (prepared.packed_inputs >> i & 1);
    const bool absent = node.in[i].dtype == DType::kNone;
    in.push_back(packed || absent ? nullptr : node.data[i].data());
  }
  std::vector<Bytes> outputs;
  std::vector<void*> out;
  for (const TensorType& t : node.out) {
    outputs.push_back(poisoned(t.dtype == DType::kNone ? 0 : t.bytes()));
    out.push_back(t.dtype == DType::kNone ? nullptr : outputs.back().data());
  }
  if (in_place >= 0) {
    std::memcpy(out[0], in[in_place], node.out[0].bytes());
    in[in_place] = out[0];
  }
  Bytes workspace = poisoned(prepared.workspace);
  const ndt_status status =
      d.abi.run(prepared.kernel, d.stream, in.data(), out.data(), workspace.data());
  EXPECT_EQ(status, NDT_OK) << d.abi.last_error();
  EXPECT_TRUE(guard_intact(workspace)) << node.op << " wrote past its workspace";
  std::vector<Bytes> results;
  for (Bytes& b : outputs) {
    EXPECT_TRUE(guard_intact(b)) << node.op << " wrote past an output";
    results.emplace_back(b.size() - kGuard, b.data());
  }
  return results;
}

}  // namespace

Bytes::Bytes(size_t size, int fill) : size_(size) {
  void* memory = nullptr;  // aligned_alloc would want whole multiples of the alignment
  if (posix_memalign(&memory, 64, std::max<size_t>(size, 1)) != 0) throw std::bad_alloc();
  data_.reset(static_cast<std::byte*>(memory));
  if (size) std::memset(data_.get(), fill, size);
}

Bytes::Bytes(size_t size, const void* from) : Bytes(size) {
  if (size) std::memcpy(data_.get(), from, size);
}

bool Bytes::operator==(const Bytes& o) const {
  return size_ == o.size_ && (size_ == 0 || std::memcmp(data(), o.data(), size_) == 0);
}

std::unique_ptr<Plugin> Plugin::load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  std::unique_ptr<Plugin> plugin(new Plugin);
  plugin->path_ = path;
  plugin->main_ = reinterpret_cast<ndt_backend_main_fn>(dlsym(library, "ndt_backend_main"));
  if (!plugin->main_) return nullptr;
  plugin->set_threads(1);
  return plugin->abi_ ? std::move(plugin) : nullptr;
}

const std::vector<std::unique_ptr<Plugin>>& Plugin::cpu_builds() {
  static const auto plugins = [] {
    std::vector<std::unique_ptr<Plugin>> found;
    const char* directory = std::getenv("NDTRAIN_BACKEND_PATH");
    if (!directory) return found;
    for (const char* level : {"", "/x86-64-v2", "/x86-64-v3", "/x86-64-v4"}) {
      auto plugin = load(std::string(directory) + level + "/libndt_cpu.so");
      if (plugin) found.push_back(std::move(plugin));
    }
    return found;
  }();
  return plugins;
}

void Plugin::set_threads(int threads) {
  lent_threads = threads;
  const ndt_host host{sizeof(ndt_host), threads, parallel_for, [](int32_t, const char*) {}};
  abi_ = main_(NDT_ABI_MAJOR, NDT_ABI_MINOR, &host);
}

std::vector<Bytes> Plugin::run(const NodeRun& node) const {
  static std::atomic<uint64_t> next_id{1};
  std::vector<ndt_tensor_type> in, out;
  for (const TensorType& t : node.in) in.push_back(abi_of(t));
  for (const TensorType& t : node.out) out.push_back(abi_of(t));
  const std::vector<ndt_attr> attrs = abi_of(node.attrs);
  std::vector<const void*> constants;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < node.in.size(); ++i) {
    constants.push_back(node.constant[i] ? node.data[i].data() : nullptr);
    ids.push_back(node.constant[i] ? next_id++ : 0);
  }
  const ndt_node abi_node{sizeof(ndt_node),
                          node.op.c_str(),
                          in.data(),
                          out.data(),
                          attrs.data(),
                          static_cast<int32_t>(in.size()),
                          static_cast<int32_t>(out.size()),
                          static_cast<int32_t>(attrs.size()),
                          constants.data(),
                          ids.data()};
  OpenDevice device(*abi_);
  ndt_prepared prepared{};
  const ndt_status status = abi_->prepare(device.device, &abi_node, &prepared);
  if (status != NDT_OK) {
    ADD_FAILURE() << path_ << " refuses: " << abi_->last_error();
    return {};
  }
  device.kernel = prepared.kernel;
  std::vector<Bytes> results = run_once(device, prepared, node, -1);
  for (size_t i = 0; node.in_place && i < node.in.size(); ++i) {
    if (!(prepared.in_place_inputs >> i & 1) || node.in[i].dtype == DType::kNone) continue;
    if (node.constant[i] || node.in[i].bytes() != node.out[0].bytes()) continue;
    const std::vector<Bytes> again = run_once(device, prepared, node, static_cast<int>(i));
    for (size_t k = 0; k < again.size(); ++k) {
      EXPECT_TRUE(again[k] == results[k]) << node.op << ": in place over input " << i;
    }
  }
  return results;
}

}  // namespace ndtrain
