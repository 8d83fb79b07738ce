#include "tuner/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "framework/core/error.h"
#include "ndp/store/segment_format.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

double energy(const Machine& m, double machines, double busy_s, double makespan_s) {
  return m.idle_watts * machines * makespan_s + (m.busy_watts - m.idle_watts) * busy_s;
}

// Each row is a record of its own.
double disk_bytes(const PlanInputs& in, const CutCost& cut) {
  const double rows = std::lerp(rows_of_photo(in, 1), rows_of_photo(in, 0), in.val_split);
  return in.photos * rows * (cut.feature_bytes + static_cast<double>(kRecordHeaderBytes));
}

bool fits(const PlanInputs& in, const CutCost& cut) {
  return in.disk == 0 || disk_bytes(in, cut) <= in.disk;
}

Prediction predict(const PlanInputs& in, const CutCost& cut, JobMode mode, int stores, int runs) {
  const int n = mode == JobMode::kIdeal ? 0 : stores;
  Prediction p{.mode = mode, .cut = cut.name, .stores = n, .runs = runs};
  p.time = simulate(in, cut, mode, stores, runs);
  p.disk_bytes = disk_bytes(in, cut);
  p.fits = fits(in, cut);
  if (mode == JobMode::kNdpipe)
    p.cache_bytes = p.disk_bytes * std::ranges::max(shares_of(in, stores));
  const Machine& store = store_machine(in.costs, mode);
  const Machine& tuner = tuner_machine(in.costs, mode);
  const auto has = [&](double Machine::*known) {
    return tuner.*known > 0 && (n == 0 || store.*known > 0);
  };
  if (has(&Machine::dollars_per_hour)) {
    p.dollars = (n * store.dollars_per_hour + tuner.dollars_per_hour) * p.time.makespan_s / 3600;
  }
  if (has(&Machine::busy_watts)) {
    p.joules = energy(store, n, p.time.all_stores_s, p.time.makespan_s) +
               energy(tuner, 1, p.time.tuner_s, p.time.makespan_s);
  }
  return p;
}

double value_of(const Prediction& p, Objective objective) {
  const auto known = [](const std::optional<double>& v, std::string_view what) {
    if (!v) {
      throw Error("plan: the ", what,
                  " of every machine must be known to minimise it; say it in "
                  "the profile");
    }
    return *v;
  };
  switch (objective) {
    case Objective::kMakespan:
      return p.time.makespan_s;
    case Objective::kCost:
      return known(p.dollars, "price (dollars_per_hour)");
    case Objective::kEnergy:
      return known(p.joules, "power (busy_watts)");
    case Objective::kBytes:
      break;
  }
  return p.bytes();
}

std::vector<std::string> remarks_on_features(const PlanInputs& in) {
  const PlanCosts& c = in.costs;
  const CutCost& last = c.cuts.back();
  if (last.feature_bytes <= c.photo.bytes || in.views > 0) return {};
  std::string line = fmt::format(
      "features where training begins ({}) are larger than photos, {} against {}: sending photos "
      "(typical) moves fewer bytes",
      last.name, size_text(last.feature_bytes), size_text(c.photo.bytes));
  const CutCost& smallest = *std::ranges::min_element(c.cuts, {}, &CutCost::feature_bytes);
  if (smallest.feature_bytes <= c.photo.bytes) {
    line += fmt::format("; a cut at {} makes them {}, but the Tuner computes more every epoch",
                        smallest.name, size_text(smallest.feature_bytes));
  }
  return {line + "; --head linear makes them smaller"};
}

}  // namespace

Objective objective_named(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"makespan", "cost", "energy", "bytes"};
  const auto* at = std::ranges::find(kNames, name);
  if (at == kNames.end()) {
    throw Error("cannot minimise '", name, "': there are makespan, cost, energy and bytes");
  }
  return static_cast<Objective>(at - kNames.begin());
}

std::vector<Prediction> predict_all(const PlanInputs& in) {
  validate(in);
  std::vector<Prediction> all;
  for (const int stores : in.stores) {
    for (const int runs : in.runs) {
      for (const CutCost& cut : in.costs.cuts) {
        all.push_back(predict(in, cut, JobMode::kNdpipe, stores, runs));
      }
      if (in.views > 0) continue;  // the other modes make none
      const CutCost& last = in.costs.cuts.back();
      for (const JobMode mode : {JobMode::kTypical, JobMode::kSrvP, JobMode::kSrvC}) {
        if (mode == JobMode::kSrvP && in.costs.photo.crop_bytes == 0) continue;
        if (mode == JobMode::kSrvC && in.costs.photo.compressed_crop_bytes == 0) continue;
        all.push_back(predict(in, last, mode, stores, runs));
      }
    }
  }
  for (const int runs : in.runs) {
    all.push_back(predict(in, in.costs.cuts.back(), JobMode::kIdeal, 1, runs));
  }
  return all;
}

std::vector<Prediction> ranked(std::vector<Prediction> all, Objective objective) {
  const auto key = [&](const Prediction& p) {
    const bool bound = p.mode == JobMode::kIdeal;
    return std::tuple(bound, !bound && !p.fits, bound ? 0 : value_of(p, objective),
                      p.time.makespan_s, p.bytes());
  };
  std::ranges::stable_sort(all, {}, key);
  return all;
}

Prediction best(std::vector<Prediction> all, Objective objective) {
  std::erase_if(all, [](const Prediction& p) { return p.mode == JobMode::kIdeal; });
  if (all.empty()) throw Error("plan: there is nothing to choose from");
  const Prediction least = *std::ranges::min_element(all, {}, &Prediction::disk_bytes);
  std::erase_if(all, [](const Prediction& p) { return !p.fits; });
  if (all.empty()) {
    throw Error("plan: no cut's features fit what the Tuner's disk has for them: ", least.cut,
                " needs the least, ", size_text(least.disk_bytes),
                "; make room on its volume, or give them more of it by --disk");
  }
  return ranked(std::move(all), objective).front();
}

std::string why(const Prediction& p) {
  const Timeline& t = p.time;
  struct Part {
    std::string_view name;
    double seconds;
  };
  std::array<Part, 3> parts = {Part{"the stores' computing", t.busiest_store_s},
                               Part{"the Tuner's link", t.link_s},
                               Part{"the Tuner's computing", t.tuner_s}};
  std::ranges::stable_sort(parts, std::ranges::greater{}, &Part::seconds);
  const auto percent = [&](double s) { return 100 * s / t.makespan_s; };
  std::string line = fmt::format("{} is the bottleneck: busy {:.0f} % of the time", parts[0].name,
                                 percent(parts[0].seconds));
  for (const Part& other : {parts[1], parts[2]}) {
    line += fmt::format(", {} {:.0f} %", other.name, percent(other.seconds));
  }
  constexpr double kWorthSaying = 0.1;
  if (t.begin_s > kWorthSaying * t.makespan_s && p.mode != JobMode::kIdeal) {
    line += fmt::format("; {:.1f} s pass before a store begins (set-up, {}lists of photos)",
                        t.begin_s, p.mode == JobMode::kNdpipe ? "the extractor, " : "");
  }
  return line;
}

std::string size_text(double bytes) {
  for (const auto& [unit, name] :
       {std::pair(1e12, "TB"), std::pair(1e9, "GB"), std::pair(1e6, "MB")}) {
    if (bytes >= unit) return fmt::format("{:.1f} {}", bytes / unit, name);
  }
  return fmt::format("{:.1f} KB", bytes / 1e3);
}

std::vector<std::string> remarks(const PlanInputs& in) {
  std::vector<std::string> lines = remarks_on_features(in);
  const std::vector<CutCost>& cuts = in.costs.cuts;
  const auto too_large =
      std::ranges::count_if(cuts, [&](const CutCost& c) { return !fits(in, c); });
  if (too_large > 0) {
    const CutCost& largest = *std::ranges::max_element(cuts, {}, &CutCost::feature_bytes);
    lines.push_back(
        fmt::format("the features of {} of {} cuts take more than the {} that the Tuner's disk "
                    "has; those of {} take {}",
                    too_large, cuts.size(), size_text(in.disk), largest.name,
                    size_text(disk_bytes(in, largest))));
  }
  return lines;
}

}  // namespace ndtrain::tuner
