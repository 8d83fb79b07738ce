// What stores answer of photos that are compared, and what comes of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "tuner/ingest/row_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

// A row that is refused is no answer.
void RowIngest::audit_row(const Store& store, uint64_t number, std::string_view row) {
  if (!audit_ || !audit_->awaits(*store.number, number)) return;
  if (rules_.check && !rules_.check(row).empty()) {
    audit_->leave(*store.number, number);
  } else {
    audit_->answer(*store.number, number, row);
  }
}

// Whether all has been compared that will be. Nothing is trained on before; what stores were not
// asked for yet, they are now.
bool RowIngest::audited(Actions& a) {
  if (!audit_) return true;
  const std::vector<std::string> names = stores();
  for (const auto& [number, run] : audit_->pending()) {
    Store& store = stores_.at(names.at(number));
    if (!store.ready || store.lost) {
      audit_->leave(number);
      continue;
    }
    std::vector<uint64_t> photos;
    audit_->ask(number, run, photos);
    if (want(names.at(number), store, run, photos, a)) ask_all(a);
  }
  const bool done = !audit_->waits();
  if (!done && !audit_since_) audit_since_ = now_;
  if (done) end_audit(a);
  return done && !over_;
}

void RowIngest::end_audit(Actions& a) {
  audit_since_.reset();
  const std::vector<std::string> names = stores();
  std::set<std::string> silent;
  for (const auto& [number, run] : audit_->pending()) {
    audit_->leave(number);
    silent.insert(names.at(number));
  }
  if (!silent.empty()) {
    a.notes.push_back(
        fmt::format("the features of {} are not compared with others': no answer within {} s",
                    fmt::join(silent, ", "),
                    std::chrono::duration_cast<std::chrono::seconds>(kAuditPatience).count()));
  }
  tell_finding(true, a);
  audit_.reset();
}

// Rows of who is wrong may be durable, so the job is over; its rows go with it.
void RowIngest::tell_finding(bool last, Actions& a) {
  const std::optional<FeatureAudit::Finding> f =
      audit_ && !over_ ? audit_->finding(last) : std::nullopt;
  if (!f) return;
  over_ = true;
  const std::vector<std::string> names = stores();
  const std::string& wrong = names.at(f->store.value_or(f->a));
  const std::string& other = names.at(wrong == names.at(f->a) ? f->b : f->a);
  const Digest& photo = manifest_->entry(f->photo).digest;
  const std::string what = fmt::format(
      "store {} makes other features than store {} of photo {}: they differ by {:.2g} of their "
      "standard deviation, {:g} may be",
      wrong, other, to_hex(photo).substr(0, 12), f->difference, FeatureAudit::kTolerance);
  const uint64_t job = rules_.job.job();
  a.wrong = WrongRows{.store = std::nullopt, .photo = photo, .why = what};
  if (f->store) {
    a.wrong->store = wrong;
    a.failed = fmt::format(
        "{}, and others agree with {}; {} is drained, and ndtrain job resume {} begins anew "
        "without it (ndtrain store drain {} --undo once its processor, disk and program are sound)",
        what, other, wrong, job, wrong);
  } else {
    a.failed = fmt::format(
        "{}, and no third store says which of the two is wrong; find out, ndtrain store drain that "
        "one, and ndtrain job resume {} begins anew",
        what, job);
  }
}

}  // namespace ndtrain::tuner
