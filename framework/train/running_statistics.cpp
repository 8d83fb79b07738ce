#include "framework/train/running_statistics.h"

#include "framework/train/parameter_space.h"

namespace ndtrain {
namespace {

Graph division(int64_t n, int by) {
  Graph g;
  const ValueId sum = g.add_input("sum", {DType::kF32, {n}});
  const std::vector<float> divisor{static_cast<float>(by)};
  const ValueId shards = g.add_constant("shards", Tensor::of<float>(DType::kF32, {}, divisor));
  g.mark_output(g.add("Div", {sum, shards})[0]);
  return g;
}

std::map<std::string, RunningStatistics::Place> places_of(
    const std::map<std::string, Tensor>& values) {
  std::map<std::string, RunningStatistics::Place> places;
  int64_t end = 0;
  for (const auto& [name, t] : values) {
    if (t.type().dtype != DType::kF32) throw Error("statistic '", name, "' is not f32");
    const int64_t begin = end;
    end += (t.shape().count() + ParameterSpace::kAlign - 1) / ParameterSpace::kAlign *
           ParameterSpace::kAlign;
    places[name] = {begin, end, t.type()};
  }
  return places;
}

}  // namespace

struct RunningStatistics::Mean {
  Mean(int64_t n, int shards, const Device& device)
      : plan(division(n, shards), device), executor(plan) {}
  Plan plan;
  Executor executor;
};

RunningStatistics::RunningStatistics(const std::map<std::string, Tensor>& values, ShardRange own,
                                     int shards, const Device& device)
    : device_(device),
      places_(places_of(values)),
      size_(places_.rbegin()->second.end),
      now_(device, {DType::kF32, {size_}}),
      next_(size_, own, shards, device),
      mean_(std::make_unique<Mean>(size_, shards, device)) {
  for (const auto& [name, t] : values) set(name, t);
}

RunningStatistics::~RunningStatistics() = default;

// In turn, so that no part reads where it writes; the last one writes where the shard's are.
float* RunningStatistics::next(const std::string& name, int shard, int left) {
  float* const all = left % 2 == 0 ? next_.shard(shard) : next_.part();
  return all + places_.at(name).begin;
}

void RunningStatistics::add(int shard) { next_.add(shard, {0, size_}); }

void RunningStatistics::add_unchanged(int shard) {
  const Tensor now = now_.copy();
  device_.upload(next_.shard(shard), now.data(), now.bytes());
  add(shard);
}

void RunningStatistics::advance() {
  mean_->executor.run(std::vector<const void*>{sums()[0]}, std::vector<void*>{now_.data()});
}

std::map<std::string, Tensor> RunningStatistics::copy() const {
  std::map<std::string, Tensor> values;
  for (const auto& [name, place] : places_) {
    Tensor t(place.type);
    device_.download(t.mutable_data(), now(name), t.bytes());
    values.emplace(name, std::move(t));
  }
  return values;
}

void RunningStatistics::set(const std::string& name, const Tensor& value) {
  const auto it = places_.find(name);
  if (it == places_.end() || it->second.type != value.type()) {
    throw Error("running statistic '", name, "' is missing or of another size");
  }
  device_.upload(now_at(it->second.begin), value.data(), value.bytes());
}

}  // namespace ndtrain
