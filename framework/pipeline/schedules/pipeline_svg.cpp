#include "framework/pipeline/schedules/pipeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/markup.h"

namespace ndtrain {
namespace {

constexpr double kLeft = 132, kTop = 56, kRight = 84, kBottom = 40, kRow = 30, kPitch = 38;
constexpr double kBoxWidth = 28;                          // of a rather short box
constexpr double kLeastWidth = 480, kMostWidth = 12'000;  // of all the time
constexpr double kLetter = 7;                             // width of one, at most

// The colours of the other reports.
struct Paint {
  const char *fill, *ink;
};
Paint paint_of(PipeOp op) {
  switch (op) {
    case PipeOp::kForward:
      return {"#2f6f9f", "#fff"};
    case PipeOp::kRecompute:
      return {"#a9c6da", "#1b1b1f"};
    case PipeOp::kBackward:
    case PipeOp::kBackwardInput:
      return {"#c8553d", "#fff"};
    case PipeOp::kBackwardWeight:
      return {"#e9b0a2", "#1b1b1f"};
    case PipeOp::kUpdate:
      return {"#6b6b76", "#fff"};
    default:
      return {"#c9c9d2", "#1b1b1f"};
  }
}

bool is_drawn(const PipelinePrediction::Span& s) {
  return s.end_s > s.begin_s && !symbol(s.instruction.op).empty();
}

bool is_pass(PipeOp op) { return is_computing(op) && op != PipeOp::kUpdate; }

struct TimeUnit {
  double per_s;
  const char* name;
};
TimeUnit unit_of(double seconds) {
  if (seconds >= 2) return {1, "s"};
  return seconds >= 2e-3 ? TimeUnit{1e3, "ms"} : TimeUnit{1e6, "µs"};
}

// A round step that makes about `ticks` of a length.
double round_step(double length, double ticks) {
  const double rough = length / ticks, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double m : {1.0, 2.0, 5.0}) {
    if (rough <= m * power) return m * power;
  }
  return 10 * power;
}

class Picture {
 public:
  Picture(const PipeShape& shape, const PipelinePrediction& p)
      : shape_(shape), p_(p), unit_(unit_of(p.seconds)) {
    std::vector<double> lengths;
    for (const PipelinePrediction::Row& row : p.rows) {
      for (const PipelinePrediction::Span& s : row.spans) {
        if (!is_drawn(s) || !is_pass(s.instruction.op)) continue;
        lengths.push_back(s.end_s - s.begin_s);
        versions_ = versions_ || s.instruction.version > 0;
      }
    }
    std::ranges::sort(lengths);
    // Nothing takes time: a picture of empty rows.
    const double seconds = p.seconds > 0 ? p.seconds : 1;
    const double usual_s = lengths.empty() ? seconds : lengths[lengths.size() / 4];
    scale_ = std::clamp(kBoxWidth / usual_s * seconds, kLeastWidth, kMostWidth) / seconds;
  }

  std::string svg(std::string_view title) {
    const double width = kLeft + p_.seconds * scale_ + kRight;
    const double height = kTop + kPitch * static_cast<double>(p_.rows.size()) + kBottom;
    double waiting_s = 0;
    for (const PipelinePrediction::Row& row : p_.rows) waiting_s += row.waiting_s;
    fmt::format_to(
        std::back_inserter(out_),
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" font-family="system-ui, sans-serif" font-size="12" fill="#1b1b1f">)"
        "\n"
        R"(<rect width="100%" height="100%" fill="#fff"/>)"
        "\n"
        R"(<text x="16" y="24" font-size="15" font-weight="600">{2}</text>)"
        R"(<text x="16" y="42" fill="#6b6b76">{3}; ranks wait {4} of it</text>)"
        "\n",
        width, height, escaped_markup(title), time(p_.seconds),
        share(waiting_s / static_cast<double>(p_.rows.size())));
    axis();
    for (size_t r = 0; r < p_.rows.size(); ++r) row(p_.rows[r], top_of(r));
    return out_ + "</svg>\n";
  }

 private:
  static double top_of(size_t row) { return kTop + kPitch * static_cast<double>(row); }
  double x_of(double at_s) const { return kLeft + at_s * scale_; }
  std::string time(double seconds) const {
    return fmt::format("{:.4g} {}", seconds * unit_.per_s, unit_.name);
  }
  std::string share(double seconds) const {
    return fmt::format("{:.0f} %", p_.seconds > 0 ? 100 * seconds / p_.seconds : 0);
  }

  void axis() {
    if (p_.seconds <= 0) return;
    const double bottom = top_of(p_.rows.size());
    const double step = round_step(p_.seconds * unit_.per_s, p_.seconds * scale_ / 90);
    for (int tick = 0; tick * step <= p_.seconds * unit_.per_s; ++tick) {
      const double x = x_of(tick * step / unit_.per_s);
      fmt::format_to(
          std::back_inserter(out_),
          R"(<path d="M{0:.1f} {1}V{2}" stroke="#e2e2e8"/><text x="{0:.1f}" y="{3}" text-anchor="middle" fill="#6b6b76">{4:.4g}{5}</text>)"
          "\n",
          x, kTop - 4, bottom, bottom + 16, tick * step,
          tick == 0 ? std::string(" ") + unit_.name : "");
    }
  }

  std::string name(const PipelinePrediction::Row& row) const {
    std::string text = fmt::format("stage {}", row.rank);
    if (shape_.chunks > 1) {
      text = fmt::format("stages {}", row.rank);
      for (int s = row.rank + shape_.ranks(); s < shape_.stages; s += shape_.ranks()) {
        text += fmt::format(", {}", s);
      }
      if (text.size() > 17) text = fmt::format("rank {}", row.rank);
    }
    const auto same = [&](const PipelinePrediction::Row& r) { return r.rank == row.rank; };
    if (std::ranges::count_if(p_.rows, same) > 1) text += fmt::format(" · {}", row.replica);
    return text;
  }

  void row(const PipelinePrediction::Row& row, double top) {
    fmt::format_to(
        std::back_inserter(out_),
        R"(<text x="{}" y="{}" text-anchor="end">{}</text><rect x="{}" y="{}" width="{:.1f}" height="{}" rx="3" fill="#f4f4f7"/>)"
        R"(<text x="{:.1f}" y="{}" fill="#6b6b76">waits {}</text>)"
        "\n",
        kLeft - 10, top + 19, name(row), kLeft, top, p_.seconds * scale_, kRow,
        x_of(p_.seconds) + 8, top + 19, share(row.waiting_s));
    for (const PipelinePrediction::Span& s : row.spans) {
      if (is_drawn(s)) box(s, top);
    }
  }

  void box(const PipelinePrediction::Span& s, double top) {
    const Instruction& i = s.instruction;
    const auto [fill, ink] = paint_of(i.op);
    const double x = x_of(s.begin_s), width = (s.end_s - s.begin_s) * scale_;
    // Stages of one rank are told apart by how deep the colour is.
    const double chunk = static_cast<double>(i.stage / shape_.ranks());
    const double opacity = 1 - 0.35 * chunk / std::max(1, shape_.chunks - 1);
    fmt::format_to(
        std::back_inserter(out_),
        R"(<g><title>{}, version {}: {} to {}</title><rect x="{:.2f}" y="{}" width="{:.2f}" height="{}" rx="2" fill="{}"{} stroke="#fff" stroke-width="{}"/>)",
        describe(i), i.version, time(s.begin_s), time(s.end_s), x, top, width, kRow, fill,
        opacity < 1 ? fmt::format(R"( fill-opacity="{:.2f}")", opacity) : "", width > 4 ? 1 : 0);
    const bool of_version = i.op == PipeOp::kUpdate || i.op == PipeOp::kGradSync;
    const std::string text =
        fmt::format("{}{}", symbol(i.op), of_version ? i.version : i.micro_batch);
    if (width >= kLetter * static_cast<double>(text.size()) + 2) {
      const bool two_lines = versions_ && !of_version;
      write(text, x + width / 2, top + (two_lines ? 14 : 19), 12, ink);
      if (two_lines) {
        write(fmt::format("v{}", i.version), x + width / 2, top + 26, 9, ink);
      }
    }
    out_ += "</g>\n";
  }

  void write(const std::string& text, double x, double y, int size, const char* ink) {
    fmt::format_to(
        std::back_inserter(out_),
        R"(<text x="{:.2f}" y="{}" font-size="{}" text-anchor="middle" fill="{}">{}</text>)", x, y,
        size, ink, text);
  }

  const PipeShape& shape_;
  const PipelinePrediction& p_;
  const TimeUnit unit_;
  double scale_ = 1;  // pixels of a second
  bool versions_ = false;
  std::string out_;
};

}  // namespace

std::string pipeline_svg(const PipeShape& shape, const PipelinePrediction& prediction,
                         std::string_view title) {
  return Picture(shape, prediction).svg(title);
}

}  // namespace ndtrain
