#include "tuner/work/relabel_preview.h"

#include <set>

#include "framework/core/json.h"
#include "ndp/labels/agreement.h"
#include "ndp/labels/label_json.h"
#include "tuner/ingest/row_check.h"

namespace ndtrain::tuner {
using namespace ndp;

PreviewSink::PreviewSink(LabelDb& db, Clock& clock, const PublishedModel& model,
                         const JobSpec& spec)
    : db_(db), clock_(clock), model_(model), spec_(spec) {}

// The manifest is in the order of the digests, so evenly spaced photos are drawn at random.
Result<std::vector<uint64_t>> PreviewSink::open(const Manifest& manifest) {
  manifest_ = &manifest;
  Result<CurrentLabels> current = CurrentLabels::read(db_, spec_.collection, spec_.task);
  if (!current.ok()) return current.status();
  current_ = std::move(*current);
  std::vector<uint64_t> wanted;
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    const Digest& photo = manifest.entry(n).digest;
    if (!current_.wanted(photo, model_.content, spec_.only)) continue;
    wanted.push_back(n);
    missing_ += current_.find(photo) == nullptr;
  }
  photos_ = static_cast<int64_t>(wanted.size());
  const size_t count = std::min(kSample, wanted.size());
  std::set<uint64_t> sample;
  for (size_t i = 0; i < count; ++i) sample.insert(wanted[i * wanted.size() / count]);
  std::vector<uint64_t> durable;
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    if (!sample.contains(n)) durable.push_back(n);
  }
  begun_ = last_ = clock_.monotonic();
  return durable;
}

Result<std::vector<RowIngest::BadRow>> PreviewSink::keep(std::span<const RowIngest::Rows> rows) {
  std::vector<RowIngest::BadRow> bad;
  for (const RowIngest::Rows& r : rows) {
    for (const auto& [number, row] : r.rows) {
      const Result<std::vector<RankedClass>> top = read_label_row(row, model_.classes.size());
      if (!top.ok() || top->empty()) {
        bad.push_back({number, top.ok() ? "a label row without labels" : top.status().message()});
        continue;
      }
      ++sample_;
      const CurrentLabels::Label* before = current_.find(manifest_->entry(number).digest);
      if (!before || before->source != LabelSource::kModel) continue;
      ++same_.photos;
      same_.agree += before->class_name == model_.classes[(*top)[0].class_id];
    }
  }
  last_ = clock_.monotonic();
  return bad;
}

std::string PreviewSink::report() const {
  const double seconds = std::chrono::duration<double>(last_ - begun_).count();
  Json j = version_json(number_of(model_), model_.content);
  j.update({{"photos", manifest_->size()},
            {"to_label", photos_},
            {"without_label", missing_},
            {"sample", sample_}});
  if (sample_ > 0) {
    j["about_s"] = seconds * static_cast<double>(photos_) / static_cast<double>(sample_);
  }
  if (same_.photos > 0) {
    // The share of labels that change, and its 95 % interval.
    const Interval same = wilson_interval(same_);
    j["changed"] = 1 - static_cast<double>(same_.agree) / static_cast<double>(same_.photos);
    j["changed_low"] = 1 - same.high;
    j["changed_high"] = 1 - same.low;
  }
  return json_text(j);
}

}  // namespace ndtrain::tuner
