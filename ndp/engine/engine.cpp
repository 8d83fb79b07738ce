#include "ndp/engine/engine.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "ndp/engine/network_input.h"
#include "ndp/engine/packed_crop.h"
#include "ndp/engine/ring.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kImagesOfAThread = 4;  // in the first batches: fewer are slower with any backend

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One buffer of the ring: owned by exactly one stage at a time.
struct Slot {
  Slot(const Preprocess& preprocess, const BatchPlans& network)
      : input(preprocess, network.reads_photos(), &network.device()) {}

  std::vector<size_t> items;  // what was asked for
  std::vector<Result<std::string>> files;
  std::vector<Image> crops;                    // by place: what was kept,
  std::vector<std::vector<std::byte>> packed;  // or what it is made of, if not empty;
  std::vector<uint8_t> has_crop;               // else the file was read
  std::vector<Status> status;
  std::vector<PhotoCost> costs;
  std::vector<size_t> good;  // items whose rows are in `input`, in order
  std::vector<BadPhoto> bad;
  NetworkInput input;
};
using SlotPtr = std::unique_ptr<Slot>;

// A batch that the network has been given, and the buffer that it reads.
struct Inference {
  SlotPtr slot;
  std::optional<BatchPlans::Started> run = {};  // none when no photo came out

  bool under_way() const { return run && run->under_way(); }
};

class Pipeline {
 public:
  Pipeline(const Preprocess& preprocess, const BatchGrowth& growth, int ring, RingLevels* levels,
           const BatchPlans& network, const std::function<std::string(size_t)>& name,
           const Engine::Open& open, const Engine::Crops* crops, const EngineOptions& options)
      : preprocess_(preprocess),
        growth_(growth),
        levels_(levels),
        name_(name),
        open_(open),
        crops_(crops),
        crop_(options.crop),
        decoder_(options.decoder ? *options.decoder : decoder_in_process()) {
    for (int i = 0; i < ring; ++i) free_.push(std::make_unique<Slot>(preprocess, network));
  }

  void start(const Engine::Next& next) {
    threads_.emplace_back(
        [this, &next](const std::stop_token& stop) { stage([&] { load(next, stop); }, loaded_); });
    threads_.emplace_back([this] { stage([&] { preprocess_all(); }, ready_); });
  }

  ~Pipeline() {
    stop();
    while (next_if_ready()) {  // of a run that was broken off
    }
    while (loaded_.pop_if_ready()) {
    }
    tell();
  }

  // Lets the stages finish what they hold, and waits for them.
  void stop() {
    free_.close();
    loaded_.close();
    ready_.close();
    threads_.clear();
  }

  std::optional<SlotPtr> next() { return told(ready_.pop()); }
  std::optional<SlotPtr> next_if_ready() { return told(ready_.pop_if_ready()); }
  void give_back(SlotPtr slot) { free_.push(std::move(slot)); }
  void rethrow() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  // load_s is the loader's, all else the second stage's, until stop().
  EngineStats stats;

 private:
  void tell() {
    if (levels_ == nullptr) return;
    levels_->loaded = loaded_.size();
    levels_->ready = ready_.size();
  }
  std::optional<SlotPtr> told(std::optional<SlotPtr> slot) {
    tell();
    return slot;
  }

  // Nothing thrown leaves a thread; the next stage finishes what it has and stops.
  template <typename F>
  void stage(F body, HandOff<SlotPtr>& next) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    next.close();
  }

  void load(const Engine::Next& next, const std::stop_token& stop) {
    while (std::optional<SlotPtr> slot = free_.pop()) {
      Slot& s = **slot;
      s.items = next(static_cast<size_t>(growth_.batch()), stop);
      if (s.items.empty()) return;
      const Stopwatch watch;
      const size_t n = s.items.size();
      s.files.clear();
      s.crops.resize(n);
      s.packed.resize(n);
      s.has_crop.assign(n, false);
      for (size_t i = 0; i < n; ++i) load_photo(s, i);
      stats.load_s += watch.seconds();
      loaded_.push(std::move(*slot));
      tell();
    }
  }

  void load_photo(Slot& s, size_t i) {
    if (crops_) {
      Image& crop = s.crops[i];
      if (crop.rgb.empty()) crop = Image(preprocess_.img_size, preprocess_.img_size);
      s.has_crop[i] = crops_->find(s.items[i], crop, s.packed[i]);
    }
    s.files.push_back(s.has_crop[i] ? std::string() : open_(s.items[i]));
  }

  void preprocess_all() {
    while (std::optional<SlotPtr> slot = loaded_.pop()) {
      const Stopwatch watch;
      preprocess_slot(**slot);
      stats.preprocess_s += watch.seconds();
      ready_.push(std::move(*slot));
      tell();
    }
  }

  void preprocess_slot(Slot& s) {
    const size_t n = s.items.size();
    s.input.resize(static_cast<int64_t>(n));
    s.status.assign(n, Status());
    s.costs.assign(n, {});
    shared_threads().parallel_for(static_cast<int64_t>(n), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        s.status[i] = preprocess_one(s, i);
      }
    });
    s.good.clear();
    s.bad.clear();
    for (size_t i = 0; i < n; ++i) {
      stats.crops += s.has_crop[i];
      if (s.files[i].ok()) stats.bytes += static_cast<int64_t>(s.files[i]->size());
      if (!s.status[i].ok()) {
        s.bad.push_back({s.items[i], s.status[i]});
        continue;
      }
      s.input.copy(static_cast<int64_t>(i), static_cast<int64_t>(s.good.size()));
      s.good.push_back(s.items[i]);
    }
  }

  Status preprocess_one(Slot& s, size_t i) {
    PhotoCost& cost = s.costs[i];
    if (s.has_crop[i] && !s.packed[i].empty() && !unpack_crop(s.packed[i], s.crops[i])) {
      s.has_crop[i] = false;
      s.files[i] = open_(s.items[i]);
    }
    if (s.has_crop[i]) return put_timed(s, i, s.crops[i]);
    if (!s.files[i].ok()) return s.files[i].status();
    const std::string name = name_(s.items[i]);
    const Result<Image> crop = crop_ ? crop_(s.items[i], name, *s.files[i], cost)
                                     : crop_photo(name, *s.files[i], preprocess_, cost, decoder_);
    if (!crop.ok()) return crop.status();
    if (crops_) crops_->keep(s.items[i], *crop);
    return put_timed(s, i, *crop);
  }

  static Status put_timed(Slot& s, size_t i, const Image& crop) {
    const Stopwatch watch;
    s.input.put(static_cast<int64_t>(i), crop);
    s.costs[i].normalise_s += watch.seconds();
    return {};
  }

  const Preprocess& preprocess_;
  const BatchGrowth& growth_;
  RingLevels* const levels_;
  const std::function<std::string(size_t)>& name_;
  const Engine::Open& open_;
  const Engine::Crops* crops_;
  const Engine::Crop& crop_;
  PhotoDecoder& decoder_;
  HandOff<SlotPtr> free_, loaded_, ready_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

void count(const Slot& s, EngineStats& stats) {
  stats.photos += static_cast<int64_t>(s.good.size());
  for (const BadPhoto& b : s.bad) {
    ++(b.reason.code() == Code::kUnsupported ? stats.skipped : stats.quarantined);
  }
  for (const PhotoCost& c : s.costs) {
    stats.warnings += c.warnings;
    stats.decode_s += c.decode_s;
    stats.resize_s += c.resize_s;
    stats.normalise_s += c.normalise_s;
  }
}

}  // namespace

Engine::Engine(BatchPlans& extractor, Preprocess preprocess, EngineOptions options)
    : extractor_(extractor),
      preprocess_(std::move(preprocess)),
      options_(std::move(options)),
      growth_(extractor.device().deterministic() ? options_.batch
                                                 : kImagesOfAThread * shared_threads().threads(),
              options_.batch) {
  validate(preprocess_);
  if (options_.batch < 1 || options_.ring < 1) {
    throw Error("engine: a batch of ", options_.batch, " and a ring of ", options_.ring,
                " buffers");
  }
  send_bytes_where_faster(extractor_, preprocess_);
}

EngineStats Engine::run(std::span<const size_t> items,
                        const std::function<std::string(size_t)>& name, const Open& open,
                        const OnBatch& on_batch, const Crops* crops) {
  const Next next = [&items](size_t most, const std::stop_token&) {
    const auto part = items.first(std::min(most, items.size()));
    items = items.subspan(part.size());
    return std::vector<size_t>(part.begin(), part.end());
  };
  return run(next, name, open, on_batch, crops);
}

EngineStats Engine::run(const Next& next, const std::function<std::string(size_t)>& name,
                        const Open& open, const OnBatch& on_batch, const Crops* crops) {
  if (crops && options_.crop) throw Error("engine: crops that are kept are centres of photos");
  const Stopwatch wall;
  EngineStats stats;
  {
    // A device with memory of its own reads one buffer while another is copied to it.
    const int buffers = options_.ring + (extractor_.device().shares_host_memory() ? 0 : 1);
    Pipeline pipeline(preprocess_, growth_, buffers, options_.levels, extractor_, name, open, crops,
                      options_);
    pipeline.start(next);
    std::deque<Inference> given;  // at most two
    Stopwatch busy;               // the network, with the first of them
    while (true) {
      std::optional<SlotPtr> slot = given.empty() ? pipeline.next() : pipeline.next_if_ready();
      if (slot) {
        if (given.empty()) busy = {};
        given.push_back({std::move(*slot)});
        if (Inference& i = given.back(); !i.slot->good.empty()) {
          const Tensor rows = i.slot->input.first(static_cast<int64_t>(i.slot->good.size()));
          i.run.emplace(extractor_.start({&rows, 1}));
        }
        if (given.size() == 1 && given.back().under_way()) continue;
      }
      if (given.empty()) break;
      Inference first = std::move(given.front());
      given.pop_front();
      const Slot& s = *first.slot;
      std::vector<Tensor> outputs;
      if (first.run) {
        outputs = first.run->finish();
        const double took = busy.seconds();
        growth_.took(static_cast<int64_t>(s.good.size()), took);
        stats.infer_s += took;
        busy = {};
      }
      count(s, stats);
      if (!on_batch({s.good, outputs, s.bad})) break;
      pipeline.give_back(std::move(first.slot));
    }
    pipeline.stop();
    pipeline.rethrow();
    stats.bytes = pipeline.stats.bytes;
    stats.crops = pipeline.stats.crops;
    stats.load_s = pipeline.stats.load_s;
    stats.preprocess_s = pipeline.stats.preprocess_s;
  }
  stats.batch = growth_.batch();
  stats.wall_s = wall.seconds();
  return stats;
}

}  // namespace ndtrain::ndp
