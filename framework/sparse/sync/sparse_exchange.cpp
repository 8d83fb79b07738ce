#include "framework/sparse/sync/sparse_exchange.h"

#include <algorithm>
#include <utility>

#include "framework/core/byte_reader.h"
#include "framework/sparse/selection/selection_codec.h"

namespace ndtrain {
namespace {

constexpr int kLane = 0;

// That k of n elements may have, written in the longest way: index and value of each; or a bit for
// each of n. (Of an integer with a scale of its own a byte more, which is in the head.)
uint64_t most_bytes(int64_t n, int64_t k) {
  constexpr uint64_t kHead = 32, kOfOne = 9;
  if (k == 0) return 1;
  return kHead + kOfOne * static_cast<uint64_t>(k) + static_cast<uint64_t>(n) / 8;
}

}  // namespace

SparseExchange::SparseExchange(std::vector<ParameterSlot> slots, ErrorFeedback& feedback,
                               Communicator& communicator, const Sites& sites, ValueCoding wire,
                               GatherRoute route, bool largest_of_sums)
    : slots_(std::move(slots)),
      feedback_(feedback),
      communicator_(communicator),
      sites_(sites),
      wire_(wire),
      largest_of_sums_(largest_of_sums),
      gather_(communicator, sites, kLane, route),
      own_(slots_.size()) {
  int64_t largest = 0;
  for (const ParameterSlot& slot : slots_) largest = std::max(largest, slot.range.size());
  scratch_.make_room(largest);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void SparseExchange::abandon() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    const auto lacks_sums = [](const Step& step) {
      return std::ranges::any_of(step.sums, [](const auto& sum) { return !sum; });
    };
    if (!failed_ && std::ranges::any_of(steps_, lacks_sums)) communicator_.leave();
  }
  thread_.join();
}

void SparseExchange::end_after_loss() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void SparseExchange::begin(std::vector<int64_t> count) {
  const std::lock_guard lock(mutex_);
  steps_.emplace_back().sums.resize(slots_.size());
  begun_.push_back(std::move(count));
  ++not_taken_;
  changed_.notify_all();
}

void SparseExchange::wait_until_taken() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return not_taken_ == 0 || failed_; });
  if (failed_) std::rethrow_exception(failed_);
}

Selection SparseExchange::sum(size_t slot) {
  std::unique_lock lock(mutex_);
  Step& step = steps_.front();
  changed_.wait(lock, [&] { return step.sums[slot].has_value() || failed_; });
  if (!step.sums[slot]) std::rethrow_exception(failed_);
  Selection sum = std::move(*step.sums[slot]);
  if (++step.asked == slots_.size()) steps_.pop_front();
  return sum;
}

int64_t SparseExchange::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  return sent_bytes_;
}

SparseExchange::Rates SparseExchange::rates() const {
  const std::lock_guard lock(mutex_);
  return rates_;
}

void SparseExchange::run(const std::stop_token& stop) {
  for (;;) {
    std::vector<int64_t> count;
    Step* step = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !begun_.empty(); })) return;
      step = &steps_[steps_.size() - begun_.size()];
      count = std::move(begun_.front());
      begun_.pop_front();
    }
    std::exception_ptr failed;
    try {
      exchange(count, *step);
    } catch (...) {
      failed = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (!failed) continue;
    failed_ = failed;
    changed_.notify_all();
    return;
  }
}

void SparseExchange::taken() {
  const std::lock_guard lock(mutex_);
  --not_taken_;
  changed_.notify_all();
}

// All ranks come to the same ones, since they have the same counts.
std::vector<SparseExchange::Part> SparseExchange::parts_of(
    const std::vector<int64_t>& count) const {
  std::vector<Part> parts;
  for (size_t s = slots_.size(); s-- > 0;) {
    if (parts.empty() || parts.back().most >= MessageGather::kPiece) {
      parts.push_back({.first = s, .end = s + 1});
    }
    parts.back().first = s;
    parts.back().most += most_bytes(slots_[s].range.size(), count[s]);
  }
  return parts;
}

// What is taken of one part travels while the next one is taken.
void SparseExchange::exchange(const std::vector<int64_t>& count, Step& to) {
  const std::vector<Part> parts = parts_of(count);
  std::vector<std::vector<int64_t>> expected(slots_.size());  // elements of each site
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (int i = 0; i < sites_.count(); ++i) {
      expected[s].push_back(count[s] > 0 ? feedback_.elements(s, count[s], i) : 0);
    }
  }
  for (const Part& part : parts) {
    std::string ours = take(part, count);
    {
      const std::lock_guard lock(mutex_);
      if (sites_.leads()) sent_bytes_ += static_cast<int64_t>(ours.size());
    }
    gather_.begin(std::move(ours), part.most);
  }
  if (!largest_of_sums_) taken();
  std::exception_ptr wrong;  // all of it comes all the same: the communicator has memory of it
  for (const Part& part : parts) {
    const std::vector<std::string> of_sites = gather_.end();
    try {
      if (!wrong) add_up(part, of_sites, expected, count, to);
    } catch (...) {
      wrong = std::current_exception();
    }
  }
  if (wrong) std::rethrow_exception(wrong);
  if (largest_of_sums_) taken();
  const std::lock_guard lock(mutex_);
  rates_ = {.send_mbps = gather_.send_mbps(), .receive_mbps = gather_.receive_mbps()};
}

void SparseExchange::add_up(const Part& part, const std::vector<std::string>& of_sites,
                            const std::vector<std::vector<int64_t>>& expected,
                            const std::vector<int64_t>& count, Step& to) {
  std::vector<ByteReader> in(of_sites.begin(), of_sites.end());
  std::vector<Selection> selections(of_sites.size());
  for (size_t s = part.first; s < part.end; ++s) {
    for (size_t i = 0; i < in.size(); ++i) {
      selections[i] = read(in[i].bytes(in[i].varint()), s, i, expected[s][i]);
    }
    Selection sum = sum_of(selections);
    if (largest_of_sums_ && count[s] > 0) keep_largest(s, static_cast<size_t>(count[s]), sum);
    const std::lock_guard lock(mutex_);
    to.sums[s] = std::move(sum);
    changed_.notify_all();
  }
}

// A varint for the bytes of each slot's, then these.
std::string SparseExchange::take(const Part& part, const std::vector<int64_t>& count) {
  std::string all;
  const bool known = feedback_.indices_are_known();
  for (size_t s = part.first; s < part.end; ++s) {
    if (count[s] == 0) {
      put_varint(all, 0);
      continue;
    }
    Selection& own = known || largest_of_sums_ ? own_[s] : selection_;
    feedback_.take(s, count[s], scratch_, own);
    const std::string bytes = own.indices.empty() ? ""
                              : known             ? encode_values(own.values, wire_)
                                                  : encode(own, slots_[s].range.size(), wire_);
    put_varint(all, bytes.size());
    all += bytes;
  }
  return all;
}

Selection SparseExchange::read(std::string_view bytes, size_t slot, size_t site,
                               int64_t elements) const {
  Selection selection;
  Status read;
  if (!bytes.empty()) {
    read = feedback_.indices_are_known() ? decode_values(bytes, own_[slot].indices, selection)
                                         : decode(bytes, slots_[slot].range.size(), selection);
  }
  const int rank = sites_.leaders()[site];
  if (!read.ok()) throw Error("rank ", rank, ", ", slots_[slot].name, ": ", read.message());
  if (std::ssize(selection.indices) != elements) {
    throw Error("rank ", rank, ", ", slots_[slot].name, ": ", selection.indices.size(),
                " elements were sent, ", elements,
                " are expected; all ranks need the same compressor and drop");
  }
  return selection;
}

// Of the sum; and what this rank has sent of others is its own again.
void SparseExchange::keep_largest(size_t slot, size_t count, Selection& sum) {
  if (sum.indices.size() <= count) return;
  std::vector<float> magnitudes = sum.values;
  CompressorState state;
  Selection places;
  largest_->take(magnitudes, static_cast<int64_t>(count), Rng(0), state, scratch_, places);
  Selection kept;
  for (const uint32_t place : places.indices) {
    kept.indices.push_back(sum.indices[place]);
    kept.values.push_back(sum.values[place]);
  }
  std::vector<size_t> back;
  const Selection& own = own_[slot];
  for (size_t i = 0; i < own.indices.size(); ++i) {
    if (!std::ranges::binary_search(kept.indices, own.indices[i])) back.push_back(i);
  }
  feedback_.put_back(slot, own, back);
  sum = std::move(kept);
}

}  // namespace ndtrain
