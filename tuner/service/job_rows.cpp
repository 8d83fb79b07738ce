#include "tuner/service/job_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "ndp/engine/feature_rows.h"

namespace ndtrain::tuner {
using namespace ndp;

IngestRules ingest_rules(uint64_t job, const JobSpec& spec, const RowRequest& request,
                         uint64_t seed) {
  IngestRules rules{.job = request.ask,
                    .row_bytes = request.row_bytes,
                    .views = request.views,
                    .manifest = request.manifest,
                    .lost_after = std::chrono::duration_cast<RowIngest::Time>(
                        std::chrono::duration<double>(spec.lost_after)),
                    .allow_missing = spec.allow_missing,
                    .check = request.check,
                    .check_sample = finite_features(request.features)};
  rules.job.set_job(job);
  size_t features = 0;  // bytes of a row that is nothing else
  for (const TensorType& t : request.features) features += bytes_of_row(t);
  if (request.ask.rows() == wire::Job::FEATURES && features == request.row_bytes &&
      !request.local) {
    rules.audit = {.features = request.features, .views = request.views, .seed = seed};
  }
  if (request.local) rules.lost_after = RowIngest::Time::max() / 4;
  return rules;
}

std::vector<RowIngest::Rows> take_some(std::vector<RowIngest::Rows>& waiting) {
  size_t messages = 0;
  for (size_t rows = 0; messages < waiting.size(); ++messages) {
    rows += waiting[messages].rows.size();
    if (messages > 0 && rows > kRowsAtOnce) break;
  }
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(messages);
  std::vector<RowIngest::Rows> some(std::move_iterator(waiting.begin()), std::move_iterator(end));
  waiting.erase(waiting.begin(), end);
  return some;
}

KeptRows keep(RowSink& sink, const std::vector<RowIngest::Inventory>& inventories,
              const std::vector<RowIngest::Rows>& rows) {
  for (const RowIngest::Inventory& i : inventories) demand(sink.inventory(i));
  const auto kept_now = sink.keep(rows);
  demand(kept_now.status());
  const std::vector<RowIngest::BadRow>& bad = *kept_now;
  KeptRows kept;
  for (const RowIngest::Rows& r : rows) {
    auto& mine = kept.tickets.emplace_back(r.ticket, std::vector<RowIngest::BadRow>()).second;
    kept.rows += r.rows.size();
    for (const auto& [number, bytes] : r.rows) {
      const auto b = std::ranges::find(bad, number, &RowIngest::BadRow::number);
      if (b != bad.end()) mine.push_back(*b);
    }
  }
  return kept;
}

std::string larger_than_photos(const JobSpec& spec, size_t row_bytes,
                               const std::vector<RowIngest::Inventory>& inventories) {
  uint64_t photos = 0, bytes = 0;
  for (const RowIngest::Inventory& i : inventories) {
    photos += i.photos->size();
    bytes += i.bytes;
  }
  if (photos == 0 || spec.kind != JobKind::kFinetune || spec.mode != JobMode::kNdpipe) return "";
  const double row = static_cast<double>(row_bytes) / 1e3;
  const double photo = static_cast<double>(bytes) / static_cast<double>(photos) / 1e3;
  if (row <= photo) return "";
  return fmt::format(
      "the features are larger than the photos ({:.1f} KB against {:.1f} KB): --head linear, a "
      "later cut (ndtrain model inspect) or {} sends less",
      row, photo, spec.views > 0 ? "fewer --views" : "--mode typical");
}

}  // namespace ndtrain::tuner
