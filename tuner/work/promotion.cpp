#include "tuner/work/promotion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "framework/core/json.h"

namespace ndtrain::tuner {
using namespace ndp;

std::optional<PublishedModel> compared_with(const Versions& versions, uint64_t job,
                                            std::string_view task) {
  std::optional<PublishedModel> in_force = versions.in_force(task);
  if (in_force && in_force->job == job) return versions.find(in_force->parent);
  return in_force;
}

// The sum of the binomial probabilities of n draws at one half, from `gained` on.
double mcnemar(int64_t gained, int64_t lost) {
  const int64_t n = gained + lost;
  if (gained <= lost) return n == 0 || gained == 0 ? 1 : 1 - mcnemar(lost + 1, gained - 1);
  const auto all = static_cast<double>(n);
  auto k = static_cast<double>(gained);
  double term = std::exp(std::lgamma(all + 1) - std::lgamma(k + 1) - std::lgamma(all - k + 1) -
                         all * std::log(2.0));
  double sum = 0;
  for (; k <= all && term > sum * 1e-17; ++k) {
    sum += term;
    term *= (all - k) / (k + 1);
  }
  return sum;
}

Truths truths_of(const Manifest& manifest, const std::vector<PhotoClaim>& now) {
  Truths truths;
  for (const uint64_t number : manifest.run(0)) {
    const Manifest::Entry& e = manifest.entry(number);
    if (e.label >= 0) truths.of[e.digest] = manifest.classes().at(static_cast<size_t>(e.label));
  }
  std::map<Digest, const PhotoClaim*> claims;  // the one that a manifest would take
  for (const PhotoClaim& claim : now) {
    const PhotoClaim*& best = claims[claim.digest];
    const auto rank = [](const PhotoClaim& c) {
      return std::pair(-static_cast<int>(c.source), std::string_view(c.label));
    };
    if (!best || rank(claim) < rank(*best)) best = &claim;
  }
  for (const auto& [photo, claim] : claims) {
    const auto known = truths.of.find(photo);
    if (known == truths.of.end() || known->second == claim->label) continue;
    known->second = claim->label;
    ++truths.changed;
  }
  return truths;
}

Comparison compare(const Answers& candidate, const Answers& production, const Answers& truths) {
  struct OfClass {
    int64_t photos = 0, before = 0, after = 0, gained = 0, lost = 0;
  };
  Comparison c;
  std::map<std::string, OfClass> classes;
  for (const auto& [photo, truth] : truths) {
    const auto ours = candidate.find(photo), theirs = production.find(photo);
    if (ours == candidate.end() || theirs == production.end()) continue;
    const bool after = ours->second == truth, before = theirs->second == truth;
    OfClass& own = classes[truth];
    ++own.photos;
    own.before += before;
    own.after += after;
    own.gained += after && !before;
    own.lost += before && !after;
  }
  for (const auto& [name, own] : classes) {
    c.photos += own.photos;
    c.right += own.after;
    c.production_right += own.before;
    c.gained += own.gained;
    c.lost += own.lost;
    if (own.after >= own.before) continue;
    const double chance = mcnemar(own.lost, own.gained) * static_cast<double>(classes.size());
    c.falls.push_back({.name = name,
                       .photos = own.photos,
                       .before = own.before,
                       .after = own.after,
                       .chance = std::min(1.0, chance)});
  }
  std::ranges::stable_sort(c.falls, {}, &ClassFall::chance);
  return c;
}

namespace {

double top1_when_trained(const PublishedModel& m) {
  const auto metrics = try_parse_json(m.metrics);
  const auto top1 = metrics.is_object() ? metrics.value("top1", Json()) : Json();
  return top1.is_number() ? top1.get<double>() : std::nan("");
}

double share(int64_t part, int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

// The comparison could not be made.
Promotion waits(const PublishedModel& production, const Answers& ours, const Truths& truths) {
  const Comparison own = compare(ours, ours, truths.of);
  Promotion p{.figures = fmt::format("top-1 {:.4f} on {} validation photos, and {:.4f} of {}",
                                     share(own.right, own.photos), own.photos,
                                     top1_when_trained(production), text_of(production))};
  p.why = fmt::format(
      "{}, on those of its own job: the rule cannot be applied, as what is in force has another "
      "extractor, and has no answers for these photos: it waits",
      p.figures);
  return p;
}

std::string verdict(const Comparison& c, double chance) {
  if (chance < kByChance) return ": it takes its place";
  if (c.gained == c.lost) return ": as many, so it waits";
  if (c.gained < c.lost) return ": it waits";
  return fmt::format(
      ": {} photos gained and {} lost may be chance (McNemar's test, p {:.3f}): it waits", c.gained,
      c.lost, chance);
}

}  // namespace

Promotion judge(const std::optional<PublishedModel>& production, const Answers& ours,
                const std::optional<Answers>& theirs, const Truths& truths) {
  if (!production) return {.instead_of = 0, .why = "nothing is in force yet: it is now"};
  if (ours.empty()) {
    return {.why = "the rule cannot be applied, as there are no validation photos: it waits"};
  }
  if (!theirs) return waits(*production, ours, truths);
  const Comparison c = compare(ours, *theirs, truths.of);
  if (c.photos == 0) return waits(*production, ours, truths);
  Promotion p{.compared = c, .chance = mcnemar(c.gained, c.lost)};
  p.figures = fmt::format(
      "top-1 {:.4f} on {} validation photos, against {:.4f} of version {}, which is in force",
      share(c.right, c.photos), c.photos, share(c.production_right, c.photos), production->version);
  if (truths.changed > 0) {
    p.figures += fmt::format(
        ", by what people say now ({} of them labelled anew since the job began)", truths.changed);
  }
  if (p.chance < kByChance) p.instead_of = production->version;
  p.why = p.figures + verdict(c, p.chance);
  return p;
}

std::vector<std::string> text_of(const std::vector<ClassFall>& falls, size_t most) {
  std::vector<std::string> lines;
  for (const ClassFall& f : falls) {
    if (lines.size() == most) {
      lines.push_back(fmt::format("and {} more classes fall", falls.size() - most));
      break;
    }
    lines.push_back(fmt::format(
        "class {} falls: {} of {} photos right, {} before: {}", f.name, f.after, f.photos, f.before,
        f.beyond_chance() ? fmt::format("beyond chance (p {:.3g})", f.chance)
                          : fmt::format("may be chance (p {:.2f})", f.chance)));
  }
  return lines;
}

}  // namespace ndtrain::tuner
