#include "ndp/jobs/sampling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>
#include <utility>

#include "framework/core/rng.h"
#include "ndp/jobs/shard_rows.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kBalanced = "balanced";

// A number of the photo's own, by which those with the smallest are drawn.
uint64_t lot_of(const Digest& photo, uint64_t seed) {
  return xxh3(photo.data(), photo.size(), Rng(seed, "sample").bits(0));
}

int64_t class_among(const std::vector<std::string>& classes, std::string_view name) {
  const auto it = std::ranges::find(classes, name);
  if (it != classes.end()) return it - classes.begin();
  std::string known;
  for (const std::string& c : classes) {
    if (known.size() < 200) known += (known.empty() ? "" : ", ") + c;
  }
  throw Error("there is no class '", name, "'; the classes are ", known);
}

std::map<int64_t, double> counts_of(std::span<const SampledRow> rows) {
  std::map<int64_t, double> counts;
  for (const SampledRow& r : rows) ++counts[r.label];
  return counts;
}

std::vector<double> given_weights(const std::string& text,
                                  const std::vector<std::string>& classes) {
  std::vector<double> weights(classes.size(), 1);
  for (const std::string& part : names_between_commas(text)) {
    const size_t equals = std::min(part.rfind('='), part.size());
    const char* const number = part.data() + std::min(equals + 1, part.size());
    double w = 0;
    const auto [stop, error] = std::from_chars(number, part.data() + part.size(), w);
    if (error != std::errc() || stop != part.data() + part.size() || !(w > 0) ||
        !std::isfinite(w)) {
      throw Error("class weight '", part,
                  "': take balanced, or CLASS=WEIGHT,... with weights above 0");
    }
    weights[static_cast<size_t>(class_among(classes, part.substr(0, equals)))] = w;
  }
  return weights;
}

bool is_recent(const Photo& photo, const Sampling& sampling) {
  return sampling.since && photo.label_time >= *sampling.since;
}

// Those with the smallest lots stay, `most` of those that are drawn from.
void draw(std::span<const Candidate> photos, const Sampling& sampling, uint64_t seed,
          std::vector<bool>& stays) {
  std::vector<std::pair<uint64_t, size_t>> lots;
  for (size_t i = 0; i < stays.size(); ++i) {
    const bool all_stay = sampling.truth_share && photos[i].recent;
    if (stays[i] && !all_stay) lots.emplace_back(lot_of(photos[i].photo, seed), i);
  }
  std::ranges::sort(lots);
  for (size_t i = static_cast<size_t>(sampling.sample); i < lots.size(); ++i) {
    stays[lots[i].second] = false;
  }
}

void keep_only(TrainingPhotos& photos, const std::vector<bool>& stays) {
  TrainingPhotos kept;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (!stays[i]) continue;
    kept.set.photos.push_back(std::move(photos.set.photos[i]));
    kept.roots.push_back(std::move(photos.roots[i]));
    kept.for_validation.push_back(photos.for_validation[i]);
  }
  photos.set.photos = std::move(kept.set.photos);
  photos.roots = std::move(kept.roots);
  photos.for_validation = std::move(kept.for_validation);
}

// Each is drawn for a place of the same shard.
std::vector<double> probabilities_among(std::span<const SampledRow> rows, const Sampling& sampling,
                                        const ShardRows& of) {
  std::map<std::pair<bool, int64_t>, double> counts;
  for (const SampledRow& r : rows) ++counts[{sampling.truth_share && r.recent, r.label}];
  std::vector<double> p(rows.size(), 1);
  double sums[2] = {};
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool part = sampling.truth_share && rows[i].recent;
    if (sampling.balanced) p[i] = 1 / counts.at({part, rows[i].label});
    sums[part] += p[i];
  }
  if (sampling.truth_share && (sums[0] == 0 || sums[1] == 0)) {
    const std::string shard =
        of.shards == 1 ? "" : fmt::format(" of shard {} of {}", of.shard + 1, of.shards);
    throw Error("a truth share of ", *sampling.truth_share, ": ", sums[1] == 0 ? "no" : "every",
                " photo to train on", shard, " has a label since ", sampling.since.value_or(0),
                "; take another --since, ", shard.empty() ? "" : "fewer --shards, ",
                "or leave --truth-share away");
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool part = sampling.truth_share && rows[i].recent;
    const double share = !sampling.truth_share ? 1
                         : part                ? *sampling.truth_share
                                               : 1 - *sampling.truth_share;
    p[i] *= share / sums[part];
  }
  return p;
}

}  // namespace

void Sampling::check() const {
  if (sample < 0) throw Error("a sample of ", sample, " photos: at least 1");
  if (balanced && class_weights == kBalanced) {
    throw Error(
        "sampling and class weights are both balanced: rare classes would count twice; "
        "give one");
  }
  if (!truth_share) return;
  if (!(*truth_share > 0 && *truth_share < 1)) {
    throw Error("a truth share of ", *truth_share, ": above 0 and below 1");
  }
  if (!since) {
    throw Error("a truth share of ", *truth_share,
                " is of labels since a time; say which by --since");
  }
}

std::vector<std::string> names_between_commas(std::string_view text) {
  std::vector<std::string> names(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text.substr(i).starts_with("\\,");
    if (escaped) ++i;
    if (text[i] == ',' && !escaped) {
      names.emplace_back();
    } else {
      names.back() += text[i];
    }
  }
  return names;
}

std::string describe(const Sampling& s) {
  return fmt::format("since {} labels {} sample {} truth share {:.17g} balanced {} weights {}",
                     s.since ? std::to_string(*s.since) : "-", fmt::join(s.labels, ","), s.sample,
                     s.truth_share.value_or(0), s.balanced, s.class_weights);
}

std::vector<bool> chosen(std::span<const Candidate> photos, const Sampling& sampling,
                         const std::vector<std::string>& classes, uint64_t seed) {
  std::vector<int64_t> wanted;
  for (const std::string& name : sampling.labels) wanted.push_back(class_among(classes, name));
  std::vector<bool> stays;
  for (const Candidate& c : photos) {
    const bool shown = wanted.empty() || std::ranges::count(wanted, c.label) > 0;
    stays.push_back(shown && (!sampling.since || sampling.truth_share || c.recent));
  }
  if (sampling.sample > 0) draw(photos, sampling, seed, stays);
  if (std::ranges::count(stays, true) > 0) return stays;
  throw Error("no photo to train on is left by what --since",
              sampling.since ? " " + std::to_string(*sampling.since) : "",
              ", --label and --sample choose; take an earlier time or more labels");
}

void choose_photos(TrainingPhotos& photos, const Sampling& sampling, uint64_t seed,
                   Progress& progress) {
  sampling.check();
  if (!sampling.any()) return;
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < photos.set.photos.size(); ++i) {
    const Photo& p = photos.set.photos[i];
    if (photos.for_validation[i]) continue;
    candidates.push_back({p.digest, p.label, is_recent(p, sampling)});
  }
  const std::vector<bool> stay = chosen(candidates, sampling, photos.set.classes, seed);
  std::vector<bool> stays(photos.set.photos.size(), true);
  for (size_t i = 0, k = 0; i < stays.size(); ++i) {
    if (!photos.for_validation[i]) stays[i] = stay[k++];
  }
  keep_only(photos, stays);
  const auto left = std::ranges::count(stay, true);
  if (left == std::ssize(stay)) return;
  progress.say(fmt::format("{} of {} photos are chosen to train on", left, stay.size()));
}

std::vector<double> loss_weights(std::span<const SampledRow> rows, const Sampling& sampling,
                                 const std::vector<std::string>& classes) {
  std::vector<double> weights(rows.size(), 1);
  if (sampling.class_weights.empty()) return weights;
  const bool by_count = sampling.class_weights == kBalanced;
  const std::map<int64_t, double> counts = counts_of(rows);
  const std::vector<double> given =
      by_count ? std::vector<double>() : given_weights(sampling.class_weights, classes);
  const double mean = static_cast<double>(rows.size()) / static_cast<double>(counts.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    weights[i] =
        by_count ? mean / counts.at(rows[i].label) : given.at(static_cast<size_t>(rows[i].label));
  }
  return weights;
}

std::vector<double> draw_probabilities(std::span<const SampledRow> rows, const Sampling& sampling,
                                       int64_t shards) {
  std::vector<double> p(rows.size());
  for (int64_t s = 0; s < std::min(shards, std::ssize(rows)); ++s) {
    const ShardRows shard{s, shards};
    std::vector<SampledRow> own;
    for (int64_t k = 0; k < shard.count(std::ssize(rows)); ++k) {
      own.push_back(rows[static_cast<size_t>(shard.row(k))]);
    }
    const std::vector<double> of_own = probabilities_among(own, sampling, shard);
    for (size_t k = 0; k < own.size(); ++k) {
      p[static_cast<size_t>(shard.row(static_cast<int64_t>(k)))] = of_own[k];
    }
  }
  return p;
}

SampledRows::SampledRows(std::unique_ptr<Dataset> rows, std::vector<double> weights,
                         std::span<const double> probabilities, uint64_t seed,
                         std::function<int64_t()> epoch, int64_t shards)
    : rows_(std::move(rows)), weights_(std::move(weights)), seed_(seed), epoch_(std::move(epoch)) {
  if (probabilities.empty()) return;
  until_.resize(static_cast<size_t>(shards));
  for (size_t row = 0; row < probabilities.size(); ++row) {
    std::vector<double>& until = until_[row % until_.size()];
    until.push_back((until.empty() ? 0 : until.back()) + probabilities[row]);
  }
}

int64_t SampledRows::drawn(int64_t row) const {
  if (until_.empty()) return row;
  const ShardRows shard = ShardRows::with(row, std::ssize(until_));
  const std::vector<double>& until = until_[static_cast<size_t>(shard.shard)];
  const Rng rng(seed_, "sampling epoch " + std::to_string(epoch_()));
  const double at = rng.uniform(static_cast<uint64_t>(row)) * until.back();
  const auto it = std::ranges::upper_bound(until, at);
  return shard.row(std::min<int64_t>(it - until.begin(), std::ssize(until) - 1));
}

void SampledRows::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                        std::span<int64_t> labels) {
  std::vector<int64_t> from;
  for (const int64_t row : rows) from.push_back(drawn(row));
  rows_->fetch(from, inputs, labels);
}

double SampledRows::weight(int64_t row, int64_t label) const {
  const int64_t from = drawn(row);
  return weights_[static_cast<size_t>(from)] * rows_->weight(from, label);
}

std::unique_ptr<Dataset> sampled(std::unique_ptr<Dataset> rows, std::span<const size_t> of_rows,
                                 const TrainingPhotos& photos, const Sampling& sampling,
                                 uint64_t seed, std::function<int64_t()> epoch) {
  if (!sampling.weighs()) return rows;
  std::vector<SampledRow> facts;
  for (const size_t i : of_rows) {
    const Photo& p = photos.set.photos[i];
    facts.push_back({.label = p.label, .recent = is_recent(p, sampling)});
  }
  std::vector<double> probabilities;
  if (sampling.draws()) probabilities = draw_probabilities(facts, sampling);
  std::vector<double> weights = loss_weights(facts, sampling, photos.set.classes);
  return std::make_unique<SampledRows>(std::move(rows), std::move(weights), probabilities, seed,
                                       std::move(epoch));
}

}  // namespace ndtrain::ndp
