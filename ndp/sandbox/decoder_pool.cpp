#include "ndp/sandbox/decoder_pool.h"

#include <algorithm>

#include "framework/core/log.h"
#include "framework/core/text.h"

namespace ndtrain::ndp {
namespace {

// Of a photo whose worker came to its end by it.
Status refusal(const WorkerProcess& worker) {
  const Code code = worker.end() == WorkerEnd::kKilled ? Code::kIo : Code::kCorrupt;
  return {code, "its decoder was stopped: " + worker.how()};
}

}  // namespace

class DecoderPool::Turn {
 public:
  explicit Turn(DecoderPool& pool) : pool_(pool) {
    std::unique_lock lock(pool_.mutex_);
    pool_.freed_.wait(lock, [&] { return pool_.at_work_ < pool_.config_.workers; });
    ++pool_.at_work_;
    ++pool_.counts_.photos;
  }
  ~Turn() {
    {
      const std::lock_guard lock(pool_.mutex_);
      --pool_.at_work_;
    }
    pool_.freed_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  DecoderPool& pool_;
};

DecoderPool::DecoderPool(const Config& config) : config_(config) {
  Worker first = WorkerProcess::start(config_.worker).or_throw();
  confinement_ = first->confinement();
  idle_.push_back(std::move(first));
}
DecoderPool::~DecoderPool() = default;

Result<DecoderPool::Worker> DecoderPool::take(bool fresh) {
  if (!fresh) {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Worker worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
  }
  return WorkerProcess::start(config_.worker);
}

void DecoderPool::give_back(Worker worker) {
  if (worker->photos() >= config_.photos) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

void DecoderPool::count(const WorkerProcess& ended) {
  const std::lock_guard lock(mutex_);
  ++counts_.ended[static_cast<size_t>(ended.end())];
}

Result<Image> DecoderPool::decode(const std::string& name, std::string_view file,
                                  const DecodeOptions& options, const Preprocess* crop,
                                  PhotoCost& cost) {
  const Turn turn(*this);
  for (const bool fresh : {false, true}) {
    Result<Worker> taken = take(fresh);
    if (!taken.ok()) return taken.status();
    WorkerProcess& worker = **taken;
    std::optional<Result<Image>> image = worker.decode(name, file, options, crop, cost);
    if (image) {
      give_back(std::move(*taken));
      return std::move(*image);
    }
    count(worker);
    log::warn("{}: its decoder was stopped: {}", printable(name, 256), worker.how());
    if (worker.photos() == 1) return refusal(worker);
  }
  return Status(Code::kIo, "no decode worker took it");
}

std::string DecoderPool::held_by() const { return confinement_.held_by(config_.worker.limits); }
std::string DecoderPool::missing() const { return confinement_.lacks(); }

DecoderPool::Counts DecoderPool::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.alive = idle_.size() + at_work_;
  return counts;
}

}  // namespace ndtrain::ndp
