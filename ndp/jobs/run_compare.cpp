#include "ndp/jobs/run_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "framework/core/json.h"
#include "framework/core/markup.h"
#include "ndp/jobs/chart.h"

namespace ndtrain::ndp {
namespace {

constexpr std::array kColours = {"#2f6f9f", "#c8553d", "#3d8b5a", "#8a5fa8",
                                 "#b8860b", "#1f9e9e", "#c2477f", "#6b6b76"};

bool is_same(const std::string& a, const std::string& b) {
  return a == b || (is_off(a) && is_off(b));
}

void add_if_different(std::vector<RunDifference>& all, std::string what,
                      std::vector<std::string> values) {
  const bool differs = std::ranges::any_of(
      values, [&](const std::string& v) { return !is_same(v, values.front()); });
  if (differs) all.push_back({.what = std::move(what), .values = std::move(values)});
}

template <typename F>
std::vector<std::string> of_each(std::span<const RunSummary> runs, F value) {
  std::vector<std::string> values;
  for (const RunSummary& run : runs) values.push_back(value(run.settings));
  return values;
}

std::map<std::string, ClassQuality> qualities(const RunSummary& run) {
  std::map<std::string, ClassQuality> by_name;
  const std::vector<ClassQuality> quality = class_quality(run.confusion);
  for (size_t i = 0; i < quality.size(); ++i) by_name[run.classes[i]] = quality[i];
  return by_name;
}

Json json_of(const std::vector<RunDifference>& all) {
  Json json = Json::array();
  for (const RunDifference& d : all) json.push_back({{"what", d.what}, {"values", d.values}});
  return json;
}

Json json_of(std::optional<double> x) { return x ? Json(*x) : Json(); }

Json json_of(const std::optional<ClassQuality>& q) {
  if (!q) return {};
  return {{"photos", q->rows},
          {"precision", json_of(q->precision())},
          {"recall", json_of(q->recall())},
          {"f1", json_of(q->f1())}};
}

// A cell for text that others wrote.
std::string cell_of(const std::string& text) { return "<td>" + escaped_markup(text) + "</td>"; }

std::string html_of(const char* heading, const std::vector<RunDifference>& all, size_t runs) {
  std::string out = fmt::format("<h2>{}</h2>\n", heading);
  if (all.empty()) return out + "<p>None.</p>\n";
  out += "<table>\n<tr><th></th>";
  for (size_t i = 0; i < runs; ++i) out += "<th>" + letter_of(i) + "</th>";
  out += "</tr>\n";
  for (const RunDifference& d : all) {
    out += "<tr>" + cell_of(d.what);
    for (const std::string& v : d.values) out += cell_of(v.empty() ? "-" : v);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

template <typename F>
std::string chart_of(const char* title, std::span<const RunSummary> runs, F value) {
  std::vector<EpochCurve> curves;
  for (size_t i = 0; i < runs.size(); ++i) {
    curves.push_back({.name = letter_of(i), .colour = kColours.at(i % kColours.size()), .y = {}});
    for (const EpochRow& row : runs[i].epochs) curves.back().y.push_back(value(row));
  }
  std::ranges::reverse(curves);  // the legend is written from its end
  return epoch_chart(title, curves);
}

std::string change_cells(std::optional<double> before, std::optional<double> after) {
  const auto text = [](std::optional<double> x) { return x ? fmt::format("{:.3f}", *x) : "-"; };
  const bool fell = before && after && *after < *before;
  return fmt::format("<td{}>{} → {}</td>", fell ? " class=\"wrong\"" : "", text(before),
                     text(after));
}

std::string classes_html(const RunSummary& before, const RunSummary& after, size_t i) {
  std::string out = fmt::format("<h2>Classes of {} against A</h2>\n", letter_of(i));
  const std::vector<ClassChange> changes = class_changes(before, after);
  if (changes.empty()) return out + "<p>One of them has no confusion matrix.</p>\n";
  out += "<table>\n<tr><th>class</th><th>precision</th><th>recall</th><th>F1</th></tr>\n";
  for (const ClassChange& c : changes) {
    out += "<tr>" + cell_of(c.name);
    if (!c.before || !c.after) {
      out += fmt::format("<td colspan=\"3\">only in {}</td></tr>\n", c.before ? "A" : letter_of(i));
      continue;
    }
    out += change_cells(c.before->precision(), c.after->precision()) +
           change_cells(c.before->recall(), c.after->recall()) +
           change_cells(c.before->f1(), c.after->f1()) + "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

std::vector<RunDifference> different_settings(std::span<const RunSummary> runs) {
  std::set<std::string> flags;
  for (const RunSummary& run : runs) {
    for (const auto& [flag, value] : run.settings.asked) flags.insert(flag);
  }
  std::vector<RunDifference> all;
  for (const std::string& flag : flags) {
    if (is_source(flag)) continue;
    add_if_different(all, flag_of(flag),
                     of_each(runs, [&](const RunSettings& s) { return s.text(flag); }));
  }
  return all;
}

std::vector<RunDifference> different_inputs(std::span<const RunSummary> runs) {
  std::vector<RunDifference> all;
  const auto compare = [&](const char* what, auto value) {
    const size_t before = all.size();
    add_if_different(all, what, of_each(runs, value));
    return all.size() > before;
  };
  const auto from = [&](const char* flag) {
    (void)compare(flag_of(flag).c_str(), [&](const RunSettings& s) { return s.text(flag); });
  };
  if (compare("model id", [](const RunSettings& s) { return s.model.substr(0, 12); })) {
    from("model");
  }
  if (compare("photos and labels", [](const RunSettings& s) { return s.digest.substr(0, 12); })) {
    (void)compare("photos", [](const RunSettings& s) { return s.photos; });
    for (const char* flag : {"DATA", "labels", "db", "task", "collection", "pseudo"}) from(flag);
  }
  (void)compare("version", [](const RunSettings& s) { return s.version; });
  (void)compare("computed by", [](const RunSettings& s) { return s.numerics; });
  return all;
}

std::optional<double> ClassChange::f1() const {
  if (!before || !after || !before->f1() || !after->f1()) return std::nullopt;
  return *after->f1() - *before->f1();
}

std::vector<ClassChange> class_changes(const RunSummary& before, const RunSummary& after) {
  if (before.confusion.empty() || after.confusion.empty()) return {};
  std::map<std::string, ClassChange> by_name;
  for (const auto& [name, quality] : qualities(before)) by_name[name].before = quality;
  for (const auto& [name, quality] : qualities(after)) by_name[name].after = quality;
  std::vector<ClassChange> changes;
  for (auto& [name, change] : by_name) {
    change.name = name;
    changes.push_back(std::move(change));
  }
  std::ranges::stable_sort(changes, {},
                           [](const ClassChange& c) { return c.f1().value_or(HUGE_VAL); });
  return changes;
}

std::string letter_of(size_t run) { return {static_cast<char>('A' + run)}; }

Json comparison_json(std::span<const RunSummary> runs) {
  Json json = {{"runs", Json::array()},
               {"settings", json_of(different_settings(runs))},
               {"inputs", json_of(different_inputs(runs))},
               {"classes", Json::array()}};
  for (size_t i = 0; i < runs.size(); ++i) {
    Json run = to_json(runs[i]);
    run["history"] = epochs_json(runs[i].epochs);
    json["runs"].push_back(std::move(run));
    if (i == 0) continue;
    Json changes = Json::array();
    for (const ClassChange& c : class_changes(runs[0], runs[i])) {
      changes.push_back({{"class", c.name},
                         {"f1_change", json_of(c.f1())},
                         {"before", json_of(c.before)},
                         {"after", json_of(c.after)}});
    }
    json["classes"].push_back({{"run", runs[i].path}, {"changes", std::move(changes)}});
  }
  return json;
}

std::string comparison_html(std::span<const RunSummary> runs) {
  std::string out = page_head("Runs compared");
  out +=
      "<table>\n<tr><th></th><th>run</th><th>name</th><th>state</th><th>top-1</th>"
      "<th>epoch</th></tr>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunSummary& r = runs[i];
    out += "<tr>" + cell_of(letter_of(i)) + cell_of(r.path) + cell_of(r.notes.name) +
           cell_of(name_of(r.state)) +
           cell_of(r.best ? fmt::format("{:.4f}", r.best->val->top1) : "-") +
           cell_of(r.best ? std::to_string(r.best->epoch) : "-") + "</tr>\n";
  }
  out +=
      "</table>\n" + html_of("Settings that differ", different_settings(runs), runs.size()) +
      html_of("Inputs that differ", different_inputs(runs), runs.size()) +
      "<h2>Training</h2>\n<div class=\"charts\">\n" +
      chart_of("training loss", runs, [](const EpochRow& r) { return r.train_loss; }) +
      chart_of("validation loss", runs,
               [](const EpochRow& r) { return r.val ? r.val->loss : double{NAN}; }) +
      chart_of("top-1", runs, [](const EpochRow& r) { return r.val ? r.val->top1 : double{NAN}; }) +
      "</div>\n";
  for (size_t i = 1; i < runs.size(); ++i) out += classes_html(runs[0], runs[i], i);
  return out;
}

}  // namespace ndtrain::ndp
