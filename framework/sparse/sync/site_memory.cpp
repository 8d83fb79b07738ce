#include "framework/sparse/sync/site_memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/sum_tree.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/runtime/backend.h"
#include "framework/sparse/sync/whole_gradient.h"

namespace ndtrain {
namespace {

constexpr int64_t kValuesAtOnce = 1 << 18;  // that a thread adds up

// Of the range that begins at 0.
ParameterRange part_of_rank(const std::vector<int64_t>& parts, size_t rank) {
  return {parts[rank], parts[rank + 1]};
}

std::span<float> values_of(float* of_range, ParameterRange part) {
  return {of_range + part.begin, static_cast<size_t>(part.size())};
}

void say_why_not(const RankGroup& ranks, const std::vector<std::string>& of_ranks) {
  const auto first = std::ranges::find_if(of_ranks, [](const auto& why) { return !why.empty(); });
  // Others may well be of other hosts.
  const auto level = first == of_ranks.begin() ? log::Level::kWarning : log::Level::kInfo;
  log::write(level,
             fmt::format("ranks {} of a site add up gradients by messages, not in memory that they "
                         "share: at rank {} {}",
                         fmt::join(ranks, ", "),
                         ranks[static_cast<size_t>(first - of_ranks.begin())], *first));
}

}  // namespace

std::unique_ptr<SiteMemory> SiteMemory::share(Communicator& communicator, const RankGroup& ranks,
                                              int64_t values, const std::string& directory) {
  const int maker = ranks.front(), here = communicator.rank();
  const size_t bytes = ranks.size() * static_cast<size_t>(values) * sizeof(float);
  std::unique_ptr<HostMemory> memory;
  std::string why_not;
  const auto take = [&](Result<std::unique_ptr<HostMemory>> got) {
    if (!got.ok()) why_not = got.status().message();
    if (got.ok()) memory = std::move(*got);
  };
  if (here == maker) take(HostMemory::make(bytes, directory));
  const std::string name = broadcast(communicator, maker, memory ? memory->name() : "", ranks);
  if (here != maker && !name.empty()) take(HostMemory::open(name, bytes, directory));
  const std::vector<std::string> of_ranks = gather(communicator, why_not, ranks);
  if (std::ranges::any_of(of_ranks, [](const auto& why) { return !why.empty(); })) {
    if (here == maker) say_why_not(ranks, of_ranks);
    return nullptr;
  }
  memory->unlink();
  if (here == maker) {
    log::info("ranks {} add up gradients in {:.3g} MB of memory that they share",
              fmt::join(ranks, ", "), static_cast<double>(bytes) / 1e6);
  }
  const auto place = static_cast<size_t>(std::ranges::find(ranks, here) - ranks.begin());
  return std::unique_ptr<SiteMemory>(
      new SiteMemory(std::move(memory), place, ranks.size(), values));
}

float* SiteMemory::place(size_t rank, int64_t at) const {
  return reinterpret_cast<float*>(memory_->bytes().data()) + static_cast<int64_t>(rank) * values_ +
         at;
}

// But for what it adds up itself. Of the last step this rank has taken everything, and so all have
// added up their parts: nobody reads what is overwritten here.
void SiteMemory::lay_down(ParameterRange range, const float* own) {
  const std::vector<int64_t> parts = equal_parts(range.size(), ranks_);
  float* const to = place(rank_, range.begin);
  for (size_t r = 0; r < ranks_; ++r) {
    const ParameterRange part = part_of_rank(parts, r);
    if (r != rank_) copy_to(values_of(to, part), own + part.begin);
  }
}

// To where nobody has laid down anything. All have laid down this step's range, behind their take()
// of the last one: nobody reads that sum any more.
void SiteMemory::add_up(ParameterRange range, float* own) {
  const ParameterRange part = part_of_rank(equal_parts(range.size(), ranks_), rank_);
  float* const sum = place(rank_, range.begin);
  shared_threads().parallel_for(part.size(), kValuesAtOnce, [&](int64_t begin, int64_t end) {
    const int64_t at = part.begin + begin;
    std::vector<Addend> addends;
    for (size_t r = 0; r < ranks_; ++r) {
      const int leaf = static_cast<int>(r);
      const float* const values = r == rank_ ? own : place(r, range.begin);
      addends.push_back({.node = {leaf, leaf + 1}, .values = values + at});
    }
    const std::span<float> to = values_of(own, {at, part.begin + end});
    add_in_tree_order(addends, static_cast<int>(ranks_), to);
    std::ranges::copy(to, sum + at);
  });
}

void SiteMemory::take(ParameterRange range, float* own) {
  const std::vector<int64_t> parts = equal_parts(range.size(), ranks_);
  for (size_t r = 0; r < ranks_; ++r) {
    const ParameterRange part = part_of_rank(parts, r);
    if (r != rank_) copy_to(values_of(own, part), place(r, range.begin + part.begin));
  }
}

}  // namespace ndtrain
