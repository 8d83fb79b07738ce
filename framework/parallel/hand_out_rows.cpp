#include "framework/parallel/hand_out_rows.h"

#include <algorithm>
#include <string>

#include "framework/core/coding.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain {
namespace {

constexpr int kSource = 0;
constexpr size_t kAtOnce = size_t{1} << 20;  // bytes, or a single row

size_t rows_at_once(size_t row_bytes) {
  return std::max<size_t>(1, kAtOnce / std::max<size_t>(1, row_bytes));
}

std::string pack(std::span<const int64_t> numbers) {
  std::string text(numbers.size() * sizeof(int64_t), '\0');
  auto* to = reinterpret_cast<std::byte*>(text.data());
  for (size_t i = 0; i < numbers.size(); ++i) store_le(to + i * sizeof(int64_t), numbers[i]);
  return text;
}

std::vector<int64_t> unpack(const std::string& text, int64_t end, int rank) {
  std::vector<int64_t> numbers(text.size() / sizeof(int64_t));
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = load_le<int64_t>(from + i * sizeof(int64_t));
    if (numbers[i] < 0 || numbers[i] >= end) {
      throw Error("rank ", rank, " asks for row ", numbers[i], " of ", end);
    }
  }
  return numbers;
}

}  // namespace

int64_t hand_out_rows(Communicator& ranks, int64_t rows, size_t row_bytes,
                      const std::function<void(int64_t row, std::span<std::byte> to)>& read) {
  int64_t sent = 0;
  for (const int rank : ranks.members()) {
    if (rank == kSource) continue;
    const RankGroup pair = {kSource, rank};
    const std::vector<int64_t> lacking = unpack(broadcast(ranks, rank, "", pair), rows, rank);
    for (size_t begin = 0; begin < lacking.size(); begin += rows_at_once(row_bytes)) {
      const size_t count = std::min(rows_at_once(row_bytes), lacking.size() - begin);
      std::string chunk(count * row_bytes, '\0');
      const auto bytes = std::as_writable_bytes(std::span(chunk));
      for (size_t i = 0; i < count; ++i) {
        read(lacking[begin + i], bytes.subspan(i * row_bytes, row_bytes));
      }
      broadcast(ranks, kSource, chunk, pair);
      sent += static_cast<int64_t>(chunk.size());
    }
  }
  return sent;
}

void receive_rows(Communicator& ranks, std::span<const int64_t> lacking, size_t row_bytes,
                  const std::function<void(int64_t row, std::span<const std::byte> from)>& keep) {
  const RankGroup pair = {kSource, ranks.rank()};
  broadcast(ranks, ranks.rank(), pack(lacking), pair);
  for (size_t begin = 0; begin < lacking.size(); begin += rows_at_once(row_bytes)) {
    const size_t count = std::min(rows_at_once(row_bytes), lacking.size() - begin);
    const std::string chunk = broadcast(ranks, kSource, "", pair);
    if (chunk.size() != count * row_bytes) {
      throw Error("rank 0 sends ", chunk.size(), " bytes for ", count, " rows of ", row_bytes);
    }
    const auto bytes = std::as_bytes(std::span(chunk));
    for (size_t i = 0; i < count; ++i) {
      keep(lacking[begin + i], bytes.subspan(i * row_bytes, row_bytes));
    }
  }
}

}  // namespace ndtrain
