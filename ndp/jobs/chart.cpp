#include "ndp/jobs/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/core/markup.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kPageStyle = R"(
:root { --ink: #1b1b1f; --soft: #6b6b76; --line: #e2e2e8; --a: #2f6f9f; --b: #c8553d; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin-top: 2.2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); font-weight: normal }
th { color: var(--soft) } td:first-child, th:first-child { text-align: left }
.facts td:last-child { text-align: left }
.charts { display: flex; flex-wrap: wrap; gap: 1.5rem } svg { max-width: 100% }
.photos { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 1rem }
figure { margin: 0 } figure img { width: 100%; border-radius: 4px; background: var(--line); aspect-ratio: 1; object-fit: cover }
figcaption { font-size: .8rem; color: var(--soft); overflow-wrap: anywhere } .wrong { color: var(--b) }
)";

}  // namespace

std::string page_head(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
         escaped_markup(title) + "</title>\n<style>" + kPageStyle + "</style>\n<h1>" +
         escaped_markup(title) + "</h1>\n";
}

std::string epoch_chart(const std::string& title, const std::vector<EpochCurve>& curves) {
  constexpr double kW = 440, kH = 240, kLeft = 46, kRight = 12, kTop = 28, kBottom = 30;
  double low = INFINITY, high = -INFINITY;
  size_t n = 0;
  for (const EpochCurve& c : curves) {
    for (double y : c.y) low = std::fmin(low, y), high = std::fmax(high, y);
    n = std::max(n, c.y.size());
  }
  if (n == 0 || low > high) return "";
  if (high - low < 1e-9) high = low + 1e-9 + std::abs(low) * 0.01;
  auto x_of = [&](size_t i) {
    return kLeft + (kW - kLeft - kRight) *
                       (n == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(n - 1));
  };
  auto y_of = [&](double y) { return kTop + (kH - kTop - kBottom) * (high - y) / (high - low); };
  std::string svg = fmt::format(
      R"(<svg viewBox="0 0 {} {}" width="{}" role="img" aria-label="{}" font-size="11" fill="currentColor">)",
      kW, kH, kW, escaped_markup(title));
  svg += fmt::format(R"(<text x="{}" y="14" font-weight="600">{}</text>)", kLeft,
                     escaped_markup(title));
  for (int tick = 0; tick <= 4; ++tick) {
    const double y = low + (high - low) * tick / 4;
    svg += fmt::format(
        R"(<path d="M{} {:.1f}H{}" stroke="#e2e2e8"/><text x="{}" y="{:.1f}" text-anchor="end">{:.3g}</text>)",
        kLeft, y_of(y), kW - kRight, kLeft - 6, y_of(y) + 4, y);
  }
  const size_t step = std::max<size_t>(1, (n + 7) / 8);
  for (size_t i = 0; i < n; i += step) {
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x_of(i),
                       kH - 10, i + 1);
  }
  double legend = kW - kRight;
  for (const EpochCurve& c : curves) {
    std::string points;
    for (size_t i = 0; i < c.y.size(); ++i) {
      if (!std::isnan(c.y[i])) points += fmt::format("{:.1f},{:.1f} ", x_of(i), y_of(c.y[i]));
    }
    svg += fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)",
                       points, c.colour);
    for (size_t i = 0; n == 1 && i < c.y.size() && !std::isnan(c.y[i]); ++i) {
      svg += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", x_of(i),
                         y_of(c.y[i]), c.colour);
    }
    svg += fmt::format(R"(<text x="{:.1f}" y="14" text-anchor="end" fill="{}">{}</text>)", legend,
                       c.colour, escaped_markup(c.name));
    legend -= 14 + 6.5 * static_cast<double>(c.name.size());
  }
  return svg + "</svg>\n";
}

}  // namespace ndtrain::ndp
