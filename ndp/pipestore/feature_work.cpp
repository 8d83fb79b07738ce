#include "ndp/pipestore/feature_work.h"

#include <algorithm>

#include "framework/core/hash.h"
#include "ndp/wire/numbers.h"

namespace ndtrain {

FeatureWork::FeatureWork(uint64_t job, uint64_t photos, size_t row_bytes, uint64_t window)
    : job_(job), photos_(photos), row_bytes_(row_bytes), window_(window) {
  if (row_bytes_ == 0) throw Error("feature work: a row of no bytes");
}

Status FeatureWork::wanted(const wire::Wanted& m) {
  const auto numbers = unpack_numbers(m.numbers(), UINT64_MAX, m.numbers().size());
  if (!numbers.ok()) return numbers.status();
  const auto places = unpack_numbers(m.places(), photos_, m.places().size());
  if (!places.ok()) return places.status();
  if (numbers->size() != places->size()) {
    return {Code::kCorrupt, std::to_string(numbers->size()) + " photos are wanted, at " +
                                std::to_string(places->size()) + " places"};
  }
  if (numbers->empty()) return {};
  Run& run = runs_[m.run()];
  for (size_t i = 0; i < numbers->size(); ++i) run.queue[(*numbers)[i]] = (*places)[i];
  queued_.insert(m.run());
  return {};
}

std::optional<FeatureWork::Batch> FeatureWork::next(size_t most) {
  if (queued_.empty() || most == 0) return std::nullopt;
  const uint64_t room = bytes_ < window_ ? (window_ - bytes_) / row_bytes_ : 0;
  const bool nothing_outside = bytes_ == 0;
  if (room == 0 && !nothing_outside) return std::nullopt;
  Batch batch{*queued_.begin(), {}};
  Run& run = runs_[batch.run];
  const size_t n =
      std::min(nothing_outside ? most : std::min<size_t>(most, room), run.queue.size());
  for (auto it = run.queue.begin(); batch.photos.size() < n; it = run.queue.erase(it)) {
    batch.photos.push_back({it->first, it->second});
  }
  if (run.queue.empty()) queued_.erase(batch.run);
  run.outside += n;
  taken_up_ += n;
  bytes_ += n * row_bytes_;
  return batch;
}

std::vector<wire::FromStore> FeatureWork::done(const Batch& batch, std::string_view rows,
                                               const std::vector<BadPhoto>& bad) {
  if (rows.size() != (batch.photos.size() - bad.size()) * row_bytes_) {
    throw Error("feature work: ", rows.size(), " bytes for ", batch.photos.size() - bad.size(),
                " rows of ", row_bytes_);
  }
  std::map<uint64_t, const BadPhoto*> unreadable;
  for (const BadPhoto& b : bad) unreadable.emplace(b.number, &b);
  const size_t per_chunk = std::max<size_t>(1, kChunkBytes / row_bytes_);
  std::vector<wire::FromStore> out;
  for (size_t at = 0; at < batch.photos.size();) {
    wire::Features& f = *out.emplace_back().mutable_features();
    f.set_job(job_);
    f.set_run(batch.run);
    f.set_chunk(++chunks_);
    std::vector<uint64_t> numbers;
    for (; at < batch.photos.size() && numbers.size() < per_chunk; ++at) {
      numbers.push_back(batch.photos[at].number);
      const auto b = unreadable.find(numbers.back());
      if (b == unreadable.end()) {
        f.mutable_rows()->append(rows.substr(0, row_bytes_));
        rows.remove_prefix(row_bytes_);
        continue;
      }
      wire::Unreadable& u = *f.add_unreadable();
      u.set_number(b->second->number);
      u.set_path(b->second->path);
      u.set_reason(b->second->reason);
    }
    f.set_numbers(pack_numbers(numbers));
    f.set_checksum(xxh3(f.rows().data(), f.rows().size()));
    unacknowledged_[f.chunk()] = numbers.size() * row_bytes_;
  }
  Run& run = runs_[batch.run];
  run.outside -= batch.photos.size();
  taken_up_ -= batch.photos.size();
  run.sent += batch.photos.size();
  run.bad += bad.size();
  if (run.queue.empty() && run.outside == 0) {
    wire::RunDone& end = *out.emplace_back().mutable_run_done();
    end.set_job(job_);
    end.set_run(batch.run);
    end.set_photos(run.sent);
    end.set_unreadable(run.bad);
  }
  return out;
}

void FeatureWork::acknowledged(const wire::Ack& m) {
  const auto it = unacknowledged_.find(m.chunk());
  if (m.job() != job_ || it == unacknowledged_.end()) return;
  bytes_ -= it->second;
  unacknowledged_.erase(it);
}

}  // namespace ndtrain
