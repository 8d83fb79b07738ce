#include "framework/parallel/between_ranks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/memory.h"

namespace ndtrain {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};  // at whether a rank is to stop

Communicator::Op begin(Communicator& communicator, CommOp op) {
  const Communicator::Op id = communicator.enqueue(std::move(op));
  communicator.release(id);
  return id;
}

void carry_out(Communicator& communicator, CommOp op) {
  communicator.wait(begin(communicator, std::move(op)));
}

// As floats, which are moved bit by bit.
CommOp of_memory(int root, const RankGroup& among, std::span<float> memory) {
  CommOp op{.kind = CommOp::Kind::kBroadcast, .group = among, .name = "bytes"};
  op.data = memory;
  op.root = root;
  return op;
}

RankGroup these_or_all(const Communicator& communicator, const RankGroup& these) {
  return these.empty() ? communicator.members() : these;
}

// How many bytes follow, as it travels.
using SizeWords = std::array<float, sizeof(uint64_t) / sizeof(float)>;

// Of so many bytes, as a rank says: it may say anything.
size_t floats_of(uint64_t bytes) {
  const auto most = static_cast<uint64_t>(usable_memory());
  if (bytes > most) {
    throw Error("a rank announces ", bytes, " bytes; this process may use ", most);
  }
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

std::string broadcast_bytes(Communicator& communicator, int root, const RankGroup& among,
                            const SizeWords& words, const std::string& bytes) {
  const auto size = std::bit_cast<uint64_t>(words);
  if (size == 0) return "";
  std::vector<float> memory(floats_of(size));
  if (communicator.rank() == root) std::memcpy(memory.data(), bytes.data(), bytes.size());
  carry_out(communicator, of_memory(root, among, memory));
  return {reinterpret_cast<const char*>(memory.data()), size};
}

std::string to_text(const Fingerprint& f) { return json_text(Json(f)); }

Fingerprint from_text(const std::string& text) {
  const Json j = try_parse_json(text);
  if (j.is_discarded()) throw Error("what a rank says of itself is no JSON");
  return j.get<Fingerprint>();
}

}  // namespace

void barrier(Communicator& communicator, const RankGroup& among) {
  carry_out(communicator, {.kind = CommOp::Kind::kBarrier,
                           .group = these_or_all(communicator, among),
                           .name = "barrier"});
}

std::string broadcast(Communicator& communicator, int root, const std::string& bytes,
                      const RankGroup& these) {
  const RankGroup among = these_or_all(communicator, these);
  auto words = std::bit_cast<SizeWords>(uint64_t{bytes.size()});
  carry_out(communicator, of_memory(root, among, words));
  return broadcast_bytes(communicator, root, among, words, bytes);
}

std::optional<std::string> await_broadcast(Communicator& communicator, int root,
                                           const std::function<bool()>& stop) {
  const RankGroup among = communicator.members();
  SizeWords words{};
  const Communicator::Op size = begin(communicator, of_memory(root, among, words));
  while (!communicator.wait(size, kBetweenLooks)) {
    if (!stop || !stop()) continue;
    communicator.leave();
    return std::nullopt;
  }
  return broadcast_bytes(communicator, root, among, words, "");
}

std::vector<std::string> gather(Communicator& communicator, const std::string& ours,
                                const RankGroup& these) {
  const RankGroup among = these_or_all(communicator, these);
  const auto place =
      static_cast<size_t>(std::ranges::find(among, communicator.rank()) - among.begin());
  std::vector<SizeWords> sizes(among.size());
  sizes[place] = std::bit_cast<SizeWords>(uint64_t{ours.size()});
  CommOp op{.kind = CommOp::Kind::kAllGather, .group = among, .name = "sizes"};
  op.data = {sizes[0].data(), sizes.size() * sizes[0].size()};
  carry_out(communicator, std::move(op));
  op = {.kind = CommOp::Kind::kAllGather, .group = among, .name = "bytes", .part_begin = {0}};
  for (const SizeWords& size : sizes) {
    const size_t floats = floats_of(std::bit_cast<uint64_t>(size));
    op.part_begin.push_back(op.part_begin.back() + static_cast<int64_t>(floats));
  }
  std::vector<float> memory(static_cast<size_t>(op.part_begin.back()));
  const std::vector<int64_t> begins = op.part_begin;
  if (!ours.empty()) std::memcpy(memory.data() + begins[place], ours.data(), ours.size());
  op.data = memory;
  if (!memory.empty()) carry_out(communicator, std::move(op));
  std::vector<std::string> all;
  for (size_t r = 0; r < among.size(); ++r) {
    all.emplace_back(reinterpret_cast<const char*>(memory.data() + begins[r]),
                     std::bit_cast<uint64_t>(sizes[r]));
  }
  return all;
}

bool any_of_ranks(Communicator& communicator, bool ours) {
  const std::vector<std::string> all = gather(communicator, ours ? "yes" : "");
  return std::ranges::any_of(all, [](const std::string& said) { return !said.empty(); });
}

void check_same(Communicator& communicator, const Fingerprint& ours) {
  const std::vector<std::string> all = gather(communicator, to_text(ours));
  const Fingerprint first = from_text(all[0]);
  for (size_t r = 1; r < all.size(); ++r) {
    const std::string difference = first_difference(first, from_text(all[r]));
    if (difference.empty()) continue;
    throw Error("rank ", r, " is not of the same run as rank 0: its ", difference);
  }
}

}  // namespace ndtrain
