#include "tuner/plan/timeline.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace ndtrain::tuner {
namespace {

constexpr double kMostPieces = 64;  // of one run on one store; larger runs have larger pieces

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

// Some photos of one run, on their way.
struct Piece {
  double ready;
  int run, store;
  double photos;
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
        work_(work_of(in.costs.photo, cut, mode)),
        store_machine_(store_machine(in.costs, mode)),
        tuner_(tuner_machine(in.costs, mode)) {}

  Timeline run() {
    t_.begin_s = begin();
    t_.makespan_s = arrivals(extraction(t_.begin_s));
    if (remote_) {
      t_.publish_s =
          send_down(t_.makespan_s, cut_.head_bytes * stores_, cut_.head_bytes) - t_.makespan_s;
    }
    t_.tuner_s = tuner_.busy();
    t_.link_s = std::max(up_.busy(), down_.busy());
    return t_;
  }

 private:
  double photos_of(int run) const {
    return in_.photos * (run == 0 ? in_.val_split : (1 - in_.val_split) / runs_);
  }
  double share(int store) const {
    if (!remote_ || in_.shares.empty()) return 1.0 / stores_;
    double sum = 0;
    for (const double s : in_.shares) sum += s;
    return in_.shares[static_cast<size_t>(store)] / sum;
  }
  double own_link_s(double bytes) const {
    return in_.store_bandwidth > 0 ? bytes * kWireOverhead / in_.store_bandwidth : 0;
  }
  double shared_link_s(double bytes) const { return bytes * kWireOverhead / in_.bandwidth; }

  // From the Tuner: `bytes` in all, `most` to one store.
  double send_down(double ready, double bytes, double most) {
    t_.bytes_down += bytes;
    return std::max(down_.serve(ready, shared_link_s(bytes)), ready + own_link_s(most));
  }

  // A store that has the extractor ready says what photos it has; then it hears which are wanted.
  double begin() {
    double ready = tuner_.serve_alone(0, in_.costs.setup_s);
    if (!extracts_at_stores_) {
      const double planned = tuner_.serve_alone(ready, in_.costs.plans_s);
      if (!remote_) return planned;
    } else {
      ready = send_down(ready, cut_.extractor_bytes * stores_, cut_.extractor_bytes);
      ready = Computer(store_machine_).serve_alone(ready, in_.costs.plans_s);
    }
    double most = 0;
    for (int s = 0; s < stores_; ++s) most = std::max(most, share(s) * in_.photos);
    const double inventory = in_.photos * kInventoryBytes;
    t_.bytes_up += inventory;
    ready = std::max(up_.serve(ready, shared_link_s(inventory)),
                     ready + own_link_s(most * kInventoryBytes));
    return send_down(ready, in_.photos * kWantedBytes, most * kWantedBytes);
  }

  // Every store works through its runs without waiting for anybody. When each piece is where the
  // shared link begins, in that order.
  std::vector<Piece> extraction(double begin) {
    std::vector<Piece> pieces;
    for (int s = 0; s < stores_; ++s) {
      Computer store(store_machine_);
      Station own_link;
      for (int run = 0; run <= runs_; ++run) {
        double left = photos_of(run) * share(s);
        const double most = std::max(kEngineBatch, left / kMostPieces);
        while (left > 1e-9) {
          const double n = std::min(left, most);
          left -= n;
          const double done = store.serve(begin, n * work_.store_core_s, n * work_.store_network_s);
          pieces.push_back({own_link.serve(done, own_link_s(n * work_.bytes)), run, s, n});
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
    double arrived = 0, trained = 0;
    int next = 1;
    for (const Piece& p : pieces) {
      double here = p.ready;
      if (remote_) {
        here = up_.serve(p.ready, shared_link_s(p.photos * work_.bytes));
        t_.bytes_up += p.photos * work_.bytes;
      }
      here = tuner_.serve(here, p.photos * work_.tuner_core_s, p.photos * work_.tuner_network_s);
      arrived = std::max(arrived, here);
      --missing[static_cast<size_t>(p.run)];
      while (next <= runs_ && missing[0] == 0 && missing[static_cast<size_t>(next)] == 0) {
        if (next == 1) t_.first_run_s = arrived;
        trained = tuner_.serve(arrived, 0, training_s(next++));
      }
    }
    return std::max(arrived, trained);
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

Timeline simulate(const PlanInputs& inputs, const CutCost& cut, JobMode mode, int stores,
                  int runs) {
  return Job(inputs, cut, mode, stores, runs).run();
}

}  // namespace ndtrain::tuner
