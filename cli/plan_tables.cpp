#include "cli/plan_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

std::string time_text(double s) {
  if (s < 100) return fmt::format("{:.1f} s", s);
  if (s < 6000) return fmt::format("{:.1f} min", s / 60);
  return fmt::format("{:.1f} h", s / 3600);
}

std::string known(const std::optional<double>& v, const char* form) {
  return v ? fmt::format(fmt::runtime(form), *v) : "-";
}

std::string percent(double part, double whole) {
  return fmt::format("{:.0f}", whole > 0 ? 100 * part / whole : 0);
}

// Exporters write long names; both ends tell them apart.
std::string shortened(const std::string& name, size_t most) {
  if (name.size() <= most) return name;
  const size_t front = (most - 1) * 2 / 3;
  return name.substr(0, front) + "~" + name.substr(name.size() - (most - 1 - front));
}

std::string ratio(double r) { return r > 0 ? fmt::format("{:.2f}", r) : "-"; }

std::vector<int> store_counts(std::span<const SweepPoint> points) {
  std::set<int> counts;
  for (const SweepPoint& p : points) counts.insert(p.stores);
  return {counts.begin(), counts.end()};
}

std::vector<double> bandwidths(std::span<const SweepPoint> points) {
  std::set<double> all;
  for (const SweepPoint& p : points) all.insert(p.bandwidth);
  return {all.begin(), all.end()};
}

template <typename F>
std::string grid(std::span<const SweepPoint> points, const std::string& title, F value) {
  std::string out = fmt::format("{:<14}", title);
  for (const int n : store_counts(points)) out += fmt::format("{:>7}", n);
  out += "  stores\n";
  for (const double b : bandwidths(points)) {
    out += fmt::format("{:<14}", bits_text(b));
    for (const SweepPoint& p : points) {
      if (p.bandwidth == b) out += fmt::format("{:>7}", ratio(value(p)));
    }
    out += "\n";
  }
  return out;
}

// "faster 1.8: from 6 stores at 10 Gbit/s, …" for one claim.
template <typename F>
std::string claim_line(std::span<const SweepPoint> points, const std::string& what, double claim,
                       const std::string& source, F value) {
  if (claim <= 0) return "";
  std::string out = fmt::format("{} x {} ({}) is reached", claim, what, source);
  std::string separator = ": ";
  for (const double b : bandwidths(points)) {
    std::string reached = "nowhere";
    for (const SweepPoint& p : points) {
      if (p.bandwidth != b || value(p) < claim) continue;
      reached = fmt::format("from {} store{} ({} x)", p.stores, p.stores == 1 ? "" : "s",
                            ratio(value(p)));
      break;
    }
    out += fmt::format("{}at {} {}", separator, bits_text(b), reached);
    separator = "; ";
  }
  return out + "\n";
}

}  // namespace

std::string bits_text(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  for (const auto& [unit, name] : {std::pair(1e9, "G"), std::pair(1e6, "M"), std::pair(1e3, "K")}) {
    if (bits >= unit) return fmt::format("{:.4g} {}bit/s", bits / unit, name);
  }
  return fmt::format("{:.4g} bit/s", bits);
}

std::string prediction_table(std::span<const Prediction> predictions, size_t most) {
  constexpr size_t kWidestCut = 40;
  size_t width = 3;
  for (const Prediction& p : predictions.first(std::min(most, predictions.size()))) {
    if (p.mode == JobMode::kNdpipe) width = std::max(width, std::min(p.cut.size(), kWidestCut));
  }
  std::string out = fmt::format(
      "{:<8} {:<{}} {:>6} {:>5} {:>9} {:>9} {:>9} {:>8} {:>9}  {:>6} {:>5} {:>6}\n", "mode", "cut",
      width, "stores", "runs", "time", "bytes", "disk", "$", "kJ", "stores", "link", "Tuner");
  size_t left_out = 0;
  for (size_t i = 0; i < predictions.size(); ++i) {
    const Prediction& p = predictions[i];
    const bool bound = p.mode == JobMode::kIdeal;
    if (i >= most && !bound) {
      ++left_out;
      continue;
    }
    const double t = p.time.makespan_s;
    const std::string cut = p.mode == JobMode::kNdpipe ? shortened(p.cut, width) : "";
    out += fmt::format(
        "{:<8} {:<{}} {:>6} {:>5} {:>9} {:>9} {:>9} {:>8} {:>9}  {:>5}% {:>4}% {:>5}%{}\n",
        name_of(p.mode), cut, width, bound ? "-" : std::to_string(p.stores), p.runs, time_text(t),
        size_text(p.bytes()), size_text(p.disk_bytes), known(p.dollars, "{:.4g}"),
        p.joules ? fmt::format("{:.4g}", *p.joules / 1e3) : "-", percent(p.time.busiest_store_s, t),
        percent(p.time.link_s, t), percent(p.time.tuner_s, t),
        bound    ? "  (a bound: no network)"
        : p.fits ? ""
                 : "  (more than the disk has)");
  }
  if (left_out > 0) out += fmt::format("and {} more; --top N prints more\n", left_out);
  return out;
}

Json to_json(const Prediction& p) {
  Json json = {{"mode", name_of(p.mode)},
               {"cut", p.cut},
               {"stores", p.stores},
               {"runs", p.runs},
               {"makespan_s", p.time.makespan_s},
               {"publish_s", p.time.publish_s},
               {"begin_s", p.time.begin_s},
               {"first_run_s", p.time.first_run_s},
               {"bytes_up", p.time.bytes_up},
               {"bytes_down", p.time.bytes_down},
               {"busiest_store_s", p.time.busiest_store_s},
               {"link_s", p.time.link_s},
               {"network_s", p.time.network_s},
               {"training_s", p.time.training_s},
               {"tuner_s", p.time.tuner_s},
               {"disk_bytes", p.disk_bytes},
               {"cache_bytes", p.cache_bytes},
               {"fits", p.fits}};
  json["dollars"] = p.dollars ? Json(*p.dollars) : Json();
  json["joules"] = p.joules ? Json(*p.joules) : Json();
  return json;
}

std::string input_table(Profile profile) {
  std::string out, before;
  for (const NamedInput& input : named_inputs(profile)) {
    const auto source = profile.sources.find(input.path);
    if (source == profile.sources.end()) continue;
    const std::string name = input.label.empty() ? input.path : input.path + " " + input.label;
    out += fmt::format("  {:<40} {:>12.6g}  {}\n", shortened(name, 40), *input.value,
                       source->second == before ? "\"" : source->second);
    before = source->second;
  }
  const std::vector<double>& shares = profile.inputs.shares;
  if (!shares.empty()) out += fmt::format("  shares of the stores: {}\n", fmt::join(shares, ", "));
  return out;
}

std::string sweep_table(std::span<const SweepPoint> points) {
  return grid(points, "times faster", [](const SweepPoint& p) { return p.faster; }) + "\n" +
         grid(points, "times cheaper", [](const SweepPoint& p) { return p.cheaper; });
}

std::string claim_lines(const Profile& profile, std::span<const SweepPoint> points) {
  const auto source = [&](const std::string& path) {
    const auto at = profile.sources.find(path);
    return at == profile.sources.end() ? "" : at->second;
  };
  return claim_line(points, "faster", profile.claimed_faster, source("claims/faster"),
                    [](const SweepPoint& p) { return p.faster; }) +
         claim_line(points, "cheaper", profile.claimed_cheaper, source("claims/cheaper"),
                    [](const SweepPoint& p) { return p.cheaper; });
}

std::string sensitivity_table(const SweepPoint& as_is, std::span<const Sensitivity> all) {
  std::string out =
      fmt::format("at {} stores and {}: {} {} against {} {}\n{:<32} {:>15} {:>15} {:>15} {:>15}\n",
                  as_is.stores, bits_text(as_is.bandwidth), name_of(as_is.ndpipe.mode),
                  time_text(as_is.ndpipe.time.makespan_s), name_of(as_is.other.mode),
                  time_text(as_is.other.time.makespan_s), "assumed input", "faster, at half",
                  "at twice", "cheaper, at half", "at twice");
  out += fmt::format("{:<32} {:>15} {:>15} {:>15} {:>15}\n", "(all as they are)",
                     ratio(as_is.faster), "", ratio(as_is.cheaper), "");
  for (const Sensitivity& s : all) {
    out += fmt::format("{:<32} {:>15} {:>15} {:>15} {:>15}\n", s.input, ratio(s.half.faster),
                       ratio(s.twice.faster), ratio(s.half.cheaper), ratio(s.twice.cheaper));
  }
  return out;
}

Json to_json(const SweepPoint& p) {
  return {{"stores", p.stores},          {"bandwidth_bits_per_s", 8 * p.bandwidth},
          {"faster", p.faster},          {"cheaper", p.cheaper > 0 ? Json(p.cheaper) : Json()},
          {"ndpipe", to_json(p.ndpipe)}, {"other", to_json(p.other)}};
}

}  // namespace ndtrain::cli
