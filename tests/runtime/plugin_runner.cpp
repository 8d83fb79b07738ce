#include "tests/runtime/plugin_runner.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace ndtrain {

struct OpenDevice {
  OpenDevice(const ndt_backend& a, const std::string& tuning_file, bool measures, bool tf32)
      : abi(a) {
    const bool tuned = !tuning_file.empty();
    const ndt_options options{.deterministic = !tuned,
                              .allow_tf32 = tf32,
                              .tuning_file = tuned ? tuning_file.c_str() : nullptr,
                              .less_memory = 0,
                              .on_choice = measures ? +[](void*, const ndt_choice*) {} : nullptr,
                              .on_choice_arg = nullptr};
    EXPECT_EQ(abi.open(0, &options, &device), NDT_OK);
    EXPECT_EQ(abi.stream_create(device, &stream), NDT_OK);
  }
  ~OpenDevice() {
    abi.stream_destroy(stream);
    abi.close(device);
  }
  const ndt_backend& abi;
  ndt_device* device = nullptr;
  ndt_stream* stream = nullptr;
};

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

// A node as the ABI wants it; points into `node` and `ports`.
struct AbiNode {
  AbiNode(const NodeRun& run, const Ports& ports) : attrs(abi_of(run.attrs)) {
    static std::atomic<uint64_t> next_id{uint64_t{1} << 32};
    for (size_t i = 0; i < run.in.size(); ++i) {
      constants.push_back(run.constant[i] ? run.data[i].data() : nullptr);
      ids.push_back(!run.constant[i] ? 0 : run.first_id ? run.first_id + i : next_id++);
    }
    node = {sizeof(ndt_node),
            run.op.c_str(),
            ports.in.data(),
            ports.out.data(),
            attrs.data(),
            static_cast<int32_t>(ports.in.size()),
            static_cast<int32_t>(ports.out.size()),
            static_cast<int32_t>(attrs.size()),
            constants.data(),
            ids.data()};
  }
  std::vector<ndt_attr> attrs;
  std::vector<const void*> constants;
  std::vector<uint64_t> ids;
  ndt_node node;
};

struct PreparedNode {
  explicit PreparedNode(std::shared_ptr<OpenDevice> d) : device(std::move(d)) {}
  PreparedNode(const PreparedNode&) = delete;
  ~PreparedNode() {
    if (is.kernel) device->abi.release(is.kernel);
  }
  ndt_status prepare(const ndt_node& node) {
    return device->abi.prepare(device->device, &node, &is);
  }
  const std::shared_ptr<OpenDevice> device;
  ndt_prepared is{};
};

struct OwnStream {
  explicit OwnStream(const OpenDevice& d) : device(d) {
    EXPECT_EQ(d.abi.stream_create(d.device, &stream), NDT_OK) << d.abi.last_error();
  }
  ~OwnStream() { device.abi.stream_destroy(stream); }
  const OpenDevice& device;
  ndt_stream* stream = nullptr;
};

// Where the plugin works on `bytes`: there, or in a copy of exactly that size where its memory is
// not the host's.
class OnDevice {
 public:
  OnDevice(const OpenDevice& d, ndt_stream* stream, Bytes& bytes)
      : d_(d), stream_(stream), bytes_(bytes) {
    if (d.abi.shares_host_memory) return;
    EXPECT_EQ(d.abi.alloc(d.device, bytes.size(), &copy_), NDT_OK) << d.abi.last_error();
    EXPECT_EQ(d.abi.upload(stream, copy_, bytes.data(), bytes.size()), NDT_OK)
        << d.abi.last_error();
  }
  OnDevice(OnDevice&& o) noexcept
      : d_(o.d_), stream_(o.stream_), bytes_(o.bytes_), copy_(std::exchange(o.copy_, nullptr)) {}
  ~OnDevice() {
    if (copy_) d_.abi.free(d_.device, copy_);
  }

  void* data() const { return d_.abi.shares_host_memory ? bytes_.data() : copy_; }
  // Enqueues the way back: `bytes` have it after stream_wait.
  void fetch() {
    if (d_.abi.shares_host_memory) return;
    EXPECT_EQ(d_.abi.download(stream_, bytes_.data(), copy_, bytes_.size()), NDT_OK)
        << d_.abi.last_error();
  }

 private:
  const OpenDevice& d_;
  ndt_stream* stream_;
  Bytes& bytes_;
  void* copy_ = nullptr;
};

// The kernel as it is, or captured and replayed.
void run_kernel(const ndt_backend& abi, const ndt_kernel* kernel, ndt_stream* stream,
                const void* const* in, void* const* out, void* workspace, bool captured) {
  if (captured) {
    EXPECT_EQ(abi.capture_begin(stream), NDT_OK) << abi.last_error();
  }
  EXPECT_EQ(abi.run(kernel, stream, in, out, workspace), NDT_OK) << abi.last_error();
  if (!captured) return;
  ndt_kernel* graph = nullptr;
  EXPECT_EQ(abi.capture_end(stream, &graph), NDT_OK) << abi.last_error();
  if (!graph) return;
  EXPECT_EQ(abi.run(graph, stream, nullptr, nullptr, nullptr), NDT_OK) << abi.last_error();
  EXPECT_EQ(abi.stream_wait(stream), NDT_OK) << abi.last_error();
  abi.release(graph);
}

struct Once {
  int in_place = -1;  // the input that output 0 lies over
  bool captured = false;
};

// The outputs as they lie, guards cut off.
std::vector<Bytes> run_once(const OpenDevice& d, ndt_stream* stream, const ndt_prepared& prepared,
                            const NodeRun& node, const Ports& ports, const std::vector<Bytes>& laid,
                            Once how) {
  std::vector<Bytes> inputs;
  for (const Bytes& b : laid) inputs.emplace_back(b.size(), static_cast<const void*>(b.data()));
  std::vector<Bytes> outputs;
  for (const ndt_tensor_type& t : ports.out) outputs.push_back(poisoned(laid_size(t)));
  if (how.in_place >= 0) {
    const Bytes& over = laid[static_cast<size_t>(how.in_place)];
    std::memcpy(outputs[0].data(), over.data(), over.size());
  }
  Bytes workspace = poisoned(prepared.workspace);

  std::vector<OnDevice> there;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool packed = node.constant[i] && (prepared.packed_inputs >> i & 1);
    const bool absent = node.in[i].dtype == DType::kNone;
    in.push_back(packed || absent ? nullptr : there.emplace_back(d, stream, inputs[i]).data());
  }
  const size_t first_output = there.size();
  for (size_t k = 0; k < outputs.size(); ++k) {
    void* const data = there.emplace_back(d, stream, outputs[k]).data();
    out.push_back(ports.out[k].dtype == NDT_ABSENT ? nullptr : data);
  }
  if (how.in_place >= 0) in[static_cast<size_t>(how.in_place)] = out[0];
  void* const scratch = there.emplace_back(d, stream, workspace).data();

  run_kernel(d.abi, prepared.kernel, stream, in.data(), out.data(), scratch, how.captured);
  for (size_t i = first_output; i < there.size(); ++i) there[i].fetch();
  EXPECT_EQ(d.abi.stream_wait(stream), NDT_OK) << d.abi.last_error();
  EXPECT_TRUE(guard_intact(workspace)) << node.op << " wrote past its workspace";
  std::vector<Bytes> results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    EXPECT_TRUE(guard_intact(outputs[k])) << node.op << " wrote past an output";
    const std::string between = check_between(outputs[k].data(), ports.out[k]);
    EXPECT_TRUE(between.empty()) << node.op << " output " << k << ": " << between;
    results.push_back(read_back(outputs[k].data(), ports.out[k]));
  }
  return results;
}

}  // namespace

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
  const ndt_host host{threads, parallel_for, [](int32_t, const char*) {}};
  abi_ = main_(NDT_ABI_VERSION, &host);
}

Ports plain_ports(const NodeRun& node) {
  Ports ports;
  for (const TensorType& t : node.in) ports.in.push_back(abi_of(t));
  for (const TensorType& t : node.out) ports.out.push_back(abi_of(t));
  return ports;
}

std::shared_ptr<OpenDevice> Plugin::device() const {
  if (kept_) return kept_;
  auto opened = std::make_shared<OpenDevice>(*abi_, tuning_file_, measures_, tf32_);
  if (kept_open_) kept_ = opened;
  return opened;
}

std::string Plugin::numerics() const { return abi_->device_numerics(device()->device); }

std::string Plugin::refusal(const NodeRun& node, const Ports& ports) const {
  const AbiNode abi_node(node, ports);
  PreparedNode prepared(device());
  if (prepared.prepare(abi_node.node) == NDT_OK) return {};
  const std::string why = abi_->last_error();
  EXPECT_GT(why.size(), node.op.size()) << node.op << " is refused without a reason";
  return why;
}

Plugin::Held Plugin::hold(const NodeRun& node, const Ports& ports) const {
  const AbiNode abi_node(node, ports);
  auto prepared = std::make_shared<PreparedNode>(device());
  EXPECT_EQ(prepared->prepare(abi_node.node), NDT_OK) << abi_->last_error();
  return prepared;
}

std::optional<Ports> Plugin::prefer(const NodeRun& node, const Ports& now) const {
  if (!abi_->prefer) return {};
  const AbiNode abi_node(node, now);
  const std::shared_ptr<OpenDevice> asked = device();
  Ports wanted = now;
  const ndt_status status =
      abi_->prefer(asked->device, &abi_node.node, wanted.in.data(), wanted.out.data());
  if (status == NDT_OK) return wanted;
  EXPECT_EQ(status, NDT_UNSUPPORTED) << abi_->last_error();
  EXPECT_NE(std::string(abi_->last_error()).find(node.op), std::string::npos)
      << "the reason does not name " << node.op << ": " << abi_->last_error();
  return {};
}

std::vector<Bytes> Plugin::run(const NodeRun& node, const Ports& ports) const {
  const AbiNode abi_node(node, ports);
  PreparedNode kernel(device());
  const OpenDevice& opened = *kernel.device;
  const ndt_prepared& prepared = kernel.is;
  if (kernel.prepare(abi_node.node) != NDT_OK) {
    ADD_FAILURE() << path_ << " refuses: " << abi_->last_error();
    return {};
  }
  std::vector<Bytes> laid;
  for (size_t i = 0; i < node.in.size(); ++i) {
    laid.push_back(assign_layouts(node.data[i].data(), ports.in[i]));
  }
  std::vector<Bytes> results = run_once(opened, opened.stream, prepared, node, ports, laid, {});
  const auto same = [&](const std::vector<Bytes>& again, const std::string& when) {
    for (size_t k = 0; k < again.size(); ++k) {
      EXPECT_TRUE(again[k] == results[k]) << node.op << ": " << when;
    }
  };
  for (size_t i = 0; node.in_place && i < node.in.size(); ++i) {
    if (!(prepared.in_place_inputs >> i & 1) || node.in[i].dtype == DType::kNone) continue;
    if (node.constant[i] || laid[i].size() != laid_size(ports.out[0])) continue;
    same(run_once(opened, opened.stream, prepared, node, ports, laid,
                  {.in_place = static_cast<int>(i)}),
         "in place over input " + std::to_string(i));
  }
  if (node.captured && abi_->capture_begin) {
    same(run_once(opened, opened.stream, prepared, node, ports, laid, {.captured = true}),
         "captured and replayed");
  }
  if (node.streams > 1) {
    std::vector<std::jthread> streams;
    for (int i = 0; i < node.streams; ++i) {
      streams.emplace_back([&] {
        const OwnStream own(opened);
        same(run_once(opened, own.stream, prepared, node, ports, laid, {}),
             "with other streams at once");
      });
    }
  }
  return results;
}

}  // namespace ndtrain
