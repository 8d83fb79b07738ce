#include "framework/comm/link_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;

class LinkedTransport final : public Transport {
 public:
  LinkedTransport(std::unique_ptr<Transport> inner, const LinkModel& model, Clock& clock)
      : inner_(std::move(inner)), model_(model), clock_(clock) {
    if (model.latency_s < 0 || model.bytes_per_s < 0) {
      throw Error("LinkModel: latency ", model.latency_s, " s, ", model.bytes_per_s, " bytes/s");
    }
    free_at_.resize(static_cast<size_t>(inner_->ranks()));
    under_way_.resize(free_at_.size());
  }

  int rank() const override { return inner_->rank(); }
  int ranks() const override { return inner_->ranks(); }
  std::string peer(int rank) const override { return inner_->peer(rank); }

  Request send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    check(to);
    return begin(to, {.request = ++requests_, .tag = tag, .bytes = bytes});
  }

  Request send_bulk(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    check(to);
    return begin(to, {.request = ++requests_, .tag = tag, .bytes = bytes, .bulk = true});
  }

  Request receive(int from, uint64_t tag, std::span<std::byte> into) override {
    ours_[inner_->receive(from, tag, into)] = ++requests_;
    return requests_;
  }

  void poll(std::vector<Done>& done, nanoseconds patience) override {
    send_due();
    std::vector<Done> ended;
    inner_->poll(ended, std::clamp(until_due(), nanoseconds(0), patience));
    send_due();
    for (Done& d : ended) done.push_back({taken(d.request), std::move(d.status)});
    std::ranges::move(cancelled_, std::back_inserter(done));
    cancelled_.clear();
  }

  void wake() override { inner_->wake(); }

  void cancel() override {
    inner_->cancel();
    drop_under_way();
  }

  void begin_generation(uint32_t generation, std::span<const int> members) override {
    inner_->begin_generation(generation, members);
    drop_under_way();
  }

  uint32_t later_generation() override { return inner_->later_generation(); }

 private:
  struct Message {
    Request request;
    uint64_t tag;
    std::span<const std::byte> bytes;
    bool bulk = false;
    nanoseconds begins{0}, arrival{0};
  };

  void check(int to) const {
    if (to < 0 || to >= ranks() || to == rank()) {
      throw Error("Transport: rank ", to, " is no peer of rank ", rank(), " of ", ranks());
    }
  }

  // Behind all that has to come before it; what it overtakes is later by as much as it takes.
  Request begin(int to, Message m) {
    const nanoseconds now = clock_.monotonic(), takes = transfer(m.bytes.size());
    nanoseconds& free_at = free_at_[static_cast<size_t>(to)];
    auto& messages = under_way_[static_cast<size_t>(to)];
    auto next = messages.end();
    if (!m.bulk) {
      next = std::ranges::find_if(
          messages, [&](const Message& other) { return other.bulk && other.begins > now; });
    }
    m.begins = next == messages.end() ? std::max(free_at, now) : next->begins;
    m.arrival = m.begins + takes + nanoseconds(std::llround(model_.latency_s * 1e9));
    for (auto later = next; later != messages.end(); ++later) {
      later->begins += takes;
      later->arrival += takes;
    }
    free_at = std::max(free_at, now) + takes;
    messages.insert(next, m);
    return m.request;
  }

  void drop_under_way() {
    for (auto& messages : under_way_) {
      for (const Message& m : messages) {
        cancelled_.push_back({m.request, Status(Code::kCancelled, "cancelled")});
      }
      messages.clear();
    }
    std::ranges::fill(free_at_, nanoseconds(0));
  }

  nanoseconds transfer(size_t bytes) const {
    if (model_.bytes_per_s == 0) return nanoseconds(0);
    return nanoseconds(std::llround(static_cast<double>(bytes) / model_.bytes_per_s * 1e9));
  }

  void send_due() {
    const nanoseconds now = clock_.monotonic();
    for (int to = 0; to < ranks(); ++to) {
      auto& messages = under_way_[static_cast<size_t>(to)];
      for (; !messages.empty() && messages.front().arrival <= now; messages.pop_front()) {
        const Message& m = messages.front();
        ours_[inner_->send(to, m.tag, m.bytes)] = m.request;
      }
    }
  }

  nanoseconds until_due() const {
    nanoseconds first = nanoseconds::max();
    for (const auto& messages : under_way_) {
      if (!messages.empty()) first = std::min(first, messages.front().arrival);
    }
    return first == nanoseconds::max() ? first : first - clock_.monotonic();
  }

  Request taken(Request inner) {
    const auto it = ours_.find(inner);
    const Request ours = it->second;
    ours_.erase(it);
    return ours;
  }

  const std::unique_ptr<Transport> inner_;
  const LinkModel model_;
  Clock& clock_;
  std::vector<nanoseconds> free_at_;            // when the link to a rank is free
  std::vector<std::deque<Message>> under_way_;  // to each rank, in the order of arrival
  std::map<Request, Request> ours_;             // of the inner one's requests
  std::vector<Done> cancelled_;
  Request requests_ = 0;
};

}  // namespace

std::unique_ptr<Transport> over_link(std::unique_ptr<Transport> inner, const LinkModel& model,
                                     Clock& clock) {
  return std::make_unique<LinkedTransport>(std::move(inner), model, clock);
}

}  // namespace ndtrain
