#include "tuner/group/group_rows.h"

#include <cstring>

#include "framework/core/coding.h"
#include "framework/parallel/hand_out_rows.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// A row in a description: the photo's digest, and its label.
constexpr size_t kEntry = sizeof(Digest) + sizeof(int64_t);

}  // namespace

std::string LeaderRows::description() const {
  if (!data_) return "";
  std::string text(data_->photos().size() * kEntry, '\0');
  auto* to = reinterpret_cast<std::byte*>(text.data());
  for (size_t i = 0; i < data_->photos().size(); ++i, to += kEntry) {
    std::memcpy(to, data_->photos()[i].data(), sizeof(Digest));
    store_le(to + sizeof(Digest), data_->labels()[i]);
  }
  return text;
}

void LeaderRows::exchange(Communicator& ranks, ShardRange /*own*/, int /*shards*/) {
  sent_ += hand_out_rows(ranks, data_->size(), data_->row_bytes(),
                         [this](int64_t row, std::span<std::byte> to) { data_->read(row, to); });
}

MemberRows::MemberRows(Spool& spool, std::vector<TensorType> row_types)
    : spool_(spool), row_types_(std::move(row_types)) {}

void MemberRows::take(const std::string& description) {
  if (description == description_) return;
  if (description.size() % kEntry != 0) throw Error("the Tuner's list of rows is damaged");
  std::vector<Digest> photos(description.size() / kEntry);
  std::vector<int64_t> labels(photos.size());
  const auto* from = reinterpret_cast<const std::byte*>(description.data());
  for (size_t i = 0; i < photos.size(); ++i, from += kEntry) {
    std::memcpy(photos[i].data(), from, sizeof(Digest));
    labels[i] = load_le<int64_t>(from + sizeof(Digest));
  }
  data_ = std::make_unique<SpoolDataset>(spool_, std::move(photos), std::move(labels), row_types_);
  description_ = description;
}

void MemberRows::exchange(Communicator& ranks, ShardRange own, int shards) {
  std::vector<int64_t> lacking;
  for (int64_t row = 0; row < data_->size(); ++row) {
    const int64_t shard = row % shards;
    if (shard < own.begin || shard >= own.end) continue;
    if (!spool_.has(data_->photos()[static_cast<size_t>(row)])) lacking.push_back(row);
  }
  const auto demand = [](const Status& s) {
    if (s.ok()) return;
    throw Error("the rows of its shards cannot be kept: ", s.message(),
                "; --disk of ndtrain tuner join says how much they may take");
  };
  receive_rows(ranks, lacking, data_->row_bytes(),
               [&](int64_t row, std::span<const std::byte> from) {
                 demand(spool_.put(data_->photos()[static_cast<size_t>(row)], from));
               });
  demand(spool_.flush());
  received_ += std::ssize(lacking) * static_cast<int64_t>(data_->row_bytes());
}

}  // namespace ndtrain::tuner
