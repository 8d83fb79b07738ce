#include "framework/pipeline/profiler/measure_network.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "framework/parallel/between_ranks.h"
#include "framework/parallel/collective_fit.h"

namespace ndtrain {
namespace {

constexpr int64_t kGrowth = 4;  // of a size from the one before
constexpr int kRepeats = 5;
constexpr double kLeastSeconds = 1e-9;    // what a clock did not see
constexpr double kBesideEachOther = 1.5;  // two messages at once take less than so many

// What is measured of a level, as its first rank has it.
struct Figures {
  double all_reduce_bytes_per_s = 0, p2p_bytes_per_s = 0, all_reduce_s = 0, p2p_s = 0,
         fully_connected = 0;
};

// Between the ranks of a group, of which the first one measures.
class LevelMeasure {
 public:
  LevelMeasure(Communicator& communicator, RankGroup group, const NetworkOptions& options,
               Clock& clock)
      : communicator_(communicator), group_(std::move(group)), options_(options), clock_(clock) {}

  Figures measure() {
    const auto ranks = static_cast<double>(group_.size());
    Figures f;
    const CostProfile::Collective there_and_back = fit([&](int64_t bytes) { message(bytes, 1); });
    f.p2p_s = there_and_back.alpha_s / 2;
    f.p2p_bytes_per_s = 1 / std::max(there_and_back.beta_s_per_byte, kLeastSeconds * 1e-6);
    if (group_.size() > 2) {
      const double one = seconds([&] { message(largest_, 1); });
      const double two = seconds([&] { message(largest_, 2); });
      f.fully_connected = two < kBesideEachOther * one ? 1 : 0;
    }
    const CostProfile::Collective sum = fit([&](int64_t bytes) { all_reduce(bytes); });
    f.all_reduce_s = sum.alpha_s / 2;
    // As set_collectives() has it.
    const double links = f.fully_connected > 0 ? 1 : ranks - 1;
    f.all_reduce_bytes_per_s =
        2 * links / (ranks * std::max(sum.beta_s_per_byte, kLeastSeconds * 1e-6));
    return f;
  }

 private:
  static size_t floats_of(int64_t bytes) { return static_cast<size_t>(bytes) / sizeof(float); }

  void run(std::vector<CommOp> ops) {
    std::vector<Communicator::Op> ids;
    for (CommOp& op : ops) {
      ids.push_back(communicator_.enqueue(std::move(op)));
      communicator_.release(ids.back());
    }
    for (const Communicator::Op id : ids) communicator_.wait(id);
  }

  CommOp message_op(int from, int to, std::span<float> data) const {
    CommOp op{.kind = CommOp::Kind::kMessage,
              .group = {std::min(from, to), std::max(from, to)},
              .name = "measure"};
    op.data = data;
    op.root = from;
    return op;
  }

  // From the first rank to the next ones, each of which says that it has it.
  void message(int64_t bytes, size_t receivers) {
    const int me = communicator_.rank(), first = group_[0];
    data_.resize(floats_of(bytes));
    said_.resize(receivers);
    std::vector<CommOp> out, back;
    for (size_t k = 0; k < receivers; ++k) {
      const int to = group_[k + 1];
      if (me != first && me != to) continue;
      out.push_back(message_op(first, to, data_));
      back.push_back(message_op(to, first, {&said_[k], 1}));
    }
    if (me != first) {
      run(std::move(out));
      return run(std::move(back));
    }
    std::ranges::move(back, std::back_inserter(out));
    run(std::move(out));
  }

  void all_reduce(int64_t bytes) {
    data_.resize(floats_of(bytes));
    CommOp op{.kind = CommOp::Kind::kAllReduce, .group = group_, .name = "measure"};
    op.data = data_;
    run({std::move(op)});
  }

  // The median, on the first rank; on the others something else.
  double seconds(const std::function<void()>& work) {
    std::vector<double> all;
    for (int i = 0; i <= kRepeats; ++i) {
      run({{.kind = CommOp::Kind::kBarrier, .group = group_, .name = "measure"}});
      const auto begun = clock_.monotonic();
      work();
      const double took = std::chrono::duration<double>(clock_.monotonic() - begun).count();
      if (i > 0) all.push_back(std::max(took, kLeastSeconds));  // memory is there by then
    }
    std::ranges::nth_element(all, all.begin() + kRepeats / 2);
    return all[kRepeats / 2];
  }

  // The first rank says whether there is time for another size.
  bool goes_on(bool more) {
    const std::string said = broadcast(communicator_, group_[0], more ? "1" : "", group_);
    return !said.empty();
  }

  CostProfile::Collective fit(const std::function<void(int64_t bytes)>& work) {
    std::vector<CollectiveTiming> timings;
    double spent = 0;
    for (int64_t bytes = options_.least_bytes;; bytes *= kGrowth) {
      const double took = seconds([&] { work(bytes); });
      timings.push_back({bytes, took});
      largest_ = bytes;
      spent += took * (kRepeats + 1);
      const double next = took * kGrowth * (kRepeats + 1);
      const bool more = timings.size() < 2 || (bytes * kGrowth <= options_.most_bytes &&
                                               spent + next <= options_.budget_s);
      if (!goes_on(more)) return fit_collective(timings);
    }
  }

  Communicator& communicator_;
  const RankGroup group_;
  const NetworkOptions options_;
  Clock& clock_;
  int64_t largest_ = 0;  // bytes
  std::vector<float> data_, said_;
};

Topology::Level level_of(const std::string& bytes, int units) {
  Figures f;
  std::memcpy(&f, bytes.data(), sizeof f);
  return {.units = units,
          .all_reduce_bytes_per_s = f.all_reduce_bytes_per_s,
          .p2p_bytes_per_s = f.p2p_bytes_per_s,
          .all_reduce_s = f.all_reduce_s,
          .p2p_s = f.p2p_s,
          .fully_connected = f.fully_connected > 0};
}

}  // namespace

Topology measure_network(Communicator& communicator, std::span<const int> units,
                         const NetworkOptions& options, Clock& clock) {
  int64_t devices = 1;
  for (const int n : units) devices *= n;
  if (devices != communicator.ranks()) {
    throw Error("levels of ", devices, " devices in all, but there are ", communicator.ranks(),
                " ranks");
  }
  Topology topology;
  int apart = 1;  // the first ranks of two units
  for (const int n : units) {
    RankGroup group;
    for (int k = 0; k < n; ++k) group.push_back(k * apart);
    std::string bytes(sizeof(Figures), '\0');
    if (n > 1 && std::ranges::count(group, communicator.rank()) > 0) {
      const Figures f = LevelMeasure(communicator, group, options, clock).measure();
      std::memcpy(bytes.data(), &f, sizeof f);
    }
    topology.levels.push_back(level_of(broadcast(communicator, 0, bytes), n));
    apart *= n;
  }
  return topology;
}

}  // namespace ndtrain
