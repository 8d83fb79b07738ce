#include "framework/sparse/plan/exchange_work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/runtime/backend.h"
#include "framework/sparse/local/outer_optimizer.h"
#include "framework/sparse/low_rank/low_rank.h"
#include "framework/sparse/optimizers/sparse_optimizer.h"
#include "framework/sparse/selection/selection_codec.h"
#include "framework/sparse/sync/error_feedback.h"

namespace ndtrain {
namespace {

constexpr int64_t kSide = 2048, kElements = kSide * kSide;
constexpr int64_t kSent = kElements / 100;
constexpr int kRounds = 5;
constexpr int64_t kColumns = 4;
constexpr double kRate = 0.01;

constexpr std::pair<const char*, double ExchangeWork::*> kMembers[] = {
    {"add_s", &ExchangeWork::add_s},       {"choose_s", &ExchangeWork::choose_s},
    {"sort_s", &ExchangeWork::sort_s},     {"column_s", &ExchangeWork::column_s},
    {"outer_s", &ExchangeWork::outer_s},   {"encode_s", &ExchangeWork::encode_s},
    {"decode_s", &ExchangeWork::decode_s}, {"update_s", &ExchangeWork::update_s}};

class WorkTimes {
 public:
  WorkTimes(const OptimizerConfig& optimizer, Clock& clock)
      : clock_(clock),
        device_(Backend::find("cpu"), {.deterministic = true}),
        parameters_(graph_,
                    std::vector{graph_.add_param("w", Tensor({DType::kF32, Shape{kSide, kSide}}))},
                    device_),
        optimizer_(optimizer, parameters_, device_),
        gradient_(static_cast<size_t>(kElements)) {
    const Rng rng(1, "gradient");
    for (size_t i = 0; i < gradient_.size(); ++i) {
      gradient_[i] = static_cast<float>(rng.normal(static_cast<int64_t>(i)));
    }
  }

  ExchangeWork measure() {
    ExchangeWork work;
    time_selections(work);
    time_products(work);
    time_outer_steps(work);
    return work;
  }

 private:
  // The median of some rounds, behind one in which memory is touched for the first time.
  double seconds_of(const std::function<void()>& what) {
    std::vector<double> seconds;
    for (int round = -1; round < kRounds; ++round) {
      const auto begun = clock_.monotonic();
      what();
      const std::chrono::duration<double> took = clock_.monotonic() - begun;
      if (round >= 0) seconds.push_back(took.count());
    }
    return median_of(std::move(seconds));
  }

  static double median_of(std::vector<double> seconds) {
    std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
    return seconds[seconds.size() / 2];
  }

  void time_selections(ExchangeWork& work) {
    ErrorFeedback feedback(parameters_.slots(), make_compressor("threshold-v16"), 1,
                           ValueCoding::kF32);
    CompressorScratch scratch;
    Selection taken;
    std::vector<double> add, choose;
    for (int round = -1; round < kRounds; ++round) {
      const auto begun = clock_.monotonic();
      feedback.add(0, gradient_);
      const auto added = clock_.monotonic();
      feedback.take(0, kSent, scratch, taken);
      const auto chosen = clock_.monotonic();
      if (round < 0) continue;
      add.push_back(std::chrono::duration<double>(added - begun).count());
      choose.push_back(std::chrono::duration<double>(chosen - added).count());
    }
    work.add_s = median_of(std::move(add)) / kElements;
    work.choose_s = median_of(std::move(choose)) / kElements;
    ErrorFeedback sorted(parameters_.slots(), make_compressor("topk"), 1, ValueCoding::kF32);
    sorted.add(0, gradient_);
    Selection largest;
    work.sort_s = seconds_of([&] { sorted.take(0, kSent, scratch, largest); }) / kElements;
    std::string bytes;
    work.encode_s =
        seconds_of([&] { bytes = encode(taken, kElements, ValueCoding::kF32); }) / kSent;
    std::vector<Selection> of_ranks(2);
    Selection sum;
    const double read_s = seconds_of([&] {
      for (Selection& s : of_ranks) decode(bytes, kElements, s).or_throw();
      sum = sum_of(of_ranks);
    });
    work.decode_s = read_s / (2 * kSent);
    SparseOptimizer sparse(optimizer_, parameters_, device_);
    SparseOptimizer::Worker worker(sparse);
    const std::span<float> values(parameters_.values(), static_cast<size_t>(kElements));
    const double update_s =
        seconds_of([&] { sparse.apply(0, taken, optimizer_.next(kRate), values, worker); });
    work.update_s = update_s / kSent;
  }

  void time_products(ExchangeWork& work) {
    const MatrixSize size{.rows = kSide, .columns = kSide};
    std::vector<float> p(static_cast<size_t>(kSide * kColumns)), product = gradient_;
    std::vector<float> q(gradient_.begin(), gradient_.begin() + kSide * kColumns);
    const double all_s = seconds_of([&] {
      multiply(gradient_, size, q, p);
      orthonormalise(p, kSide);
      multiply_transposed(gradient_, size, p, q);
      add_up_products(p, q, size, product);
    });
    work.column_s = all_s / (kElements * kColumns);
  }

  void time_outer_steps(ExchangeWork& work) {
    std::vector<float> outer(gradient_.size()), velocity(gradient_.size()), agreed = gradient_;
    const std::span<float> values(parameters_.values(), static_cast<size_t>(kElements));
    work.outer_s = seconds_of([&] {
                     for (size_t i = 0; i < outer.size(); ++i) {
                       outer[i] = (agreed[i] - values[i]) / 2;
                     }
                     outer_step(outer, 0.7, 0.9, velocity, agreed);
                     std::ranges::copy(agreed, values.begin());
                   }) /
                   kElements;
  }

  Clock& clock_;
  const Device device_;
  Graph graph_;
  const ParameterSpace parameters_;
  Optimizer optimizer_;
  std::vector<float> gradient_;
};

}  // namespace

void validate(const ExchangeWork& work) {
  for (const auto& [name, member] : kMembers) {
    if (std::isfinite(work.*member) && work.*member >= 0) continue;
    throw Error("exchange work: ", name, " is ", work.*member);
  }
}

ExchangeWork measure_exchange_work(const OptimizerConfig& optimizer, Clock& clock) {
  return WorkTimes(optimizer, clock).measure();
}

}  // namespace ndtrain
