#include "tests/sim/tuner_machine.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr uint64_t kWindow = 10 * Collection::kRow;
constexpr size_t kWatchLane = TunerService::kLanes;

// Never destroyed: backends stay loaded.
Devices& devices() {
  static Devices& all = *new Devices("cpu");
  return all;
}

}  // namespace

TunerMachine::TunerMachine(Timeline& timeline, uint64_t seed, Network& network, Watch& watch,
                           Bug bug)
    : Machine(timeline, "the Tuner", seed),
      network_(network),
      watch_(watch),
      bug_(bug),
      fs_(disk_, bug != Bug::kNoFileSync, bug != Bug::kNoDirectorySync),
      state_fs_(fs_, bug != Bug::kTermForgotten, bug != Bug::kTermForgotten) {
  if (bug == Bug::kDeadlinesByWallClock) clock_.take_wall_for_monotonic();
}
TunerMachine::~TunerMachine() = default;

void TunerMachine::start() {
  make_lanes(kWatchLane + std::max<size_t>(1, rules_.size()));
  state_ = std::make_unique<StateDirectory>(
      StateDirectory::open(state_fs_, "state", "tuner").or_throw());
  models_ = std::make_unique<ModelStore>(fs_, state_->file("models"));
  model_ = models_->add(tiny_model()).or_throw();
  versions_ = std::make_unique<Versions>(fs_, state_->file("versions.json"));
  works_ =
      std::make_unique<WatchedJobFactory>(JobContext{fs_, clock_, devices(), *models_}, *versions_,
                                          labels_url_, watch_, memory_, bug_, life());
  links_ = network_.server();
  if (audited_) audit_ = std::make_unique<AuditLog>(fs_, clock_, "state");
  uploads_ = make_upload_sink();
  watch_.stage = Stage::kBefore;
  service_ = std::make_unique<TunerService>(
      TunerService::Setting{fs_, clock_, *state_, *links_, *lanes_, *works_, *models_, *versions_,
                            uploads_.get(), audit_.get()},
      state_->next_term(rng_.next_bits()).or_throw(), kHeartbeat, kWindow);
  for (const WatchRule& rule : rules_) {
    watchers_.push_back(std::make_unique<Watcher>(watcher_setting(watchers_.size()), rule));
  }
  stopping_.reset();
}

std::unique_ptr<UploadSink> TunerMachine::make_upload_sink() {
  if (labels_url_.empty()) return std::make_unique<KeptUploads>(fs_);
  return std::make_unique<UploadedLabels>([this]() -> LabelDb& { return works_->labels(); },
                                          audit_.get());
}

Watcher::Setting TunerMachine::watcher_setting(size_t number) {
  return {.fs = fs_,
          .clock = clock_,
          .lanes = *lanes_,
          .lane = kWatchLane + number,
          .service = *service_,
          .versions = *versions_,
          .models = *models_,
          .jobs = state_->file("jobs"),
          .labels = labels_url_};
}

void TunerMachine::end() {
  watchers_.clear();
  service_.reset();
  uploads_.reset();
  audit_.reset();
  links_.reset();
  works_.reset();
  versions_.reset();
  models_.reset();
  state_.reset();
  watch_.stage = Stage::kDown;
  network_.tuner_died();
}

void TunerMachine::after_turn() {
  if (!service_) return;
  service_->tick();
  if (stopping_ && service_->stopped()) return stop_for(*stopping_);
  alarm(service_->next());
  if (stopping_) return;
  for (const auto& watcher : watchers_) {
    watcher->tick();
    alarm(clock_.monotonic() + seconds(watcher->rule().every_s));
  }
}

void TunerMachine::handle(LinkEvent<wire::FromStore> event) {
  turn([this, event = std::move(event)] { service_->handle(event); });
}

void TunerMachine::stop(Time back_after) {
  turn([this, back_after] {
    stopping_ = back_after;
    service_->stop();
  });
}

}  // namespace ndtrain::sim
