#include "framework/comm/regroup_by_messages.h"

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace ndtrain {
namespace {

constexpr uint64_t kTag = 0;  // the generation has no other messages
constexpr std::chrono::hours kUntilWoken{1};

class Talk {
 public:
  Talk(Transport& transport, Regrouping regrouping)
      : transport_(transport), regrouping_(std::move(regrouping)) {}

  Regrouping::Agreement run(const std::stop_token& stop) {
    for (const int peer : regrouping_.peers()) listen(peer);
    carry_out(regrouping_.begin());
    while (!agreed_ || !sent_.empty()) {
      if (stop.stop_requested()) throw RankLost("this rank leaves", {}, true);
      std::vector<Transport::Done> done;
      transport_.poll(done, kUntilWoken);
      for (const Transport::Done& d : done) take(d);
    }
    return *agreed_;
  }

 private:
  using Words = std::array<uint64_t, 3>;

  void listen(int peer) {
    Words& words = words_.emplace_back();
    const auto request = transport_.receive(peer, kTag, std::as_writable_bytes(std::span(words)));
    heard_[request] = {peer, &words};
  }

  void carry_out(const Regrouping::Actions& actions) {
    if (actions.fail) throw RankLost(*actions.fail, {regrouping_.leader()});
    for (const auto& [to, m] : actions.send) {
      const Words& words = words_.emplace_back(
          Words{static_cast<uint64_t>(m.kind), static_cast<uint64_t>(m.step), m.ranks});
      sent_[transport_.send(to, kTag, std::as_bytes(std::span(words)))] = to;
    }
    if (actions.agreed) agreed_ = actions.agreed;
  }

  void take(const Transport::Done& done) {
    if (const auto sent = sent_.extract(done.request); !sent.empty()) {
      if (!done.status.ok()) carry_out(regrouping_.gone(sent.mapped(), done.status.message()));
      return;
    }
    const auto heard = heard_.extract(done.request);
    if (heard.empty()) return;  // of the generation before
    const auto [peer, words] = heard.mapped();
    if (!done.status.ok()) return carry_out(regrouping_.gone(peer, done.status.message()));
    const auto& [kind, step, ranks] = *words;
    listen(peer);
    carry_out(regrouping_.heard(peer, {.kind = static_cast<Regrouping::Message::Kind>(kind),
                                       .step = static_cast<int64_t>(step),
                                       .ranks = ranks}));
  }

  Transport& transport_;
  Regrouping regrouping_;
  std::deque<Words> words_;  // of all messages
  std::map<Transport::Request, int> sent_;
  std::map<Transport::Request, std::pair<int, Words*>> heard_;
  std::optional<Regrouping::Agreement> agreed_;
};

}  // namespace

Regrouping::Agreement regroup_by_messages(Transport& transport, uint32_t talk,
                                          Regrouping regrouping, const std::stop_token& stop) {
  transport.begin_generation(talk, regrouping.members());
  Talk messages(transport, std::move(regrouping));
  try {
    Regrouping::Agreement agreed = messages.run(stop);
    transport.cancel();  // the memory of what is still awaited goes
    return agreed;
  } catch (...) {
    transport.cancel();
    throw;
  }
}

}  // namespace ndtrain
