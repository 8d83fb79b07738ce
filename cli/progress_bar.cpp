#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string_view>

namespace ndtrain::cli {
using namespace ndp;

namespace {

volatile std::sig_atomic_t interrupts = 0;

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{:.1f} s", seconds);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// Of text in UTF-8; wide letters take two, and where nobody knows so do those that may.
size_t columns(std::string_view text) {
  size_t n = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 || byte >= 0xC0) n += byte >= 0xE1 ? 2 : 1;
  }
  return n;
}

// What fits of its end, behind an ellipsis where that is not all.
std::string last_columns(std::string_view text, size_t width) {
  if (columns(text) <= width) return std::string(text);
  while (!text.empty() && columns(text) + 1 > width) {
    do text.remove_prefix(1);
    while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xC0) == 0x80);
  }
  return width == 0 ? "" : "…" + std::string(text);
}

// Less one: some terminals wrap as soon as the last column is filled.
size_t terminal_columns() {
  constexpr size_t kUnknown = 80;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : kUnknown) - 1;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupts = signal; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool was_interrupted() { return interrupts != 0; }

bool take_interrupt() {
  if (interrupts != SIGINT) return false;
  interrupts = 0;
  catch_interrupts();
  return true;
}

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::begin(const std::string& stage, int64_t total, const std::string& unit) {
  stage_ = stage;
  unit_ = unit;
  note_.clear();
  total_ = total;
  done_ = 0;
  active_ = true;
  start_ = Clock::now();
  drawn_ = terminal_ ? start_ - std::chrono::hours(1) : start_;
}

std::string ProgressBar::counts() const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done_) / elapsed : 0;
  std::string s = total_ > 0 ? fmt::format("{}/{} {}", done_, total_, unit_)
                             : fmt::format("{} {}", done_, unit_);
  if (rate > 0) s += fmt::format("  {:.0f}/s", rate);
  const bool left = total_ > done_ && rate > 0;
  return s + "  " +
         (left ? duration(static_cast<double>(total_ - done_) / rate) + " left"
               : duration(elapsed));
}

std::string ProgressBar::whole(bool with_bar) const {
  constexpr int64_t kBar = 24;
  std::string s = stage_;
  if (with_bar && total_ > 0) {
    const auto filled = static_cast<size_t>(kBar * std::min(done_, total_) / total_);
    s += "  [" + std::string(filled, '#') + std::string(kBar - filled, '.') + "]";
  }
  return s + "  " + counts() + (note_.empty() ? "" : "  " + note_);
}

// In `width` columns: the bar gives way first, then the note, then the beginning of the stage's
// name, which may be a path.
std::string ProgressBar::line(size_t width) const {
  for (const bool with_bar : {true, false}) {
    const std::string all = whole(with_bar);
    if (columns(all) <= width) return all;
  }
  const std::string rest = "  " + counts();
  return last_columns(stage_, width - std::min(width, columns(rest))) + last_columns(rest, width);
}

void ProgressBar::draw(const std::string& line) {
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
  drawn_ = Clock::now();
}

void ProgressBar::update(int64_t done, const std::string& note) {
  done_ = done;
  if (!note.empty()) note_ = note;
  const auto every = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
  if (Clock::now() - drawn_ < every) return;
  draw(terminal_ ? line(terminal_columns()) : whole(false));
}

void ProgressBar::end() {
  if (!active_) return;
  active_ = false;
  if (total_ == 0 && done_ == 0) return;
  // Nothing is drawn over this one: it may wrap, so it is whole.
  draw(whole(terminal_ && columns(whole(true)) <= terminal_columns()));
  if (terminal_) std::fputc('\n', stderr);
}

void ProgressBar::say(const std::string& line) {
  if (active_ && terminal_) std::fputs("\r\033[K", stderr);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace ndtrain::cli
