#include "ndp/jobs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "framework/core/csv.h"
#include "framework/core/markup.h"
#include "framework/train/class_quality.h"
#include "ndp/jobs/chart.h"
#include "ndp/jobs/thumbnail.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kWorstPhotos = 24;
constexpr size_t kMatrixClasses = 50;  // beyond this only the most confused pairs are listed,
constexpr size_t kWorstClasses = 30;   // and classes

std::string charts(const std::vector<EpochRow>& epochs) {
  // NaN where an epoch was not followed by a validation.
  auto column = [&](auto value) {
    std::vector<double> y;
    for (const EpochRow& r : epochs) y.push_back(value(r));
    return y;
  };
  auto validation = [&](double EpochRow::Validation::*member) {
    return column([&](const EpochRow& r) { return r.val ? (*r.val).*member : NAN; });
  };
  return "<div class=\"charts\">\n" +
         epoch_chart("loss", {{"validation", "#c8553d", validation(&EpochRow::Validation::loss)},
                              {"training", "#2f6f9f",
                               column([](const EpochRow& r) { return r.train_loss; })}}) +
         epoch_chart("top-1", {{"validation", "#c8553d", validation(&EpochRow::Validation::top1)},
                               {"training", "#2f6f9f",
                                column([](const EpochRow& r) { return r.train_top1; })}}) +
         "</div>\n";
}

std::string cell(std::optional<double> share) {
  return share ? fmt::format("<td>{:.3f}</td>", *share) : "<td></td>";
}

constexpr const char* kQualities = "<th>precision</th><th>recall</th><th>F1</th>";

std::string cells(const ClassQuality& c) {
  return cell(c.precision()) + cell(c.recall()) + cell(c.f1());
}

std::string matrix(const ReportInput& r) {
  const size_t n = r.classes.size();
  const std::vector<ClassQuality> quality = class_quality(r.confusion);
  std::string out = "<table>\n<tr><th>truth \\ predicted</th>";
  for (const std::string& name : r.classes) out += "<th>" + escaped_markup(name) + "</th>";
  out += std::string(kQualities) + "</tr>\n";
  for (size_t i = 0; i < n; ++i) {
    const int64_t row = quality[i].rows;
    out += "<tr><td>" + escaped_markup(r.classes[i]) + "</td>";
    for (size_t j = 0; j < n; ++j) {
      const double share =
          row > 0 ? static_cast<double>(r.confusion[i * n + j]) / static_cast<double>(row) : 0;
      const char* rgb = i == j ? "47,111,159" : "200,85,61";
      out += fmt::format("<td style=\"background:rgba({},{:.2f})\">{}</td>", rgb, share * 0.7,
                         r.confusion[i * n + j]);
    }
    out += cells(quality[i]) + "</tr>\n";
  }
  return out + "</table>\n";
}

// Of too many classes for a matrix.
std::string worst_classes(const ReportInput& r) {
  const std::vector<ClassQuality> quality = class_quality(r.confusion);
  std::vector<size_t> order;
  for (size_t i = 0; i < quality.size(); ++i) {
    if (quality[i].rows > 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return *quality[i].f1(); });
  order.resize(std::min(order.size(), kWorstClasses));
  std::string out =
      std::string("<table>\n<tr><th>class</th><th>photos</th>") + kQualities + "</tr>\n";
  for (const size_t i : order) {
    out += fmt::format("<tr><td>{}</td><td>{}</td>{}</tr>\n", escaped_markup(r.classes[i]),
                       quality[i].rows, cells(quality[i]));
  }
  return out + "</table>\n";
}

std::string confused_pairs(const ReportInput& r) {
  const size_t n = r.classes.size();
  std::vector<size_t> cells;
  for (size_t i = 0; i < n * n; ++i) {
    if (i / n != i % n && r.confusion[i] > 0) cells.push_back(i);
  }
  std::ranges::stable_sort(cells,
                           [&](size_t a, size_t b) { return r.confusion[a] > r.confusion[b]; });
  std::string out = "<table>\n<tr><th>truth</th><th>predicted</th><th>photos</th></tr>\n";
  for (size_t k = 0; k < std::min<size_t>(cells.size(), 30); ++k) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                       escaped_markup(r.classes[cells[k] / n]),
                       escaped_markup(r.classes[cells[k] % n]), r.confusion[cells[k]]);
  }
  return out + "</table>\n";
}

std::string worst_photos(Fs& fs, const ReportInput& r) {
  std::vector<const ReportPhoto*> photos;
  for (const ReportPhoto& p : r.photos) photos.push_back(&p);
  std::ranges::stable_sort(photos, {}, [](const ReportPhoto* p) { return p->true_probability; });
  photos.resize(std::min(photos.size(), kWorstPhotos));
  auto name = [&](int64_t i) {
    return static_cast<size_t>(i) < r.classes.size()
               ? escaped_markup(r.classes[static_cast<size_t>(i)])
               : std::to_string(i);
  };
  std::string out = "<div class=\"photos\">\n";
  for (const ReportPhoto* p : photos) {
    out += "<figure>";
    if (const std::string uri = thumbnail_uri(fs, p->path); !uri.empty()) {
      out += "<img alt=\"\" src=\"" + uri + "\">";
    }
    out += fmt::format(
        "<figcaption>{}, <span{}>taken for {}</span><br>p = {:.3f}<br>{}</figcaption></figure>\n",
        name(p->label), p->label == p->predicted ? "" : " class=\"wrong\"", name(p->predicted),
        p->true_probability, escaped_markup(name_of_path(p->path)));
  }
  return out + "</div>\n";
}

}  // namespace

std::string report_html(Fs& fs, const ReportInput& r) {
  std::string out = page_head(r.title) + "<table class=\"facts\">\n";
  for (const auto& [key, value] : r.facts) {
    out += "<tr><td>" + escaped_markup(key) + "</td><td>" + escaped_markup(value) + "</td></tr>\n";
  }
  out += "</table>\n<h2>Training</h2>\n" + charts(r.epochs);
  out += fmt::format("<p>The weights are those of epoch {}.</p>\n", r.best_epoch);
  out += "<h2>Confusion</h2>\n";
  if (r.classes.size() <= kMatrixClasses) {
    out += matrix(r);
  } else {
    out += confused_pairs(r) + "<h2>Classes with the least F1</h2>\n" + worst_classes(r);
  }
  if (r.photos.empty()) return out;  // they are elsewhere
  return out +
         "<h2>The worst photos</h2>\n<p>Validation photos whose true class got the least "
         "probability.</p>\n" +
         worst_photos(fs, r);
}

std::string macro_f1_text(const std::vector<int64_t>& confusion) {
  const std::optional<double> f1 = macro_f1(class_quality(confusion));
  return f1 ? fmt::format("{:.4f}", *f1) : "-";
}

std::string confusion_csv(const std::vector<std::string>& classes,
                          const std::vector<int64_t>& confusion) {
  std::vector<std::string> header = {"truth"};
  header.insert(header.end(), classes.begin(), classes.end());
  std::string out = csv_row(header);
  for (size_t i = 0; i < classes.size(); ++i) {
    std::vector<std::string> row = {classes[i]};
    for (size_t j = 0; j < classes.size(); ++j)
      row.push_back(std::to_string(confusion[i * classes.size() + j]));
    out += csv_row(row);
  }
  return out;
}

}  // namespace ndtrain::ndp
