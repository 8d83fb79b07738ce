#include "tests/sim/photoless_store.h"

#include <fmt/format.h>

#include "framework/core/coding.h"
#include "ndp/labels/label_db.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::sim {

namespace {

constexpr size_t kTakenAtOnce = 4096, kInventoryPhotos = 16384;  // of one message
constexpr size_t kSaidClasses = 10;

}  // namespace

std::string PhotolessStore::name() const { return fmt::format("store{:06}", number_); }

wire::FromStore PhotolessStore::hello() const {
  wire::FromStore m;
  for (const uint32_t p : kProtocols) m.mutable_hello()->add_protocols(p);
  m.mutable_hello()->set_store(name());
  m.mutable_hello()->set_incarnation(1 + number_);
  m.mutable_hello()->set_numerics("cpu");
  m.mutable_hello()->set_photos(photos_);
  return m;
}

Digest PhotolessStore::photo(uint64_t place) const {
  const uint64_t at = place * step_ + xxh3(&place, sizeof(place), number_) % step_;
  Digest d{};
  for (size_t byte = 0; byte < sizeof(at); ++byte) {
    d[byte] = static_cast<uint8_t>(at >> (8 * (sizeof(at) - 1 - byte)));
  }
  const Digest rest = sha256(fmt::format("{} {}", number_, place));
  std::copy(rest.begin(), rest.end() - sizeof(at), d.begin() + sizeof(at));
  return d;
}

std::vector<wire::FromStore> PhotolessStore::inventory(const wire::Job& job) const {
  std::vector<wire::FromStore> messages;
  for (size_t place = 0; place < photos_ || messages.empty();) {
    messages.emplace_back().set_answers(job.serial());
    wire::Inventory& i = *messages.back().mutable_inventory();
    i.set_job(job.job());
    for (size_t c = 0; place == 0 && c < kSaidClasses; ++c) i.add_names(fmt::format("class {}", c));
    const size_t end = std::min(photos_, place + kInventoryPhotos);
    for (; place < end; ++place) {
      const Digest d = photo(place);
      i.mutable_digests()->append(d.begin(), d.end());
      i.mutable_sources()->push_back(static_cast<char>(LabelSource::kFolder));
      i.add_labels(static_cast<uint32_t>(1 + place % kSaidClasses));
    }
    i.set_last(place == photos_);
  }
  return messages;
}

std::vector<wire::FromStore> PhotolessStore::answer(const wire::ToStore& m) {
  std::vector<wire::FromStore> out;
  if (m.has_job()) {
    serial_ = m.job().serial();
    delivery_ =
        std::make_unique<RowDelivery>(m.job().job(), photos_, RowDelivery::RowSize{kRow}, kWindow);
    return inventory(m.job());
  }
  if (m.has_job_end()) delivery_.reset();
  if (!delivery_) return out;
  if (m.has_wanted()) delivery_->wanted(m.wanted()).or_throw();
  if (m.has_ack()) delivery_->acknowledged(m.ack());
  while (const auto batch = delivery_->next(kTakenAtOnce)) {
    std::vector<std::string> rows;
    for (const RowDelivery::Photo& p : batch->photos) {
      const Digest d = photo(p.place);
      rows.emplace_back(d.begin(), d.begin() + kRow);
    }
    for (wire::FromStore& sent : delivery_->done(*batch, rows, {})) {
      sent.set_answers(serial_);
      out.push_back(std::move(sent));
    }
  }
  return out;
}

}  // namespace ndtrain::sim
