#include "framework/sparse/sync/sparse_exchange.h"

#include <utility>

#include "framework/core/byte_reader.h"
#include "framework/sparse/selection/selection_codec.h"

namespace ndtrain {
namespace {

constexpr int kLane = 0;

// That k of n elements may have, written in the longest way: index and value of each; or a bit for
// each of n.
uint64_t most_bytes(int64_t n, int64_t k) {
  constexpr uint64_t kHead = 32, kOfOne = 9;
  return kHead + kOfOne * static_cast<uint64_t>(k) + static_cast<uint64_t>(n) / 8;
}

}  // namespace

SparseExchange::SparseExchange(std::vector<ParameterSlot> slots, ErrorFeedback& feedback,
                               Communicator& communicator, DType wire)
    : slots_(std::move(slots)),
      feedback_(feedback),
      communicator_(communicator),
      wire_(wire),
      gather_(communicator, kLane),
      indices_(slots_.size()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void SparseExchange::abandon() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    if (under_way_ > 0 && !failed_) communicator_.leave();
  }
  thread_.join();
}

void SparseExchange::begin(std::vector<int64_t> count) {
  const std::lock_guard lock(mutex_);
  begun_.push_back(std::move(count));
  ++not_taken_;
  ++under_way_;
  changed_.notify_all();
}

void SparseExchange::wait_until_taken() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return not_taken_ == 0 || failed_; });
  if (failed_) std::rethrow_exception(failed_);
}

std::vector<Selection> SparseExchange::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ended_.empty() || failed_; });
  if (ended_.empty()) std::rethrow_exception(failed_);
  std::vector<Selection> sums = std::move(ended_.front());
  ended_.pop_front();
  return sums;
}

int64_t SparseExchange::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  return sent_bytes_;
}

void SparseExchange::run(const std::stop_token& stop) {
  for (;;) {
    std::vector<int64_t> count;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !begun_.empty(); })) return;
      count = std::move(begun_.front());
      begun_.pop_front();
    }
    std::vector<Selection> sums;
    std::exception_ptr failed;
    try {
      sums = exchange(count);
    } catch (...) {
      failed = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    --under_way_;
    changed_.notify_all();
    if (failed) {
      failed_ = failed;
      return;
    }
    ended_.push_back(std::move(sums));
  }
}

std::vector<Selection> SparseExchange::exchange(const std::vector<int64_t>& count) {
  std::string ours = take(count);
  {
    const std::lock_guard lock(mutex_);
    --not_taken_;
    sent_bytes_ += static_cast<int64_t>(ours.size());
    changed_.notify_all();
  }
  uint64_t most = 0;
  for (size_t s = 0; s < slots_.size(); ++s) most += most_bytes(slots_[s].range.size(), count[s]);
  return add_up(gather_.gather(std::move(ours), most), count);
}

// A varint for the bytes of each slot's, then these.
std::string SparseExchange::take(const std::vector<int64_t>& count) {
  std::string all;
  Selection selection;
  const bool known = feedback_.compressor().indices_are_known();
  for (size_t s = 0; s < slots_.size(); ++s) {
    feedback_.take(s, count[s], scratch_, selection);
    const std::string bytes = known ? encode_values(selection.values, wire_)
                                    : encode(selection, slots_[s].range.size(), wire_);
    put_varint(all, bytes.size());
    all += bytes;
    if (known) indices_[s] = selection.indices;
  }
  return all;
}

std::vector<Selection> SparseExchange::add_up(const std::vector<std::string>& of_ranks,
                                              const std::vector<int64_t>& count) {
  const Compressor& compressor = feedback_.compressor();
  std::vector<ByteReader> in(of_ranks.begin(), of_ranks.end());
  std::vector<Selection> selections(of_ranks.size()), sums;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const int64_t size = slots_[s].range.size();
    for (size_t r = 0; r < in.size(); ++r) {
      const std::string_view bytes = in[r].bytes(in[r].varint());
      const Status read = compressor.indices_are_known()
                              ? decode_values(bytes, indices_[s], selections[r])
                              : decode(bytes, size, selections[r]);
      if (!read.ok()) throw Error("rank ", r, ", ", slots_[s].name, ": ", read.message());
      const int64_t expected = compressor.takes_all() ? size : count[s];
      if (std::ssize(selections[r].indices) != expected) {
        throw Error("rank ", r, ", ", slots_[s].name, ": ", selections[r].indices.size(),
                    " elements were sent, ", expected,
                    " are expected; all ranks need the same compressor and drop");
      }
    }
    sums.push_back(sum_of(selections));
  }
  return sums;
}

}  // namespace ndtrain
