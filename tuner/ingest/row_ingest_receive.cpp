// Rows on their way from a message to where they are durable.
#include <algorithm>
#include <numeric>
#include <set>

#include "framework/core/limits.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "tuner/ingest/row_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

// The size of each row; nullopt when the message contradicts itself.
std::optional<std::vector<size_t>> RowIngest::lengths(const wire::Rows& f, size_t rows) const {
  std::vector<size_t> sizes(f.lengths().begin(), f.lengths().end());
  if (row_bytes(f.run()) > 0) sizes.assign(rows, row_bytes(f.run()));
  const size_t sum = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  if (sizes.size() != rows || sum != f.rows().size()) return std::nullopt;
  return sizes;
}

// The size of the row that a message about one photo is about, where it may come in pieces; else 0.
size_t RowIngest::pieced_row(const wire::Rows& f) const {
  const size_t size = row_bytes(f.run()) > 0  ? row_bytes(f.run())
                      : f.lengths_size() == 1 ? f.lengths(0)
                                              : 0;
  return size > kWholeRow ? size : 0;
}

// True when it was the last: `f` has the whole row then.
bool RowIngest::take_piece(Store& store, const std::string& name, uint64_t number, wire::Rows& f,
                           Actions& a) const {
  const size_t whole = pieced_row(f);
  const bool follows = store.pieces.empty() || store.piece_of == number;
  const bool too_large = row_bytes(f.run()) == 0 && whole > limits::kPhotoFile;
  if (!follows || too_large || f.rows().empty() || store.pieces.size() + f.rows().size() > whole) {
    a.end_session = "pieces of a row that do not fit";
    return false;
  }
  store.piece_of = number;
  store.pieces += f.rows();
  if (store.pieces.size() == whole) {
    f.set_rows(std::exchange(store.pieces, {}));
    return true;
  }
  wire::Ack& ack = *a.send.emplace_back(name, wire::ToStore()).second.mutable_ack();
  ack.set_job(f.job());
  ack.set_run(f.run());
  ack.set_chunk(f.chunk());
  return false;
}

// Whether the row is of no use; then the photo is asked of another store, if there is one.
bool RowIngest::refuse_row(const std::string& name, Store& store, uint64_t number,
                           std::string_view row, Actions& a) {
  const std::string why = rules_.check ? rules_.check(row) : "";
  if (why.empty()) return false;
  assignment_->cannot_read(number, *store.number, "store " + name + ": " + why);
  if (++store.refused <= kNamedRefusals) {
    a.notes.push_back("store " + name + ": photo " +
                      to_hex(manifest_->entry(number).digest).substr(0, 12) +
                      " is refused: " + why);
  } else if (store.refused == kNamedRefusals + 1) {
    a.notes.push_back("store " + name + ": more photos are refused, as these were");
  }
  return true;
}

void RowIngest::cannot_read(const Store& store, const std::string& name, const wire::Unreadable& u,
                            Actions& a) {
  assignment_->cannot_read(u.number(), *store.number, u.reason());
  if (audit_) audit_->leave(*store.number, u.number());
  unreadable_at_[u.number()] = {name, u.path()};
  a.notes.push_back("store " + name + ": " + u.path() + ": " + u.reason());
}

void RowIngest::rows(Store& store, const std::string& name, wire::Rows f, Actions& a) {
  const auto numbers = unpack_numbers(f.numbers(), manifest_->size(), f.numbers().size());
  std::set<uint64_t> unreadable;
  for (const wire::Unreadable& u : f.unreadable()) unreadable.insert(u.number());
  bool fits = numbers.ok() && f.run() <= manifest_->runs();
  std::vector<size_t> places;
  for (size_t i = 0; fits && i < numbers->size(); ++i) {
    const std::optional<size_t> place = place_of(store, (*numbers)[i]);
    fits = place && store.asked[*place] && manifest_->entry((*numbers)[i]).run == f.run();
    if (fits) places.push_back(*place);
  }
  for (uint64_t u : unreadable) fits = fits && std::ranges::binary_search(*numbers, u);
  const size_t n = fits ? numbers->size() - unreadable.size() : 0;
  const bool piece = fits && n == 1 && numbers->size() == 1 && f.rows().size() < pieced_row(f);
  if (!piece && (!fits || !store.pieces.empty() || !lengths(f, n))) {
    a.end_session = "rows that were not asked for, or of another size";
    return;
  }
  if (xxh3(f.rows().data(), f.rows().size()) != f.checksum()) {
    a.end_session = "rows with a wrong checksum";
    if (++store.bad_checksums >= kBadChecksums) lose(name, store, *a.end_session, a);
    return;
  }
  store.bad_checksums = 0;
  if (piece && !take_piece(store, name, numbers->front(), f, a)) return;
  const std::vector<size_t> sizes = lengths(f, n).value();
  store.received[f.run()] += numbers->size();
  for (const size_t place : places) store.asked[place] = false;
  const auto message = std::make_shared<const wire::Rows>(std::move(f));
  Rows& rows = a.keep.emplace_back(Rows{++tickets_, message->run(), {}, message, name});
  std::string_view bytes = message->rows();
  size_t row = 0;
  for (uint64_t number : *numbers) {
    if (unreadable.contains(number)) continue;
    const size_t size = sizes[row++];
    const std::string_view mine = bytes.substr(0, size);
    bytes.remove_prefix(size);
    audit_row(store, number, mine);
    if (assignment_->has_row(number)) continue;
    if (keeping_[number]) {
      assignment_->take_back(number, *store.number);
      continue;
    }
    if (!refuse_row(name, store, number, mine, a)) rows.rows.emplace_back(number, mine);
  }
  Pending& p = pending_[rows.ticket] = {name, store.session, message->run(), message->chunk(), {}};
  for (const auto& [number, row_of_it] : rows.rows) {
    p.numbers.push_back(number);
    keeping_[number] = true;
  }
  for (const wire::Unreadable& u : message->unreadable()) cannot_read(store, name, u, a);
  tell_finding(false, a);
  ask_changed(a);
  report_complete(a);
}

RowIngest::Actions RowIngest::durable(uint64_t ticket, std::span<const BadRow> bad) {
  Actions a;
  const auto it = pending_.find(ticket);
  if (it == pending_.end()) throw Error("row ingest: ticket ", ticket, " is not open");
  const Pending p = std::move(it->second);
  pending_.erase(it);
  const Store& store = stores_.at(p.store);
  for (const BadRow& b : bad) {
    assignment_->cannot_read(b.number, *store.number, b.reason);
    unreadable_at_[b.number] = {p.store, ""};
    a.notes.push_back("store " + p.store + ": photo " +
                      to_hex(manifest_->entry(b.number).digest).substr(0, 12) + ": " + b.reason);
  }
  for (uint64_t number : p.numbers) {
    keeping_[number] = false;
    if (std::ranges::find(bad, number, &BadRow::number) == bad.end()) {
      (void)assignment_->mark_durable(number);
    }
  }
  if (store.here && store.session == p.session) {
    wire::Ack& ack = *a.send.emplace_back(p.store, wire::ToStore()).second.mutable_ack();
    ack.set_job(rules_.job.job());
    ack.set_run(p.run);
    ack.set_chunk(p.chunk);
  }
  ask_changed(a);
  report_complete(a);
  return a;
}

}  // namespace ndtrain::tuner
