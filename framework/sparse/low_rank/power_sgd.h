// Gradients as products of thin matrices (Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank
// gradient compression for distributed optimization", NeurIPS 2019).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/step_reports.h"
#include "framework/sparse/low_rank/low_rank.h"
#include "framework/sparse/sync/site_all_reduce.h"
#include "framework/sparse/sync/site_gradient.h"
#include "framework/sparse/sync/sites.h"
#include "framework/sparse/sync/slow_link_sync.h"
#include "framework/sparse/sync/step_vote.h"
#include "framework/train/local_sync.h"
#include "framework/train/trainer.h"

namespace ndtrain {

struct PowerSgdOptions {
  int rank = 4;                 // columns of the factors, 1 to limits::kPowerSgdRank
  DType wire = DType::kF32;     // or kBF16, kF16
  uint64_t seed = 0;            // of the first factors
  std::vector<int> sites = {};  // of each rank (sites.h): one is as a rank with all its shards
};

// Of a gradient as a matrix M (its first axis by the others) with what the ranks have left of it, P
// = M Q summed over the ranks and made orthonormal, then Q = M^T P summed, make P Q^T, which all
// step on; of the rest, M less its part of that, each rank keeps its own for the next step. Q is
// the next step's to begin with. Parameters of one axis, and of which the factors would be as
// large, travel whole. A step in which some rank's gradient is not finite is left out on all. In
// memory of the host.
class PowerSgd final : public SlowLinkSync {
 public:
  // Of the communicator's members, of which the r-th has shards [first_shards[r], first_shards[r +
  // 1]). Keeps references. Throws Error where these, or the options, do not go together.
  PowerSgd(const Trainer::Shared& shared, Communicator& communicator, std::vector<int> first_shards,
           const PowerSgdOptions& options);

  void begin(const HyperParameters& hyper) override;
  bool follows_the_run() const override { return sites_.members().size() > 1; }
  void gradient_ready(size_t slot, ndt_stream* /*stream*/) override { gradient_.ready(slot); }
  void add_up_statistics() override {
    gradient_.end(exposed_s_);
    reports_.add_up_statistics();
  }
  void share(std::span<ShardReport> reports) override {
    vote_.share(reports_, reports, exposed_s_);
  }
  void backward_done() override;
  void skip() override {}
  void flush() override {}

  void begin_epoch(int64_t /*epoch*/) override {}
  bool runs_ahead() const override { return false; }
  bool shares_reports() const override { return true; }
  void ask_to_stop() override { vote_.ask_to_stop(); }
  bool is_stopped() const override { return vote_.is_stopped(); }
  void abandon() override {}

  std::map<std::string, Tensor> state() const override;
  void restore(const std::map<std::string, Tensor>& state) override;
  void forget() override;
  void forget_what_is_shared() override;

  int64_t steps() const override { return steps_; }
  int64_t left_out() const override { return left_out_; }
  int64_t sent_bytes() const override { return sums_.sent_bytes(); }
  double exposed_s() const override { return exposed_s_; }

 private:
  // Of a slot; the factors lie in the vectors of all.
  struct Matrix {
    size_t slot = 0;
    MatrixSize size;
    size_t p = 0, q = 0;  // where they begin
    std::vector<float> left;
  };

  std::span<float> p_of(const Matrix& m);
  std::span<float> q_of(const Matrix& m);
  std::span<float> gradient_of(size_t slot) const;
  void copy_whole_ones(bool back);
  void add_up(std::vector<float>& values, const char* name);

  Trainer::Shared shared_;
  const PowerSgdOptions options_;
  const Sites sites_;
  StepReports reports_;
  SiteGradient gradient_;
  StepVote vote_;
  SiteAllReduce sums_;
  LocalSync step_;
  std::vector<Matrix> matrices_;
  std::vector<size_t> whole_;  // slots that travel so
  std::vector<float> p_, q_;   // P of all matrices and then whole gradients; Q of all matrices
  size_t whole_begin_ = 0;     // in p_
  int64_t left_out_ = 0, steps_ = 0;
  double exposed_s_ = 0;
};

}  // namespace ndtrain
