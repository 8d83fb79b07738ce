#include "ndp/jobs/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ndtrain::ndp {
namespace {

constexpr const char *kLast = "last.safetensors", *kBest = "best.safetensors";

}  // namespace

TrainingLoop::TrainingLoop(Fs& fs, RunDirectory& run, Training& training, Clock& clock,
                           Progress& progress, std::string fingerprint, BestMetric metric)
    : fs_(fs),
      run_(run),
      training_(training),
      clock_(clock),
      progress_(progress),
      fingerprint_(std::move(fingerprint)),
      metric_(metric) {}

std::optional<Checkpoint> TrainingLoop::saved() const {
  Result<Checkpoint> last = load_checkpoint(fs_, run_.file(kLast));
  if (last.status().code() == Code::kNotFound) return std::nullopt;
  return std::move(last).or_throw();
}

bool TrainingLoop::restore() {
  const std::optional<Checkpoint> last = saved();
  if (!last) return false;  // killed before the first epoch ended
  if (last->config != fingerprint_) {
    throw Error(run_.path(),
                " was begun with other settings, another model, other photos or other labels, or "
                "(with --deterministic) on another kind of processor; start a new run with "
                "another -o");
  }
  training_.restore(*last);
  best_score_ = last->best_top1;
  best_epoch_ = last->best_epoch;
  progress_.say(fmt::format("going on at epoch {}, step {}", last->epoch + 1, last->step));
  return true;
}

bool TrainingLoop::train_epoch(Dataset& train, Dataset* val, int64_t epochs) {
  try {
    return train_rest(train, val, epochs);
  } catch (const WentBack& back) {
    progress_.end();
    best_score_ = back.best_top1;
    best_epoch_ = back.best_epoch;
    return true;
  }
}

bool TrainingLoop::train_rest(Dataset& train, Dataset* val, int64_t epochs) {
  const std::chrono::nanoseconds begun = clock_.monotonic();
  auto seconds = [&] { return std::chrono::duration<double>(clock_.monotonic() - begun).count(); };
  const int64_t batch = training_.batch();
  EpochResult epoch;
  progress_.begin(fmt::format("epoch {}/{}", training_.epoch() + 1, epochs), train.size(),
                  "photos");
  const bool whole = training_.train_epoch(train, epoch, [&](int64_t done, int64_t) {
    if (first_step_.count() == 0) first_step_ = clock_.monotonic();
    progress_.update(std::min(done * batch, train.size()));
    return !progress_.interrupted();
  });
  if (!whole) {
    progress_.end();
    save(kLast);
    return false;
  }
  EpochRow row{.epoch = epoch.epoch + 1,
               .train_loss = epoch.loss,
               .train_top1 = epoch.top1,
               .train_top5 = std::nullopt,
               .val = std::nullopt,
               .lr = epoch.lr};
  if (!std::isnan(epoch.top5)) row.train_top5 = epoch.top5;
  std::string line = fmt::format("loss {:.4f}", epoch.loss);
  double score = 0;
  if (val && val->size() > 0) {
    const Evaluation e = training_.evaluate(*val);
    score = score_of(e, metric_);
    row.val = {.loss = e.loss, .top1 = e.top1, .top5 = e.top5};
    line += fmt::format("  val loss {:.4f}  top-1 {:.4f}  top-5 {:.4f}", e.loss, e.top1, e.top5);
  } else {
    line += fmt::format(" (top-1 {:.4f}{})", epoch.top1,
                        row.train_top5 ? fmt::format(", top-5 {:.4f}", *row.train_top5) : "");
  }
  row.seconds = seconds();
  seconds_ += row.seconds;
  progress_.update(train.size(), line);
  progress_.end();
  if (val && (!row.val || score > best_score_ || best_epoch_ < 0)) {
    best_score_ = score;
    best_epoch_ = epoch.epoch;
    save(kBest);
  }
  run_.add_epoch(row);
  if (val) save(kLast);
  return true;
}

void TrainingLoop::restore_best() {
  training_.restore(load_checkpoint(fs_, run_.file(kBest)).or_throw());
}

void TrainingLoop::save(const std::string& name) {
  Checkpoint c = training_.checkpoint();
  c.best_top1 = best_score_;
  c.best_epoch = best_epoch_;
  c.config = fingerprint_;
  const Status s = save_checkpoint(fs_, run_.file(name), c);
  if (!s.ok()) {
    throw Error(s.message(),
                ": free some space, then go on with --resume; earlier checkpoints are whole");
  }
}

ModelFile write_models(Fs& fs, const RunDirectory& run, const ModelFile& from,
                       const TransferModel& transfer, const Model& head,
                       const std::vector<std::string>& classes) {
  ModelFile out = from;
  out.model = transfer.whole;
  for (const auto& [name, t] : head.initialisers) {
    if (out.model.initialisers.contains(name)) out.model.initialisers[name] = t;
  }
  out.classes = classes;
  out.path = run.file("model.onnx");
  save_model(fs, out.path, out);
  if (transfer.features.empty()) return out;
  ModelFile part = out;
  part.model = transfer.extractor;
  part.classes = {};
  save_model(fs, run.file("extractor.onnx"), part);
  part.model = head;
  part.model.metadata = out.model.metadata;
  part.classes = classes;
  save_model(fs, run.file("head.onnx"), part);
  return out;
}

}  // namespace ndtrain::ndp
