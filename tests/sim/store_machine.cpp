#include "tests/sim/store_machine.h"

#include "framework/core/byte_reader.h"
#include "ndp/deltas/delta_format.h"
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
  Maker(Fs& fs, const Collection& collection, size_t store, Bug bug)
      : fs_(fs), collection_(collection), store_(store), bug_(bug) {}

  uint64_t photos() const override { return collection_.of(store_).size(); }
  Result<StoreInventory> scan() override {
    scanned_ = collection_.of(store_);
    return StoreInventory{scanned_, 0};
  }

  Result<RowDelivery::RowSize> open(const wire::Job& job, const std::string& extractor,
                                    const std::string&) override {
    const Result<std::string> model = fs_.read(extractor);
    if (!model.ok()) return model.status();
    const Digest digest = sha256(*model);
    if (job.extractor() != std::string(digest.begin(), digest.end())) {
      throw Error("the extractor at ", extractor, " is not the one that was asked for");
    }
    labels_ = job.rows() == wire::Job::LABELS;
    return RowDelivery::RowSize{labels_ ? label_row({}).size() : Collection::kRow};
  }

  Result<Made> make(std::span<const size_t> places) override {
    Made made;
    for (const size_t place : places) {
      const Digest& photo = scanned_.at(place).digest;
      if (Collection::bad(store_, photo) || !collection_.holds(store_, photo)) {
        made.bad.push_back({place, "premature end"});
      } else {
        made.rows.push_back(labels_ ? label_row(photo) : Collection::row(photo));
      }
    }
    if (bug_ == Bug::kNeighboursShifted && !made.bad.empty() && made.rows.size() > 1) {
      std::swap(made.rows.front(), made.rows.back());
    }
    return made;
  }

  Result<std::string> sample(std::span<const std::string> photos) override {
    std::string rows;
    for (const std::string& photo : photos) rows += Collection::row(sha256(photo));
    if (numerics_of(store_) != numerics_of(0)) rows[0] = static_cast<char>(rows[0] ^ 1);
    return rows;
  }

 private:
  Fs& fs_;
  const Collection& collection_;
  size_t store_;
  Bug bug_;
  std::vector<StorePhoto> scanned_;
  bool labels_ = false;  // the job in progress wants them
};

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
  producer_ = std::make_unique<Maker>(disk_, collection_, number_, bug_);
  log_ = UploadLog::open(disk_, "uploads").or_throw();
  trash_ = std::make_unique<StoreTrash>(disk_, state_->file("trash.bin"));
  wire::Hello hello;
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
          .apply = bug_ == Bug::kDeltaUnverified ? apply_unverified : apply_delta,
          .forget = [this](std::span<const Digest> photos) { return forget(photos); },
          .trash = trash_.get()},
      hello, rng_.next_bits());
}

void StoreMachine::end() {
  service_.reset();
  trash_.reset();
  log_.reset();
  producer_.reset();
  state_.reset();
  network_.store_died(number_);
}

void StoreMachine::after_turn() {
  if (!service_) return;
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
