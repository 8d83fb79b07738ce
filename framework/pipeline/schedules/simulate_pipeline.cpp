#include "framework/pipeline/schedules/simulate_pipeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/pipeline/schedules/pipeline_messages.h"
#include "framework/pipeline/schedules/replicas.h"
#include "framework/pipeline/schedules/stage_account.h"

namespace ndtrain {
namespace {

void validate(const PipelineCosts& costs, const PipeShape& shape) {
  const auto expect = [](size_t n, int wanted, const char* of) {
    if (n != static_cast<size_t>(wanted)) {
      throw Error("pipeline costs: ", n, " ", of, ", where the pipeline has ", wanted);
    }
  };
  expect(costs.stages.size(), shape.stages, "stages");
  if (!costs.edges.empty()) {
    expect(costs.edges.size(), static_cast<int>(edges_of(shape).size()), "edges");
  }
  if (!costs.replicas.empty()) expect(costs.replicas.size(), shape.ranks(), "numbers of replicas");
  for (size_t rank = 0; rank < costs.replicas.size(); ++rank) {
    if (costs.replicas[rank] < 1) {
      throw Error("pipeline costs: rank ", rank, " has ", costs.replicas[rank], " replicas");
    }
  }
  if (costs.rows < 1) throw Error("pipeline costs: a micro-batch of ", costs.rows, " rows");
  for (const auto& s : costs.stages) {
    for (const double seconds :
         {s.forward_s, s.input_s, s.weight_s, s.recompute_s, s.exchange_s, s.update_s}) {
      if (!(seconds >= 0)) throw Error("pipeline costs: a stage takes ", seconds, " s");
    }
  }
  for (const auto& e : costs.edges) {
    for (const double n : {e.activation_bytes, e.gradient_bytes, e.latency_s, e.bytes_per_s}) {
      if (!(n >= 0)) throw Error("pipeline costs: an edge with ", n, " bytes, s or bytes/s");
    }
  }
}

class PipelinePlay {
 public:
  using Lists = std::span<const std::vector<Instruction>>;

  PipelinePlay(Lists lists, std::span<const int64_t> buffers, const PipeShape& shape,
               const PipelineCosts& costs)
      : lists_(lists),
        shape_(shape),
        costs_(costs),
        first_row_(first_rows()),
        messages_(shape, costs, buffers, first_row_) {
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      for (int replica = 0; replica < replicas(rank); ++replica) {
        rows_.push_back({.rank = rank, .replica = replica});
        const auto own = static_cast<double>(rows_of(costs.rows, replica, replicas(rank)).size());
        part_.push_back(own / static_cast<double>(costs.rows));
      }
    }
    now_s_.resize(rows_.size());
    waits_for_.resize(rows_.size());
    for (int s = 0; s < shape.stages; ++s) accounts_.emplace_back(shape.trains(s));
    for (const StageEdge& e : edges_of(shape)) {
      if (shape.rank_of(e.from) == shape.rank_of(e.to)) edges_of_one_rank_.push_back(e);
    }
  }

  PipelinePrediction play() {
    for (bool gone_on = true; gone_on;) {
      gone_on = false;
      for (size_t row = 0; row < rows_.size(); ++row) {
        while (go_on(row)) gone_on = true;
      }
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (!has_ended(row)) throw Error("pipeline: ", who_waits(row));
    }
    messages_.expect_all_received();
    return prediction();
  }

 private:
  using Row = PipelinePrediction::Row;

  std::vector<int> first_rows() const {
    std::vector<int> first = {0};
    for (int rank = 0; rank < shape_.ranks(); ++rank)
      first.push_back(first.back() + replicas(rank));
    return first;
  }
  int replicas(int rank) const {
    return costs_.replicas.empty() ? 1 : costs_.replicas[static_cast<size_t>(rank)];
  }
  const std::vector<Instruction>& list_of(size_t row) const {
    return lists_[static_cast<size_t>(rows_[row].rank)];
  }
  bool has_ended(size_t row) const { return rows_[row].spans.size() == list_of(row).size(); }

  // The next instruction of a row. False where there is none, or it has to wait for another row.
  bool go_on(size_t row) {
    if (has_ended(row)) return false;
    Row& of = rows_[row];
    const Instruction& i = list_of(row)[of.spans.size()];
    if (i.stage < 0 || i.stage >= shape_.stages || shape_.rank_of(i.stage) != of.rank) {
      throw Error("pipeline: rank ", of.rank, " is told ", describe(i), ", which is not its own");
    }
    const double begin_s = now_s_[row];
    if (is_send(i.op) || is_receive(i.op) || i.op == PipeOp::kGradSync) {
      const auto outcome = is_send(i.op)      ? messages_.send(static_cast<int>(row), i, begin_s)
                           : is_receive(i.op) ? messages_.receive(static_cast<int>(row), i, begin_s)
                                              : exchange(row, i, begin_s);
      waits_for_[row] = outcome.waits_for;
      if (outcome.waits_for >= 0) return false;
      now_s_[row] = outcome.end_s;
    } else {
      if (of.replica == 0) account(i);
      const double seconds = seconds_of(i) * (i.op == PipeOp::kUpdate ? 1 : part_[row]);
      of.computing_s += seconds;
      now_s_[row] += seconds;
    }
    of.spans.push_back({i, begin_s, now_s_[row]});
    return true;
  }

  double seconds_of(const Instruction& i) const {
    const PipelineCosts::Stage& cost = costs_.stages[static_cast<size_t>(i.stage)];
    switch (i.op) {
      case PipeOp::kForward:
        return cost.forward_s;
      case PipeOp::kRecompute:
        return cost.recompute_s;
      case PipeOp::kBackward:
        return cost.input_s + cost.weight_s;
      case PipeOp::kBackwardInput:
        return cost.input_s;
      case PipeOp::kBackwardWeight:
        return cost.weight_s;
      case PipeOp::kUpdate:
        return cost.update_s;
      default:
        return 0;
    }
  }

  // What the stage has at hand, and what stages of the same rank have handed it.
  void account(const Instruction& i) {
    accounts_[static_cast<size_t>(i.stage)].take(i);
    if (i.op == PipeOp::kFlush) {
      for (int s = shape_.rank_of(i.stage); s < shape_.stages; s += shape_.ranks()) {
        if (s != i.stage) accounts_[static_cast<size_t>(s)].take(i);
      }
    }
    for (const StageEdge& e : edges_of_one_rank_) {
      const StageAccount& from = accounts_[static_cast<size_t>(e.from)];
      const StageAccount& to = accounts_[static_cast<size_t>(e.to)];
      const bool early = e.activation && i.op == PipeOp::kForward && i.stage == e.to &&
                         from.forwarded() <= i.micro_batch;
      const bool early_back =
          returns_gradient(shape_, e) && i.stage == e.from && from.taken_back() > to.taken_back();
      if (early || early_back) {
        throw Error("pipeline: ", describe(i), " comes before that of stage ",
                    early ? e.from : e.to);
      }
    }
  }

  // All replicas come to the same place of their list.
  PipelineMessages::Outcome exchange(size_t row, const Instruction& i, double now_s) {
    const Row& of = rows_[row];
    const auto first = static_cast<size_t>(first_row_[static_cast<size_t>(of.rank)]);
    const auto end = first + static_cast<size_t>(replicas(of.rank));
    const auto place = of.spans.size();
    auto& come_s = exchanges_[{of.rank, place}];
    come_s[row] = now_s;
    if (come_s.size() < end - first) {
      size_t other = first;
      while (come_s.contains(other)) ++other;
      return {.waits_for = static_cast<int>(other)};
    }
    double last_s = 0;
    for (const auto& [_, at_s] : come_s) last_s = std::max(last_s, at_s);
    const double seconds =
        end - first > 1 ? costs_.stages[static_cast<size_t>(i.stage)].exchange_s : 0;
    return {.end_s = last_s + seconds};
  }

  std::string name(size_t row) const {
    const Row& of = rows_[row];
    std::string text = "rank " + std::to_string(of.rank);
    if (replicas(of.rank) > 1) text += ", replica " + std::to_string(of.replica) + ",";
    return text;
  }

  // From one row to the next that it waits for, until that is known.
  std::string who_waits(size_t row) const {
    std::vector<size_t> met;
    while (!has_ended(row) && !std::ranges::count(met, row)) {
      met.push_back(row);
      row = static_cast<size_t>(waits_for_[row]);
    }
    std::string text;
    for (auto r = has_ended(row) ? met.begin() : std::ranges::find(met, row); r != met.end(); ++r) {
      const Instruction& i = list_of(*r)[rows_[*r].spans.size()];
      const char* what = is_send(i.op) ? " has no room for " : " waits for ";
      text += (text.empty() ? "" : "; ") + name(*r) + what + describe(i);
    }
    return text + (has_ended(row) ? "; " + name(row) + " has ended" : ": a circle");
  }

  PipelinePrediction prediction() {
    PipelinePrediction p{.rows = std::move(rows_)};
    for (const double at_s : now_s_) p.seconds = std::max(p.seconds, at_s);
    for (Row& r : p.rows) r.waiting_s = p.seconds - r.computing_s;
    for (const StageAccount& a : accounts_) {
      p.stages.push_back({a.most_in_flight(), a.most_versions()});
    }
    p.mini_batch_s = mini_batch_s(p);
    return p;
  }

  double mini_batch_s(const PipelinePrediction& p) const {
    int last = shape_.stages - 1;
    while (last > 0 && !shape_.trains(last)) --last;
    std::vector<double> updates_s;
    for (const PipelinePrediction::Span& s :
         p.rows[static_cast<size_t>(first_row_[static_cast<size_t>(shape_.rank_of(last))])].spans) {
      if (s.instruction.op == PipeOp::kUpdate && s.instruction.stage == last) {
        updates_s.push_back(s.end_s);
      }
    }
    const size_t n = updates_s.size();
    if (n < 2) return p.seconds / static_cast<double>(shape_.mini_batches);
    const size_t from = (n - 1) / 2;
    return (updates_s.back() - updates_s[from]) / static_cast<double>(n - 1 - from);
  }

  const Lists lists_;
  const PipeShape& shape_;
  const PipelineCosts& costs_;
  const std::vector<int> first_row_;
  PipelineMessages messages_;
  std::vector<StageAccount> accounts_;  // of stages: replicas have the same
  std::vector<StageEdge> edges_of_one_rank_;
  std::vector<Row> rows_;
  std::vector<double> part_, now_s_;  // of rows
  std::vector<int> waits_for_;
  std::map<std::pair<int, size_t>, std::map<size_t, double>> exchanges_;  // rank, place in its list
};

}  // namespace

PipelinePrediction simulate_pipeline(std::span<const std::vector<Instruction>> lists,
                                     std::span<const int64_t> buffers, const PipeShape& shape,
                                     const PipelineCosts& costs) {
  validate(shape);
  validate(costs, shape);
  if (lists.size() != static_cast<size_t>(shape.ranks()) ||
      buffers.size() != static_cast<size_t>(shape.stages)) {
    throw Error("pipeline: lists of ", lists.size(), " ranks, buffers of ", buffers.size(),
                " stages; there are ", shape.ranks(), " and ", shape.stages);
  }
  return PipelinePlay(lists, buffers, shape, costs).play();
}

PipelinePrediction simulate_pipeline(const PipelineSchedule& schedule, const PipeShape& shape,
                                     const PipelineCosts& costs) {
  validate(shape);
  std::vector<std::vector<Instruction>> lists;
  std::vector<int64_t> buffers;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    lists.push_back(schedule.instructions(shape, rank));
  }
  for (int stage = 0; stage < shape.stages; ++stage) {
    buffers.push_back(schedule.most_in_flight(shape, stage));
  }
  return simulate_pipeline(lists, buffers, shape, costs);
}

}  // namespace ndtrain
