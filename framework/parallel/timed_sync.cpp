#include "framework/parallel/timed_sync.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ndtrain {
namespace {

using Seconds = std::chrono::duration<double>;

double median(std::vector<double> of) {
  if (of.empty()) return 0;
  const auto middle = of.begin() + std::ssize(of) / 2;
  std::ranges::nth_element(of, middle);
  return *middle;
}

double sum(const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); }

}  // namespace

double StepTimes::passes_s() const { return sum(forward_s) + sum(backward_s); }
double StepTimes::computing_s() const { return passes_s() + optimizer_s; }

TimedSync::TimedSync(std::unique_ptr<GradientSync> inner, std::vector<std::string> slots,
                     std::function<double()> waited_s, Clock& clock)
    : inner_(std::move(inner)),
      slots_(std::move(slots)),
      waited_s_(std::move(waited_s)),
      clock_(clock) {}

void TimedSync::add(double seconds) {
  if (open_) (owner_.backward ? now_.backward_s : now_.forward_s)[owner_.slot] += seconds;
}

void TimedSync::pass() {
  const Time now = clock_.monotonic();
  add(Seconds(now - last_).count());
  if (open_ && keeps_spans_ && now > last_) {
    const std::string what = owner_.backward ? "backward " : "forward ";
    spans_.push_back({what + slots_[owner_.slot], last_, now});
  }
  last_ = now;
}

// `updates`: what is not spent waiting there is the optimizer's, else the owner's.
template <typename Call>
void TimedSync::pass_on(bool updates, const Call& call) {
  pass();
  const double waited = waited_s_();
  call();
  const double waits_s = waited_s_() - waited;
  const Time now = clock_.monotonic();
  const double seconds = std::max(0.0, Seconds(now - last_).count() - waits_s);
  now_.waited_s += waits_s;
  if (updates) {
    now_.optimizer_s += seconds;
  } else {
    add(seconds);
  }
  if (keeps_spans_) {
    const Time had_waited = last_ + std::chrono::duration_cast<Time>(Seconds(waits_s));
    if (waits_s > 0) spans_.push_back({"wait", last_, had_waited});
    if (updates && now > had_waited) spans_.push_back({"update", had_waited, now});
  }
  last_ = now;
}

void TimedSync::end_step(double seconds) {
  if (!std::exchange(open_, false)) return;
  now_.step_s = seconds;
  if (!now_.whole || most_ == 0) return;
  if (warmup_ > 0) {
    --warmup_;
  } else if (std::ssize(steps_) < most_) {
    steps_.push_back(std::move(now_));
  }
}

void TimedSync::begin(const HyperParameters& hyper) {
  pass();
  end_step(Seconds(last_ - begun_).count());
  open_ = true;
  begun_ = last_;
  now_ = {.forward_s = std::vector<double>(slots_.size()),
          .backward_s = std::vector<double>(slots_.size())};
  read_.assign(slots_.size(), false);
  owner_ = {false, front()};
  pass_on(false, [&] { inner_->begin(hyper); });
}

// Of several shards the first one reads what is then there; what follows until the loss of the last
// one is time of the slot that was read last.
void TimedSync::before_read(size_t slot, ndt_stream* stream) {
  if (read_.empty() || read_[slot]) return inner_->before_read(slot, stream);
  read_[slot] = true;
  pass_on(true, [&] { inner_->before_read(slot, stream); });
  owner_ = {false, slot};
}

void TimedSync::forward_done() {
  pass();
  owner_ = {true, 0};
  now_.whole = true;
  inner_->forward_done();
}

void TimedSync::gradient_ready(size_t slot, ndt_stream* stream) {
  owner_ = {true, slot};
  pass_on(false, [&] { inner_->gradient_ready(slot, stream); });
  owner_ = {false, front()};
}

void TimedSync::add_up_statistics() {
  pass_on(false, [&] { inner_->add_up_statistics(); });
}

void TimedSync::share(std::span<ShardReport> reports) {
  pass_on(false, [&] { inner_->share(reports); });
}

void TimedSync::backward_done() {
  pass_on(true, [&] { inner_->backward_done(); });
}

void TimedSync::skip() {
  pass_on(true, [&] { inner_->skip(); });
}

void TimedSync::flush() {
  pass();
  end_step(0);
  inner_->flush();
  ++flushes_;
  last_ = clock_.monotonic();
}

void TimedSync::restart(int warmup, int most) {
  steps_.clear();
  warmup_ = warmup;
  most_ = most;
  open_ = false;
}

StepTimes TimedSync::times() const {
  const auto median_of = [&](const auto& value) {
    std::vector<double> all;
    for (const Step& s : steps_) all.push_back(value(s));
    return median(std::move(all));
  };
  StepTimes t{.steps = std::ssize(steps_)};
  for (size_t i = 0; i < slots_.size(); ++i) {
    t.forward_s.push_back(median_of([i](const Step& s) { return s.forward_s[i]; }));
    t.backward_s.push_back(median_of([i](const Step& s) { return s.backward_s[i]; }));
  }
  t.optimizer_s = median_of([](const Step& s) { return s.optimizer_s; });
  t.exposed_s = median_of([](const Step& s) { return s.waited_s; });
  std::vector<double> follow;
  for (const Step& s : steps_) {
    if (s.step_s > 0) follow.push_back(s.step_s);
  }
  t.step_s = median(std::move(follow));
  return t;
}

}  // namespace ndtrain
