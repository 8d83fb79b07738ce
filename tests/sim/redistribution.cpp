#include "tests/sim/redistribution.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/onnx/export.h"
#include "tests/support/files.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr Time kRedistributionDeadline = std::chrono::hours(2);
constexpr int64_t kFeatures = 48, kClasses = 40;

std::string model_path(const Digest& model) { return "state/models/" + to_hex(model) + ".onnx"; }

Model linear(const std::vector<float>& weights) {
  Model m;
  m.inputs = {{"f", DType::kF32, {kBatch, kFeatures}}};
  m.outputs = {"logits"};
  m.initialisers["fc.w"] = Tensor::of(DType::kF32, {kClasses, kFeatures}, weights);
  m.nodes = {{"Gemm", {"f", "fc.w"}, {"logits"}, {{"transB", int64_t{1}}}}};
  return m;
}

}  // namespace

const std::string& Redistribution::extractor() { return tiny_model(); }

// Most steps are small; every fifth version is trained anew. Of the sixth to ninth, each has other
// values in a quarter of the places.
std::string Redistribution::head(uint64_t version) {
  const uint64_t anew = version / 5;
  std::vector<float> weights(static_cast<size_t>(kClasses * kFeatures));
  const Rng first(anew, "head");
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(first.normal(i));
  for (uint64_t v = anew * 5 + 1; v <= version; ++v) {
    const Rng step(v, "step");
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto n = static_cast<float>(step.normal(i));
      if (anew != 1) weights[i] *= 1 + 1e-4F * n;
      if (anew == 1 && i % 4 == v % 4) weights[i] = n;
    }
  }
  return export_model(linear(weights));
}

Redistribution::Redistribution(uint64_t seed, Bug bug)
    : rng_(seed, "redistribution"), collection_(0), network_(timeline_, seed, watch_, bug) {
  tuner_ = std::make_unique<TunerMachine>(timeline_, seed, network_, watch_, bug);
  Network::Ends ends;
  ends.tuner = tuner_.get();
  for (size_t s = 0; s < Collection::kStores; ++s) {
    stores_.push_back(
        std::make_unique<StoreMachine>(timeline_, seed, network_, collection_, s, bug));
    stores_[s]->join(std::string(kDefaultCollection), false);
    ends.stores[s] = stores_[s].get();
  }
  ends.to_tuner = [this](LinkEvent<wire::FromStore> e) { tuner_->handle(std::move(e)); };
  ends.to_store = [this](size_t s, LinkEvent<wire::ToStore> e) {
    stores_[s]->handle(std::move(e));
  };
  network_.connect(std::move(ends));
  tuner_->go_without_audit();
  tuner_->boot();
  for (auto& store : stores_) store->boot();
}

Machine& Redistribution::machine(size_t which) {
  return which == 0 ? static_cast<Machine&>(*tuner_) : *stores_.at(which - 1);
}

void Redistribution::tell(const std::string& what) {
  story_.push_back(
      fmt::format("{:8.3f} {}", static_cast<double>(timeline_.now().count()) * 1e-9, what));
}

void Redistribution::until(Time end, const std::function<bool()>& over) {
  while (!over() && watch_.violations().empty() && timeline_.now() < end && timeline_.step()) {
  }
}

// Of a job of this number: a Tuner that dies meanwhile is told again, and publishes once.
void Redistribution::publish_next() {
  if (!tuner_->alive() || published_ == versions_) return;
  const uint64_t next = published_ + 1;
  tuner_->turn([this, next] {
    try {
      PublishedModel model{.job = next};
      model.extractor = tuner_->models().add(extractor()).or_throw();
      model.head = tuner_->models().add(head(next)).or_throw();
      const uint64_t version = tuner_->service().publish_version(model, true).version;
      if (version != next) watch_.violation(fmt::format("{} is version {}", next, version));
      published_ = next;
      tell(fmt::format("version {} is published", next));
    } catch (const Error& e) {
      tell(std::string("the Tuner answers: ") + e.what());
    }
  });
  if (!tuner_->alive() || published_ < 3 || published_ == versions_) return;
  if (rng_.next_below(6) > 0) return;
  tuner_->turn([this] {
    try {
      tell(
          fmt::format("back to version {}", tuner_->service().rollback(std::string(kDefaultTask))));
    } catch (const Error& e) {
      tell(std::string("the Tuner answers: ") + e.what());
    }
  });
}

bool Redistribution::everybody_has(uint64_t version, const std::string& task) const {
  return std::ranges::all_of(stores_, [&](const auto& store) {
    return store->alive() && store->version_in_force(task) == version;
  });
}

void Redistribution::run(uint64_t versions, int faults) {
  versions_ = versions;
  faults_ = faults;
  std::function<void()> publish = [&] {
    publish_next();
    timeline_.after(seconds(10 * rng_.next_uniform()), publish);
  };
  timeline_.after(seconds(2), publish);
  if (faults > 0) timeline_.after(seconds(10 * rng_.next_uniform()), [this] { strike(); });
  until(kRedistributionDeadline, [&] {
    return faults_ == 0 && timeline_.now() >= healed_ && published_ == versions_ &&
           everybody_has(versions_);
  });
  if (timeline_.now() >= kRedistributionDeadline)
    watch_.violation("not every store gets the last version");
  check_files();
}

bool Redistribution::labels_upload(const std::string& task) const {
  const auto known = stores_[0]->log().find(StoreMachine::uploaded(0, 0), task);
  return known && known->version > 0;
}

// Whatever of it is not done; what a Tuner that dies meanwhile has not kept is said again.
void Redistribution::publish_or_take_away(const std::string& task) {
  if (!tuner_->alive()) return;
  tuner_->turn([&] {
    try {
      const auto version = tuner_->versions().in_force(task);
      if (!version && !tuner_->versions().removed_tasks().contains(task)) {
        PublishedModel model{.task = task, .job = 1};
        model.extractor = tuner_->models().add(extractor()).or_throw();
        model.head = tuner_->models().add(head(1)).or_throw();
        (void)tuner_->service().publish_version(model, true);
      } else if (version && everybody_has(version->version, task) && labels_upload(task)) {
        tuner_->service().remove_task(task);
      }
    } catch (const Error& e) {
      tell(std::string("the Tuner answers: ") + e.what());
    }
  });
}

void Redistribution::run_with_task_taken_away() {
  const std::string task = "birds";
  std::function<void()> go_on = [&] {
    publish_or_take_away(task);
    if (stores_[0]->awake()) stores_[0]->take(StoreMachine::uploaded(0, 0), [] {});
    timeline_.after(seconds(1), go_on);
  };
  timeline_.after(seconds(1), go_on);
  until(kRedistributionDeadline, [&] {
    if (!tuner_->alive()) return false;
    const auto removed = tuner_->versions().removed_tasks();
    const auto it = removed.find(task);
    return it != removed.end() && !it->second.labels && everybody_has(0, task);
  });
  if (timeline_.now() >= kRedistributionDeadline)
    watch_.violation("the task is not gone everywhere");
  if (labels_upload(task)) {
    watch_.violation("store 0 knows what its upload was called in the task");
  }
}

void Redistribution::run_with_one_away(uint64_t versions) {
  versions_ = 1;
  publish_next();
  until(kRedistributionDeadline, [&] { return everybody_has(1); });
  stores_[2]->die(Machine::Death::kKill, kRedistributionDeadline / 2);
  for (versions_ = 2; versions_ <= versions; ++versions_) {
    publish_next();
    until(kRedistributionDeadline / 2, [&] { return stores_[0]->version_in_force() == versions_; });
  }
  versions_ = versions;
  watch_.model_bytes[2] = 0;
  stores_[2]->boot();
  until(kRedistributionDeadline, [&] { return everybody_has(versions); });
  if (!everybody_has(versions)) watch_.violation("not every store gets the last version");
  check_files();
}

// What has a model's name is that model.
void Redistribution::check_files() {
  const std::vector<std::string> machine = tuner_->failures();
  for (const std::string& f : machine) watch_.violation(f);
  for (size_t s = 0; s < stores_.size(); ++s) {
    for (const std::string& f : stores_[s]->failures()) watch_.violation(f);
    MemoryFs& disk = stores_[s]->disk();
    const Result<std::vector<std::string>> names = disk.list("state/models");
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!name.ends_with(".onnx") || rotten_.contains({s, name})) continue;
      const std::string bytes = disk.read("state/models/" + name).or_throw();
      if (to_hex(sha256(bytes)) + ".onnx" != name) {
        watch_.violation(
            fmt::format("{} on store {} is another file", name, Collection::name_of(s)));
      }
    }
    for (const std::string& file : {extractor(), head(versions_)}) {
      if (!disk.exists(model_path(sha256(file))) && watch_.violations().empty()) {
        watch_.violation("store " + Collection::name_of(s) + " lacks a file in force");
      }
    }
  }
}

// A byte of a head on the store's disk changes by itself; not of the last version's, which nothing
// would replace.
bool Redistribution::rot(size_t store) {
  MemoryFs& disk = stores_[store]->disk();
  const std::string last = to_hex(sha256(head(versions_))) + ".onnx";
  for (uint64_t v = published_; v > 0; --v) {
    const std::string name = to_hex(sha256(head(v))) + ".onnx", path = "state/models/" + name;
    if (name == last || !disk.exists(path)) continue;
    rotten_.insert({store, name});
    stores_[store]->turn([&] {  // in which its machine may die
      std::string bytes = disk.read(path).or_throw();
      char& byte = bytes[bytes.size() / 2];
      byte = static_cast<char>(byte ^ 4);
      support::write_file(disk, path, bytes);
    });
    return true;
  }
  return false;
}

bool Redistribution::apply(Fault fault, size_t s) {
  StoreMachine& store = *stores_[s];
  const Time back = seconds(0.1 + 40 * rng_.next_uniform() * rng_.next_uniform());
  const auto calls = static_cast<int64_t>(1 + rng_.next_below(30));
  const Time until = timeline_.now() + seconds(1 + 40 * rng_.next_uniform() * rng_.next_uniform());
  const auto fill = [&](Machine& machine) {
    if (machine.disk_full()) return false;
    machine.fill_disk(static_cast<int64_t>(rng_.next_below(9000)));
    healed_ = std::max(healed_, until);
    timeline_.at(until, [&machine] { machine.free_disk(); });
    return true;
  };
  switch (fault) {
    case Fault::kBreak:
      return network_.break_link(s);
    case Fault::kDelay:
      return network_.delay(s, timeline_.now() + seconds(12 * rng_.next_uniform()));
    case Fault::kPartition:
      healed_ = std::max(healed_, until);
      network_.part(s, until);
      return true;
    case Fault::kReplay:
      return network_.replay(s);
    case Fault::kKillTuner:
    case Fault::kTunerPower:
      if (!tuner_->up()) return false;
      tuner_->die(fault == Fault::kKillTuner ? Machine::Death::kKill : Machine::Death::kPowerCut,
                  back);
      return true;
    case Fault::kTunerTorn:
      if (!tuner_->up()) return false;
      tuner_->die_within(calls, back);
      return true;
    case Fault::kKillStore:
    case Fault::kStorePower:
      if (!store.up()) return false;
      store.die(fault == Fault::kKillStore ? Machine::Death::kKill : Machine::Death::kPowerCut,
                back);
      return true;
    case Fault::kStoreTorn:
      if (!store.up()) return false;
      store.die_within(calls % 10 + 1, back);
      return true;
    case Fault::kTunerFull:
      return fill(*tuner_);
    case Fault::kStoreFull:
      return fill(store);
    case Fault::kPhotoGone:  // here: a model's bytes
      return store.alive() && !store.disk_full() && rot(s);
    default:
      return false;
  }
}

void Redistribution::strike() {
  const size_t store = rng_.next_below(Collection::kStores);
  Fault fault{};
  do {
    fault = static_cast<Fault>(rng_.next_below(static_cast<uint64_t>(Fault::kFaults)));
  } while (!apply(fault, store));
  tell(std::string(fault == Fault::kPhotoGone ? "rot" : name_of(fault)) + " (" +
       Collection::name_of(store) + ")");
  if (--faults_ > 0) timeline_.after(seconds(8 * rng_.next_uniform()), [this] { strike(); });
}

}  // namespace ndtrain::sim
