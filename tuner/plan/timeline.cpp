#include "tuner/plan/timeline.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "ndp/jobs/row_task.h"

namespace ndtrain::tuner {
namespace {

// Of one run on one store; larger runs have larger pieces. And of all, as thousands of stores have
// more than anybody would wait for.
constexpr double kMostPieces = 64, kMostInAll = 1 << 16;

// First come, first served.
class Station {
 public:
  double serve(double ready, double seconds) {
    free_ = std::max(ready, free_) + seconds;
    busy_ += seconds;
    return free_;
  }
  double busy() const { return busy_; }

 private:
  double free_ = 0, busy_ = 0;
};

class Computer {
 public:
  explicit Computer(const Machine& m) : m_(m) {}

  // Work that one thread does.
  double serve_alone(double ready, double core_s) {
    return cores_.serve(ready, core_s / (std::min(m_.cores, 1.0) * m_.core_speed));
  }

  // When it is done. What asks for nothing waits for nothing.
  double serve(double ready, double core_s, double network_s) {
    const double cores = m_.cores * m_.core_speed;
    if (m_.accelerators == 0) {
      core_s += network_s;
      network_s = 0;
    }
    double done = core_s > 0 ? cores_.serve(ready, core_s / cores) : ready;
    if (network_s > 0) {
      done = accelerators_.serve(done, network_s / (m_.accelerators * m_.accelerator_speed));
    }
    return done;
  }
  double busy() const { return std::max(cores_.busy(), accelerators_.busy()); }
  double worked() const { return cores_.busy() + accelerators_.busy(); }

 private:
  const Machine& m_;
  Station cores_, accelerators_;
};

// What one photo asks of each resource.
struct PhotoWork {
  double store_core_s = 0, store_network_s = 0, bytes = 0, tuner_core_s = 0, tuner_network_s = 0;
};

PhotoWork work_of(const PhotoCosts& p, const CutCost& cut, JobMode mode) {
  switch (mode) {
    case JobMode::kNdpipe:
      return {p.prepare_s, cut.extract_s, cut.feature_bytes, 0, 0};
    case JobMode::kTypical:
      return {0, 0, p.bytes, p.prepare_s, cut.extract_s};
    case JobMode::kSrvP:
      return {p.crop_s, 0, p.crop_bytes, p.normalise_s, cut.extract_s};
    case JobMode::kSrvC:
      return {p.crop_s + p.compress_s, 0, p.compressed_crop_bytes, p.decompress_s + p.normalise_s,
              cut.extract_s};
    case JobMode::kIdeal:
      break;
  }
  return {0, 0, 0, p.prepare_s, cut.extract_s};
}

// Some rows of one run, each of a photo or of a view of one, on their way.
struct Piece {
  double ready;
  int run, store;
  double rows, work_s;  // work_s: of the store
};

// When rows came, by run and store.
class Arrivals {
 public:
  Arrivals(int runs, int stores)
      : stores_(static_cast<size_t>(stores)), all_((static_cast<size_t>(runs) + 1) * stores_) {}

  void add(const Piece& p, double here) {
    Rows& rows = all_[static_cast<size_t>(p.run) * stores_ + static_cast<size_t>(p.store)];
    if (rows.last == 0) rows.first = here;
    rows.last = here;
    rows.work_s += p.work_s;
  }
  // Of each run the slowest store's.
  double network_s() const {
    double seconds = 0;
    for (size_t run = 0; run < all_.size(); run += stores_) {
      double slowest = 0;
      for (size_t s = 0; s < stores_; ++s) slowest = std::max(slowest, all_[run + s].network_s());
      seconds += slowest;
    }
    return seconds;
  }

 private:
  struct Rows {
    double first = 0, last = 0, work_s = 0;
    double network_s() const { return last - first - work_s; }
  };
  size_t stores_;
  std::vector<Rows> all_;
};

class Job {
 public:
  Job(const PlanInputs& in, const CutCost& cut, JobMode mode, int stores, int runs)
      : in_(in),
        cut_(cut),
        remote_(mode != JobMode::kIdeal),
        extracts_at_stores_(mode == JobMode::kNdpipe),
        stores_(remote_ ? stores : 1),
        runs_(runs),
        shares_(remote_ ? shares_of(in, stores) : std::vector{1.0}),
        made_(extracts_at_stores_ ? 1 - kept_share(in, cut) : 1),
        work_(work_of(in.costs.photo, cut, mode)),
        store_machine_(store_machine(in.costs, mode)),
        tuner_(tuner_machine(in.costs, mode)) {}

  Timeline run() {
    t_.begin_s = begin();
    const double trained = arrivals(extraction(t_.begin_s)), before = tuner_.worked();
    t_.makespan_s = tuner_.serve_alone(trained, in_.costs.finish_s);
    t_.training_s += tuner_.worked() - before;
    if (remote_) {
      t_.publish_s = send_down(t_.makespan_s, cut_.head_bytes * stores_, to_each(cut_.head_bytes)) -
                     t_.makespan_s;
    }
    t_.tuner_s = tuner_.busy();
    t_.link_s = std::max(up_.busy(), down_.busy());
    return t_;
  }

 private:
  static double kept_share(const PlanInputs& in, const CutCost& cut) {
    const auto kept = in.kept.find(cut.name);
    return kept == in.kept.end() ? 0 : std::min(1.0, kept->second / in.photos);
  }
  double photos_of(int run) const {
    return in_.photos * (run == 0 ? in_.val_split : (1 - in_.val_split) / runs_);
  }
  double share(int store) const { return shares_[static_cast<size_t>(store)]; }
  double slowest() const {
    double speed = speed_of(in_, 0);
    for (int s = 1; s < stores_; ++s) speed = std::min(speed, speed_of(in_, s));
    return speed;
  }
  double own_link_s(int store, double bytes) const {
    const double link = link_of(in_, store);
    return link > 0 ? bytes * kWireOverhead / link : 0;
  }
  // On the stores' own links, until the last has as much.
  double to_each(double bytes) const {
    double seconds = 0;
    for (int s = 0; s < stores_; ++s) seconds = std::max(seconds, own_link_s(s, bytes));
    return seconds;
  }
  double for_shares(double bytes) const {  // of all photos
    double seconds = 0;
    for (int s = 0; s < stores_; ++s) seconds = std::max(seconds, own_link_s(s, share(s) * bytes));
    return seconds;
  }
  double shared_link_s(double bytes) const { return bytes * kWireOverhead / in_.bandwidth; }

  // From the Tuner: `bytes` in all, which take so long on the stores' own links.
  double send_down(double ready, double bytes, double own_s) {
    t_.bytes_down += bytes;
    return std::max(down_.serve(ready, shared_link_s(bytes)), ready + own_s);
  }

  // A store that has the extractor ready says what photos it has; then it hears which are wanted.
  double begin() {
    double ready = tuner_.serve_alone(0, in_.costs.setup_s);
    if (!extracts_at_stores_) {
      const double planned = tuner_.serve_alone(ready, in_.costs.plans_s);
      if (!remote_) return planned;
    } else {
      ready = send_down(ready, cut_.extractor_bytes * stores_, to_each(cut_.extractor_bytes));
      ready = Computer(store_machine_).serve_alone(ready, in_.costs.plans_s / slowest());
    }
    const double inventory = in_.photos * kInventoryBytes;
    t_.bytes_up += inventory;
    ready = std::max(up_.serve(ready, shared_link_s(inventory)), ready + for_shares(inventory));
    const double wanted = made_ * in_.photos * kWantedBytes;
    return send_down(ready, wanted, for_shares(wanted));
  }

  // Every store works through its runs without waiting for anybody. When each piece is where the
  // shared link begins, in that order.
  std::vector<Piece> extraction(double begin) {
    const double most_pieces = std::clamp(kMostInAll / (stores_ * (runs_ + 1)), 1.0, kMostPieces);
    std::vector<Piece> pieces;
    for (int s = 0; s < stores_; ++s) {
      Computer store(store_machine_);
      Station own_link;
      const double speed = speed_of(in_, s);
      const double core_s = work_.store_core_s / speed, network_s = work_.store_network_s / speed;
      std::optional<double> photo_s;
      for (int run = 0; run <= runs_; ++run) {
        double left = made_ * photos_of(run) * rows_of_photo(in_, run) * share(s);
        const double least = left / most_pieces;
        while (left > 1e-9) {
          const auto task = static_cast<double>(ndp::row_task(static_cast<size_t>(left), photo_s));
          const double n = std::min(left, std::max(task, least));
          left -= n;
          const double worked = store.busy();
          const double done = store.serve(begin, n * core_s, n * network_s);
          pieces.push_back({own_link.serve(done, own_link_s(s, n * work_.bytes)), run, s, n,
                            store.busy() - worked});
          photo_s = (store.busy() - worked) / n;
        }
      }
      t_.busiest_store_s = std::max(t_.busiest_store_s, store.busy());
      t_.all_stores_s += store.busy();
    }
    std::ranges::sort(pieces, {},
                      [](const Piece& p) { return std::tuple(p.ready, p.run, p.store); });
    return pieces;
  }

  // Over the link into the Tuner, which trains on a run when it is whole. When all is trained.
  double arrivals(const std::vector<Piece>& pieces) {
    std::vector<int> missing(static_cast<size_t>(runs_) + 1, 0);
    for (const Piece& p : pieces) ++missing[static_cast<size_t>(p.run)];
    double arrived = t_.begin_s, trained = t_.begin_s;
    int next = 1;
    const auto train = [&] {
      while (next <= runs_ && missing[0] == 0 && missing[static_cast<size_t>(next)] == 0) {
        if (next == 1) t_.first_run_s = arrived;
        trained = train_on(next++, arrived);
      }
    };
    train();  // on what is here from earlier jobs
    Arrivals rows(runs_, stores_);
    for (const Piece& p : pieces) {
      double here = p.ready;
      if (remote_) {
        here = up_.serve(p.ready, shared_link_s(p.rows * work_.bytes));
        t_.bytes_up += p.rows * work_.bytes;
        rows.add(p, here);
      }
      here = tuner_.serve(here, p.rows * work_.tuner_core_s, p.rows * work_.tuner_network_s);
      arrived = std::max(arrived, here);
      --missing[static_cast<size_t>(p.run)];
      train();
    }
    t_.network_s = rows.network_s();
    return std::max(arrived, trained);
  }

  double train_on(int run, double ready) {
    const double steps = training_s(run), each = in_.epochs * in_.costs.epoch_s;
    const double before = tuner_.worked();
    const double done = tuner_.serve_alone(tuner_.serve(ready, 0, steps), each);
    t_.training_s += tuner_.worked() - before;
    return done;
  }

  // Every run is validated as often as one run over all photos would be, and at its end; the last
  // one ends with the best epoch's weights, which are evaluated once more.
  double training_s(int run) const {
    const double photos = photos_of(run) * (in_.all_runs ? run : 1);
    const double evaluations = std::ceil(in_.epochs / runs_) + (run == runs_ ? 1 : 0);
    return in_.epochs * photos * cut_.train_s + evaluations * photos_of(0) * cut_.evaluate_s;
  }

  const PlanInputs& in_;
  const CutCost& cut_;
  const bool remote_, extracts_at_stores_;
  const int stores_, runs_;
  const std::vector<double> shares_;
  const double made_;  // share of the photos that are extracted: the others' features are kept
  const PhotoWork work_;
  const Machine& store_machine_;
  Computer tuner_;
  Station up_, down_;
  Timeline t_;
};

}  // namespace

const Machine& store_machine(const PlanCosts& costs, JobMode mode) {
  return mode != JobMode::kNdpipe && costs.plain_store ? *costs.plain_store : costs.store;
}

const Machine& tuner_machine(const PlanCosts& costs, JobMode mode) {
  return mode != JobMode::kNdpipe && costs.plain_tuner ? *costs.plain_tuner : costs.tuner;
}

std::map<std::string, double> stages_of(const Timeline& t, double photos) {
  return {{"feature_extraction_s", t.busiest_store_s},
          {"network_s", t.network_s},
          {"tuner_busy_s", t.training_s},
          {"overall_s", t.makespan_s},
          {"row_bytes", std::max(0.0, t.bytes_up - kInventoryBytes * photos)}};
}

Timeline simulate(const PlanInputs& inputs, const CutCost& cut, JobMode mode, int stores,
                  int runs) {
  return Job(inputs, cut, mode, stores, runs).run();
}

}  // namespace ndtrain::tuner
