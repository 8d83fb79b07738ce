#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

namespace ndtrain::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0;

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{:.1f} s", seconds);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupts = 1; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool was_interrupted() { return interrupts != 0; }

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

std::string ProgressBar::line() const {
  constexpr int kWidth = 24;
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done_) / elapsed : 0;
  std::string s = stage_ + "  ";
  if (total_ > 0) {
    const auto filled = static_cast<int>(kWidth * std::min(done_, total_) / total_);
    if (terminal_) s += "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]  ";
    s += fmt::format("{}/{} {}", done_, total_, unit_);
  } else {
    s += fmt::format("{} {}", done_, unit_);
  }
  if (rate > 0) s += fmt::format("  {:.0f}/s", rate);
  if (total_ > done_ && rate > 0) {
    s += "  " + duration(static_cast<double>(total_ - done_) / rate) + " left";
  } else {
    s += "  " + duration(elapsed);
  }
  return note_.empty() ? s : s + "  " + note_;
}

void ProgressBar::draw() {
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line().c_str());
  } else {
    std::fprintf(stderr, "%s\n", line().c_str());
  }
  std::fflush(stderr);
  drawn_ = Clock::now();
}

void ProgressBar::update(int64_t done, const std::string& note) {
  done_ = done;
  if (!note.empty()) note_ = note;
  const auto every = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
  if (Clock::now() - drawn_ >= every) draw();
}

void ProgressBar::end() {
  if (!active_) return;
  active_ = false;
  if (total_ == 0 && done_ == 0) return;
  draw();
  if (terminal_) std::fputc('\n', stderr);
}

void ProgressBar::say(const std::string& line) {
  if (active_ && terminal_) std::fputs("\r\033[K", stderr);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace ndtrain::cli
