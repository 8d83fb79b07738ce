#include "ndp/pipestore/row_delivery.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/hash.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {

RowDelivery::RowDelivery(uint64_t job, uint64_t photos, RowSize row, uint64_t window)
    : job_(job), photos_(photos), row_(row), window_(window) {
  if (row_.bytes == 0) throw Error("row work: a row of no bytes");
}

Status RowDelivery::wanted(const wire::Wanted& m) {
  const auto numbers = unpack_numbers(m.numbers(), UINT64_MAX, m.numbers().size());
  if (!numbers.ok()) return numbers.status();
  const auto places = unpack_numbers(m.places(), photos_, m.places().size());
  if (!places.ok()) return places.status();
  if (numbers->size() != places->size()) {
    return {Code::kCorrupt, std::to_string(numbers->size()) + " photos are wanted, at " +
                                std::to_string(places->size()) + " places"};
  }
  if (numbers->empty()) return {};
  if (waiting_ + taken_up_ + numbers->size() > photos_) {
    return {Code::kTooLarge, fmt::format("{} photos are wanted at once, of {}",
                                         waiting_ + taken_up_ + numbers->size(), photos_)};
  }
  Run& run = runs_[m.run()];
  for (size_t i = 0; i < numbers->size(); ++i) {
    waiting_ += run.queue.insert_or_assign((*numbers)[i], (*places)[i]).second;
  }
  queued_.insert(m.run());
  return {};
}

std::optional<RowDelivery::Batch> RowDelivery::next(size_t most) {
  if (queued_.empty() || most == 0) return std::nullopt;
  const uint32_t first = *queued_.begin();
  const uint64_t room = bytes_ < window_ ? (window_ - bytes_) / row_.of(first) : 0;
  const bool nothing_outside = bytes_ == 0;
  if (room == 0 && !nothing_outside) return std::nullopt;
  Batch batch{first, {}};
  if (first > 0) most = std::max<size_t>(1, most / row_.views);
  Run& run = runs_[batch.run];
  const size_t fits = std::clamp<size_t>(kBatchBytes / row_.of(first), 1, most);
  const size_t always = !nothing_outside ? 0 : row_.varies ? 1 : fits;
  const size_t n = std::min({most, std::max<size_t>(room, always), run.queue.size()});
  for (auto it = run.queue.begin(); batch.photos.size() < n; it = run.queue.erase(it)) {
    batch.photos.push_back({it->first, it->second});
  }
  if (run.queue.empty()) queued_.erase(batch.run);
  waiting_ -= n;
  run.outside += n;
  taken_up_ += n;
  bytes_ += n * row_.of(first);
  return batch;
}

wire::Rows& RowDelivery::begin_chunk(uint32_t run, std::vector<wire::FromStore>& out) {
  wire::Rows& chunk = *out.emplace_back().mutable_rows();
  chunk.set_job(job_);
  chunk.set_run(run);
  chunk.set_chunk(++chunks_);
  return chunk;
}

void RowDelivery::end_chunk(wire::Rows& chunk, std::span<const uint64_t> numbers) {
  chunk.set_numbers(pack_numbers(numbers));
  chunk.set_checksum(xxh3(chunk.rows().data(), chunk.rows().size()));
  bytes_ += unacknowledged_[chunk.chunk()] = chunk.rows().size();
}

void RowDelivery::check_size(uint32_t run, std::string_view row) const {
  if (!row_.varies && row.size() != row_.of(run)) {
    throw Error("row work: a row of ", row.size(), " bytes, not ", row_.of(run));
  }
}

void RowDelivery::send_pieces(uint32_t run, uint64_t number, std::string_view row,
                              std::vector<wire::FromStore>& out) {
  for (size_t at = 0; at < row.size(); at += kRowPiece) {
    wire::Rows& piece = begin_chunk(run, out);
    piece.set_rows(std::string(row.substr(at, kRowPiece)));
    if (row_.varies) piece.add_lengths(static_cast<uint32_t>(row.size()));
    end_chunk(piece, {&number, 1});
  }
}

std::vector<wire::FromStore> RowDelivery::done(const Batch& batch,
                                               std::span<const std::string> rows,
                                               const std::vector<BadRow>& bad, double busy) {
  if (rows.size() + bad.size() != batch.photos.size()) {
    throw Error("row work: ", rows.size(), " rows and ", bad.size(), " bad photos of ",
                batch.photos.size());
  }
  std::map<uint64_t, const BadRow*> unreadable;
  for (const BadRow& b : bad) unreadable.emplace(b.number, &b);
  bytes_ -= batch.photos.size() * row_.of(batch.run);
  std::vector<wire::FromStore> out;
  for (size_t at = 0; at < batch.photos.size();) {
    const uint64_t first = batch.photos[at].number;
    if (!unreadable.contains(first) && rows.front().size() > kWholeRow) {
      check_size(batch.run, rows.front());
      send_pieces(batch.run, first, rows.front(), out);
      rows = rows.subspan(1);
      ++at;
      continue;
    }
    wire::Rows& f = begin_chunk(batch.run, out);
    std::vector<uint64_t> numbers;
    for (; at < batch.photos.size(); ++at) {
      const uint64_t number = batch.photos[at].number;
      const auto b = unreadable.find(number);
      if (b == unreadable.end()) {
        const std::string& row = rows.front();
        check_size(batch.run, row);
        if (!numbers.empty() && f.rows().size() + row.size() > kChunkBytes) break;
        f.mutable_rows()->append(row);
        if (row_.varies) f.add_lengths(static_cast<uint32_t>(row.size()));
        rows = rows.subspan(1);
      } else {
        wire::Unreadable& u = *f.add_unreadable();
        u.set_number(number);
        u.set_path(wire::as_text(b->second->path));
        u.set_reason(wire::as_text(b->second->reason));
      }
      numbers.push_back(number);
    }
    end_chunk(f, numbers);
  }
  Run& run = runs_[batch.run];
  run.outside -= batch.photos.size();
  taken_up_ -= batch.photos.size();
  run.sent += batch.photos.size();
  run.bad += bad.size();
  run.busy += busy;
  if (run.queue.empty() && run.outside == 0) {
    wire::RunDone& end = *out.emplace_back().mutable_run_done();
    end.set_job(job_);
    end.set_run(batch.run);
    end.set_photos(run.sent);
    end.set_unreadable(run.bad);
    end.set_seconds(run.busy);
  }
  return out;
}

void RowDelivery::acknowledged(const wire::Ack& m) {
  const auto it = unacknowledged_.find(m.chunk());
  if (m.job() != job_ || it == unacknowledged_.end()) return;
  bytes_ -= it->second;
  unacknowledged_.erase(it);
}

}  // namespace ndtrain::ndp
