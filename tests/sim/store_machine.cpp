#include "tests/sim/store_machine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/core/byte_reader.h"
#include "ndp/deltas/delta_format.h"
#include "ndp/wire/digests.h"
#include "tests/sim/labelling.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

Result<std::string> apply_unverified(std::string_view base, std::string_view delta) try {
  return delta_format::rebuild(base, ByteReader(delta.substr(delta_format::kHeaderBytes)));
} catch (const Error& e) {
  return Status(Code::kCorrupt, e.what());
}

// Two stores have the same, the third one's features are a rounding step off.
std::string numerics_of(size_t store) { return store == 1 ? "simulated elsewhere" : "simulated"; }

}  // namespace

class StoreMachine::Maker final : public RowProducer {
 public:
  Maker(StoreMachine& machine, size_t store, Bug bug)
      : machine_(machine),
        fs_(machine.disk_),
        collection_(machine.collection_),
        store_(store),
        bug_(bug) {}

  uint64_t photos() const override { return collection_.of(store_).size(); }
  Result<StoreInventory> scan() override {
    std::vector<StorePhoto> photos = collection_.of(store_);
    if (machine_.uploads_in_jobs_) {
      for (const StorePhoto& photo : machine_.uploads()) photos.push_back(photo);
      std::ranges::sort(photos, {}, &StorePhoto::digest);
    }
    return StoreInventory{std::move(photos), 0};
  }

  Result<std::unique_ptr<JobRows>> open(const wire::Job& job,
                                        std::shared_ptr<const StoreInventory> photos,
                                        const std::string& extractor,
                                        const std::string& head) override;

 private:
  class Rows;

  const StoreMachine& machine_;
  Fs& fs_;
  const Collection& collection_;
  size_t store_;
  Bug bug_;
};

class StoreMachine::Maker::Rows final : public JobRows {
 public:
  Rows(const Maker& of, std::shared_ptr<const StoreInventory> photos, bool labels,
       const Digest& head)
      : of_(of), photos_(std::move(photos)), labels_(labels), head_(head) {}

  RowDelivery::RowSize row() const override {
    return {labels_ ? label_row({}, {}).size() : Collection::kRow};
  }
  Result<Made> make(std::span<const size_t> places) override {
    Made made;
    for (const size_t place : places) {
      const Digest& photo = photos_->photos.at(place).digest;
      if (Collection::bad(of_.store_, photo) || !of_.machine_.holds(photo)) {
        made.bad.push_back({place, "premature end"});
      } else {
        made.rows.push_back(labels_ ? label_row(photo, head_) : Collection::row(photo));
      }
    }
    if (of_.bug_ == Bug::kNeighboursShifted && !made.bad.empty() && made.rows.size() > 1) {
      std::swap(made.rows.front(), made.rows.back());
    }
    return made;
  }

  Result<std::string> sample(std::span<const std::string> photos) override {
    std::string rows;
    for (const std::string& photo : photos) rows += Collection::row(sha256(photo));
    if (numerics_of(of_.store_) != numerics_of(0)) rows[0] = static_cast<char>(rows[0] ^ 1);
    return rows;
  }

 private:
  const Maker& of_;
  std::shared_ptr<const StoreInventory> photos_;
  bool labels_;  // the job wants them
  Digest head_;  // of the job
};

Result<std::unique_ptr<JobRows>> StoreMachine::Maker::open(
    const wire::Job& job, std::shared_ptr<const StoreInventory> photos,
    const std::string& extractor, const std::string&) {
  const Result<std::string> model = fs_.read(extractor);
  if (!model.ok()) return model.status();
  const Digest digest = sha256(*model);
  if (job.extractor() != std::string(digest.begin(), digest.end())) {
    throw Error("the extractor at ", extractor, " is not the one that was asked for");
  }
  return std::unique_ptr<JobRows>(std::make_unique<Rows>(*this, std::move(photos),
                                                         job.rows() == wire::Job::LABELS,
                                                         digest_of(job.head()).value_or(digest)));
}

StoreMachine::StoreMachine(Timeline& timeline, uint64_t seed, Network& network,
                           const Collection& collection, size_t number, Bug bug)
    : Machine(timeline, "store " + Collection::name_of(number), seed),
      network_(network),
      collection_(collection),
      number_(number),
      bug_(bug) {
  if (bug == Bug::kDeadlinesByWallClock) clock_.take_wall_for_monotonic();
}
StoreMachine::~StoreMachine() = default;

void StoreMachine::start() {
  make_lanes(PipeStoreService::kLanes);
  if (bug_ == Bug::kKnownTunerForgotten) (void)disk_.remove("state/state.json");
  state_ = std::make_unique<StateDirectory>(
      StateDirectory::open(disk_, "state", "pipestore").or_throw());
  producer_ = std::make_unique<Maker>(*this, number_, bug_);
  log_ = UploadLog::open(disk_, "uploads").or_throw();
  trash_ = std::make_unique<StoreTrash>(disk_, state_->file("trash.bin"));
  if (!library_.empty()) labels_ = std::make_unique<UploadLabels>(*log_, *trash_, clock_, bug_);
  wire::Hello hello;
  if (!library_.empty() && library_ != kDefaultCollection && bug_ != Bug::kCollectionUnsaid) {
    hello.set_collection(library_);
  }
  hello.set_store(Collection::name_of(number_));
  hello.set_incarnation(rng_.next_bits());
  hello.set_version("1");
  hello.set_numerics(numerics_of(number_));
  const auto dial = [this](LinkId id) { return network_.dial(number_, id); };
  service_ = std::make_unique<PipeStoreService>(
      PipeStoreService::Setting{
          .fs = disk_,
          .clock = clock_,
          .state = *state_,
          .lanes = *lanes_,
          .producer = *producer_,
          .dial = dial,
          .uploads = log_.get(),
          .in_force_changed =
              [this](const std::string&) {
                if (labels_) labels_->put_in_force(service_->in_force());
              },
          .apply = bug_ == Bug::kDeltaUnverified ? apply_unverified : apply_delta,
          .forget = [this](std::span<const Digest> photos) { return forget(photos); },
          .trash = trash_.get(),
          .trash_changed =
              [this](bool back) {
                if (back && labels_) labels_->look_again();
              }},
      hello, rng_.next_bits());
  if (labels_) labels_->put_in_force(service_->in_force());
}

void StoreMachine::join(std::string collection, bool uploads_in_jobs) {
  library_ = std::move(collection);
  uploads_in_jobs_ = uploads_in_jobs;
}

void StoreMachine::end() {
  service_.reset();
  labels_.reset();
  trash_.reset();
  log_.reset();
  producer_.reset();
  state_.reset();
  network_.store_died(number_);
}

void StoreMachine::after_turn() {
  if (!service_) return;
  if (labels_ && labels_->due()) {
    labels_->label_waiting();
    alarm(clock_.monotonic() + seconds(0.1));
  }
  service_->tick();
  alarm(service_->next());
}

void StoreMachine::handle(LinkEvent<wire::ToStore> event) {
  turn([this, event = std::move(event)] { service_->handle(event); });
}

void StoreMachine::upload(uint64_t photo, uint64_t n, const std::function<void()>& promised) {
  turn([&] {
    const Digest id = uploaded(number_, photo);
    if (log_->feedback(id).removed) return;
    wire::Upload line;
    line.set_digest(id.data(), id.size());
    line.set_path("uploads/" + to_hex(id));
    line.set_truth(std::to_string(n));
    line.set_restores(trash_->has(id) ? trash_->revision() : 0);
    if (!log_->commit({line}).ok()) return;
    if (line.restores() > 0 && !trash_->restore(id).ok()) return;
    promised();
  });
}

void StoreMachine::take(const Digest& photo, const std::function<void()>& promised) {
  turn([&] {
    if (labels_->take(photo)) promised();
  });
}

void StoreMachine::say(const Digest& photo, const std::string& task, const std::string& class_name,
                       const std::function<void(int64_t)>& promised) {
  turn([&] {
    if (const auto time = labels_->say(photo, task, class_name)) promised(*time);
  });
}

const Digest& StoreMachine::uploaded(size_t store, uint64_t photo) {
  static std::map<std::pair<size_t, uint64_t>, Digest> all;
  const auto [digest, is_new] = all.try_emplace({store, photo});
  if (is_new) {
    digest->second = sha256("upload " + std::to_string(store) + " " + std::to_string(photo));
  }
  return digest->second;
}

std::vector<StorePhoto> StoreMachine::uploads() const {
  std::vector<StorePhoto> all;
  for (uint64_t n = 0; n < kUploads; ++n) {
    const Digest& id = uploaded(number_, n);
    if (holds(id)) all.push_back({.digest = id, .path = "uploads/" + to_hex(id), .bytes = 1000});
  }
  return all;
}

bool StoreMachine::holds(const Digest& photo) const {
  if (collection_.holds(number_, photo)) return true;
  const auto known = log_->find(photo);
  return known && known->uploaded && !known->removed;
}

// As Uploads does it, of which there are no files here.
Status StoreMachine::forget(std::span<const Digest> photos) {
  std::vector<wire::Upload> lines;
  for (const Digest& id : photos) {
    if (log_->feedback(id).removed) continue;
    lines.emplace_back().set_digest(id.data(), id.size());
    lines.back().set_removed(true);
  }
  return lines.empty() ? Status() : log_->commit(std::move(lines));
}

bool StoreMachine::was_deleted(const Digest& photo) const {
  return log_ && log_->feedback(photo).removed;
}

void StoreMachine::stop(Time back_after) {
  turn([this, back_after] {
    service_->leave("it was told to stop");
    stop_for(back_after);
  });
}

}  // namespace ndtrain::sim
