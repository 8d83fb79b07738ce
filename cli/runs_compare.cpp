// `ndtrain runs compare`: several trainings beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/text_table.h"
#include "cli/verb.h"
#include "framework/core/publish.h"
#include "framework/core/text.h"
#include "ndp/jobs/run_compare.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

using Cells = std::vector<std::vector<std::string>>;

constexpr size_t kLineWidth = 40;  // points of a curve on one line
constexpr size_t kEpochRows = 20;  // of the table

struct EpochFigure {
  const char* name;
  double (*of)(const EpochRow& row);  // NaN where there is none
};

constexpr EpochFigure kFigures[] = {
    {"train loss", [](const EpochRow& r) { return r.train_loss; }},
    {"val loss", [](const EpochRow& r) { return r.val ? r.val->loss : double{NAN}; }},
    {"top-1", [](const EpochRow& r) { return r.val ? r.val->top1 : double{NAN}; }}};

std::string number_text(double x) { return std::isnan(x) ? "-" : fmt::format("{:.4f}", x); }

// So many of `count`, evenly spread, the last among them.
std::vector<size_t> spread(size_t count, size_t most) {
  std::vector<size_t> at;
  const size_t n = std::min(count, most);
  for (size_t i = 0; i < n; ++i) at.push_back((i + 1) * count / n - 1);
  return at;
}

// Bars from the lowest of all runs to the highest; a space where there is none.
std::string sparkline(const std::vector<double>& y, double low, double high) {
  constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const size_t i : spread(y.size(), kLineWidth)) {
    const double share = high > low ? (y[i] - low) / (high - low) : 0.5;
    line += std::isnan(y[i]) ? " " : kBars[std::clamp(static_cast<int>(share * 8), 0, 7)];
  }
  return line;
}

std::string curves(std::span<const RunSummary> runs) {
  Cells cells = {{"", "run", "", "first", "last", "lowest", "highest"}};
  for (const EpochFigure& figure : kFigures) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    std::vector<std::vector<double>> columns;
    for (const RunSummary& run : runs) {
      std::vector<double>& y = columns.emplace_back();
      for (const EpochRow& row : run.epochs) y.push_back(figure.of(row));
      for (const double v : y) low = std::fmin(low, v), high = std::fmax(high, v);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::vector<double>& y = columns[i];
      double least = NAN, most = NAN;
      for (const double v : y) least = std::fmin(least, v), most = std::fmax(most, v);
      cells.push_back({i == 0 ? figure.name : "", letter_of(i), sparkline(y, low, high),
                       number_text(y.empty() ? NAN : y.front()),
                       number_text(y.empty() ? NAN : y.back()), number_text(least),
                       number_text(most)});
    }
  }
  return text_table(std::move(cells));
}

std::string epochs_table(std::span<const RunSummary> runs) {
  size_t epochs = 0;
  for (const RunSummary& run : runs) epochs = std::max(epochs, run.epochs.size());
  Cells cells = {{"epoch"}};
  for (const EpochFigure& figure : kFigures) {
    for (size_t i = 0; i < runs.size(); ++i) {
      cells[0].push_back(std::string(figure.name) + " " + letter_of(i));
    }
  }
  for (const size_t at : spread(epochs, kEpochRows)) {
    std::vector<std::string>& row = cells.emplace_back();
    row.push_back(std::to_string(at + 1));
    for (const EpochFigure& figure : kFigures) {
      for (const RunSummary& run : runs) {
        row.push_back(number_text(at < run.epochs.size() ? figure.of(run.epochs[at]) : NAN));
      }
    }
  }
  return text_table(std::move(cells));
}

std::string differences(const char* heading, const char* none,
                        const std::vector<RunDifference>& all, size_t runs) {
  if (all.empty()) return std::string(none) + "\n";
  Cells cells = {{heading}};
  for (size_t i = 0; i < runs; ++i) cells[0].push_back(letter_of(i));
  for (const RunDifference& d : all) {
    std::vector<std::string>& row = cells.emplace_back();
    row.push_back(d.what);
    for (const std::string& v : d.values) row.push_back(v.empty() ? "-" : v);
  }
  return text_table(std::move(cells));
}

std::string change_text(std::optional<double> before, std::optional<double> after) {
  const auto text = [](std::optional<double> x) { return x ? fmt::format("{:.3f}", *x) : "-"; };
  return text(before) + " -> " + text(after);
}

std::string classes_text(const RunSummary& before, const RunSummary& after, size_t i) {
  const std::string letter = letter_of(i);
  std::string out;
  for (const auto& [run, name] : {std::pair(&before, letter_of(0)), std::pair(&after, letter)}) {
    if (run->confusion.empty()) {
      out += fmt::format("classes: {} has no confusion.csv yet\n", name);
    }
  }
  if (!out.empty()) return out;
  Cells cells = {{"class", "precision", "recall", "F1", "change"}};
  std::string only[2];
  for (const ClassChange& c : class_changes(before, after)) {
    if (!c.before || !c.after) {
      std::string& names = only[c.before ? 0 : 1];
      names += (names.empty() ? "" : ", ") + printable(c.name);
      continue;
    }
    cells.push_back({c.name, change_text(c.before->precision(), c.after->precision()),
                     change_text(c.before->recall(), c.after->recall()),
                     change_text(c.before->f1(), c.after->f1()),
                     c.f1() ? fmt::format("{:+.3f}", *c.f1()) : "-"});
  }
  out = fmt::format("classes of {} against A, the largest fall of F1 first\n", letter) +
        text_table(std::move(cells));
  if (!only[0].empty()) out += "only in A: " + only[0] + "\n";
  if (!only[1].empty()) out += fmt::format("only in {}: {}\n", letter, only[1]);
  return out;
}

std::string compared(std::span<const RunSummary> runs) {
  Cells cells = {{"", "run", "name", "model", "epochs", "state", "top-1", "epoch"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunSummary& r = runs[i];
    cells.push_back(
        {letter_of(i), r.path, r.notes.name, r.model(),
         fmt::format("{}/{}", r.epochs.empty() ? 0 : r.epochs.back().epoch, r.epochs_asked),
         name_of(r.state), r.best ? number_text(r.best->val->top1) : "-",
         r.best ? std::to_string(r.best->epoch) : "-"});
  }
  std::string out = text_table(std::move(cells)) + "\n";
  out += differences("setting", "the same settings", different_settings(runs), runs.size()) + "\n";
  out += differences("input", "the same model, photos and labels", different_inputs(runs),
                     runs.size()) +
         "\n";
  out += curves(runs) + "\n" + epochs_table(runs);
  for (size_t i = 1; i < runs.size(); ++i) out += "\n" + classes_text(runs[0], runs[i], i);
  return out;
}

}  // namespace

void declare_runs_compare(ArgsSpec& args) {
  args.positionals("RUN", "the directories of two or more; all are compared with the first");
  args.flag("html", "also write a page with the curves", "FILE");
}
int run_runs_compare(Context& context, const Args& args) {
  const std::vector<std::string> paths = args.list("RUN");
  if (paths.size() < 2) throw UsageError("RUN: give two or more; ndtrain runs ls lists them");
  if (paths.size() > kComparedRuns) {
    throw UsageError(fmt::format("{} runs: at most {}", paths.size(), kComparedRuns));
  }
  std::vector<RunSummary> runs;
  for (const std::string& path : paths) {
    runs.push_back(read_run(context.fs(), path).or_throw());
  }
  if (args.has("html")) {
    publish(context.fs(), args.text("html"), comparison_html(runs)).or_throw();
  }
  context.print(comparison_json(runs), compared(runs));
  return kOk;
}

}  // namespace ndtrain::cli
