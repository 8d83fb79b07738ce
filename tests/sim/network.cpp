#include "tests/sim/network.h"

#include <algorithm>

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr size_t kRemembered = 8;  // old messages of each store and direction

template <typename Message>
void remember(std::deque<Message>& old, const Message& message) {
  old.push_back(message);
  if (old.size() > kRemembered) old.pop_front();
}

}  // namespace

class Network::Client final : public LinkClient {
 public:
  Client(Network& network, LinkPtr link) : network_(network), link_(std::move(link)) {}
  ~Client() override { network_.hang_up(link_, false); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(wire::FromStore message) override { network_.from_store(link_, std::move(message)); }
  void close() override { network_.hang_up(link_, true); }

 private:
  Network& network_;
  LinkPtr link_;
};

class Network::Server final : public LinkServer {
 public:
  explicit Server(Network& network) : network_(network) {}

  std::string address() const override { return "simulated"; }
  void send(LinkId link, wire::ToStore message) override {
    network_.from_tuner(link, std::move(message));
  }
  void close(LinkId link) override { network_.closed_by_tuner(link); }

 private:
  Network& network_;
};

Network::Network(Timeline& timeline, uint64_t seed, Watch& watch, Bug bug)
    : timeline_(timeline), rng_(seed, "network"), watch_(watch), bug_(bug) {}

// What is under way holds its link, which holds what is under way.
Network::~Network() {
  for (const LinkPtr& link : links_) {
    link->up->drop();
    link->down->drop();
  }
}

std::unique_ptr<LinkServer> Network::server() {
  ++tuner_life_;
  return std::make_unique<Server>(*this);
}

std::unique_ptr<LinkClient> Network::dial(size_t store, LinkId id) {
  const auto link = std::make_shared<Link>(Link{.store = store,
                                                .client = id,
                                                .store_life = ends_.stores[store]->life(),
                                                .up = std::make_shared<Pipe>(timeline_),
                                                .down = std::make_shared<Pipe>(timeline_)});
  std::erase_if(links_, [](const LinkPtr& l) {
    return !l->client_open && !l->server_open && l->up->under_way() + l->down->under_way() == 0;
  });
  links_.push_back(link);
  timeline_.after(a_moment(), [this, link] { reach(link); });
  return std::make_unique<Client>(*this, link);
}

bool Network::reachable(const Link& link) const {
  return (link.wrong || ends_.tuner->up()) && timeline_.now() >= parted_until_[link.store];
}

void Network::reach(const LinkPtr& link) {
  if (!link->client_open) return;
  link->wrong = timeline_.now() < wrong_until_[link->store];
  if (!reachable(*link)) {
    return link->down->put(a_moment(), [this, link] { tell_store(link, LinkClosed{"no answer"}); });
  }
  link->server = ++ids_;
  link->tuner_life = tuner_life_;
  link->server_open = true;
  tell_tuner(link, LinkOpened{"host of " + Collection::name_of(link->store), ""});
  link->down->put(a_moment(), [this, link] { tell_store(link, LinkOpened{"the Tuner", ""}); });
}

void Network::tell_tuner(const LinkPtr& link,
                         std::variant<LinkOpened, wire::FromStore, LinkClosed> what) {
  if (link->wrong) {
    if (std::holds_alternative<LinkClosed>(what)) link->server_open = false;
    if (const auto* m = std::get_if<wire::FromStore>(&what)) tell_wrong_tuner(link, *m);
    return;
  }
  if (!link->server_open || !ends_.tuner->up() || link->tuner_life != tuner_life_) return;
  if (std::holds_alternative<LinkClosed>(what)) link->server_open = false;
  ends_.to_tuner({link->server, std::move(what)});
}

// A store that has seen the right one says who it is, and nothing else.
void Network::tell_wrong_tuner(const LinkPtr& link, const wire::FromStore& message) {
  if (!link->server_open) return;
  if (message.has_hello()) {
    link->other = make_wrong_tuner(link->store);
  } else {
    watch_.violation("store " + Collection::name_of(link->store) + " follows a wrong Tuner");
  }
  for (wire::ToStore& m : link->other->answer(timeline_.now(), message)) {
    link->down->put(a_moment(), [this, link, m = std::move(m)] { tell_store(link, m); });
  }
}

std::unique_ptr<WrongTuner> Network::make_wrong_tuner(size_t store) {
  TunerIdentity me = known_[store];
  if (!twin_[store]) me.term = 1 + rng_.next_below(me.term - 1);
  me.start = rng_.next_bits();
  return std::make_unique<WrongTuner>(me, rng_.next_below(2) == 0, timeline_.now());
}

void Network::tell_store(const LinkPtr& link,
                         std::variant<LinkOpened, wire::ToStore, LinkClosed> what) {
  const Machine& store = *ends_.stores[link->store];
  if (!link->client_open || !store.up() || link->store_life != store.life()) return;
  if (std::holds_alternative<LinkClosed>(what)) link->client_open = false;
  if (auto* m = std::get_if<wire::ToStore>(&what); m && m->has_welcome()) {
    link->greeted = true;
    if (bug_ == Bug::kStartUnsaid) m->mutable_welcome()->clear_start();
  }
  if (auto* m = std::get_if<wire::ToStore>(&what);
      m && m->has_publish() && bug_ == Bug::kPublishedToDefaultTask) {
    m->mutable_publish()->clear_task();
  }
  ends_.to_store(link->store, {link->client, std::move(what)});
}

void Network::from_store(const LinkPtr& link, wire::FromStore message) {
  if (!link->client_open || !ends_.stores[link->store]->alive()) return;
  if (bug_ == Bug::kAnswersUnmarked) message.clear_answers();
  remember(up_[link->store], message);
  if (message.has_hello() && message.hello().newest_term() > known_[link->store].term) {
    known_[link->store] = {message.hello().tuner(), message.hello().newest_term(), 0};
  }
  watch_.failures += message.has_model_wanted() && !message.model_wanted().failure().empty();
  if (message.has_rows()) {
    wire::Rows& rows = *message.mutable_rows();
    watch_.sends(link->server, rows);
    if (!rows.rows().empty() && std::exchange(corrupt_[link->store], false)) {
      char& byte = (*rows.mutable_rows())[rng_.next_below(rows.rows().size())];
      byte = static_cast<char>(byte ^ 1);
      if (bug_ == Bug::kChecksumIgnored)
        rows.set_checksum(xxh3(rows.rows().data(), rows.rows().size()));
    }
  }
  link->up->put(a_moment(), [this, link, message = std::move(message)]() mutable {
    tell_tuner(link, std::move(message));
  });
}

void Network::from_tuner(LinkId id, wire::ToStore message) {
  const auto it = std::ranges::find(links_, id, [](const LinkPtr& l) { return l->server; });
  if (it == links_.end() || !(*it)->server_open || !ends_.tuner->alive()) return;
  const LinkPtr link = *it;
  newest_term_ = std::max(newest_term_, message.term());
  if (message.has_model_part()) {
    watch_.model_bytes[link->store] += message.model_part().bytes().size();
  }
  watch_.ways += message.has_way();
  watch_.chains += message.has_way() && message.way().steps_size() > 1;
  if (message.has_ack()) watch_.acknowledges(id, message.ack());
  if (message.has_refusal() && message.refusal().reason() == wire::Refusal::BAD_MESSAGE &&
      message.refusal().text().find("checksum") == std::string::npos &&
      message.refusal().text().find("the store stops") == std::string::npos) {
    watch_.violation("a session was refused: " + message.refusal().text());
  }
  remember(down_[link->store], message);
  const bool work = message.has_wanted() || message.has_ack() || message.has_job();
  if (bug_ == Bug::kMessageLost && work && rng_.next_below(50) == 0) return;
  link->down->put(a_moment(), [this, link, message = std::move(message)]() mutable {
    tell_store(link, std::move(message));
  });
}

// The end that closes hears no more; the other one sees what was sent before.
void Network::closed_by_tuner(LinkId id) {
  const auto it = std::ranges::find(links_, id, [](const LinkPtr& l) { return l->server; });
  if (it == links_.end() || !(*it)->server_open) return;
  const LinkPtr link = *it;
  link->server_open = false;
  link->down->put(a_moment(),
                  [this, link] { tell_store(link, LinkClosed{"closed by the Tuner"}); });
}

void Network::hang_up(const LinkPtr& link, bool graceful) {
  if (!link->client_open) return;
  link->client_open = false;
  auto last = [this, link] { tell_tuner(link, LinkClosed{"closed by the store"}); };
  if (graceful) {
    link->up->put(a_moment(), last);
  } else {
    link->up->cut(rng_, until_noticed(), last);
  }
}

void Network::cut(const LinkPtr& link, bool tell_tuner_too, bool tell_store_too) {
  const auto to_tuner = [this, link] { tell_tuner(link, LinkClosed{"connection reset"}); };
  const auto to_store = [this, link] { tell_store(link, LinkClosed{"connection reset"}); };
  link->up->cut(rng_, until_noticed(), tell_tuner_too ? std::function<void()>(to_tuner) : nullptr);
  link->down->cut(rng_, until_noticed(),
                  tell_store_too ? std::function<void()>(to_store) : nullptr);
}

// A host without power says nothing; others have to notice by themselves, half of the time.
void Network::tuner_died() {
  for (size_t s = 0; s < Collection::kStores; ++s) {
    if (!up_[s].empty()) old_up_[s] = std::exchange(up_[s], {});
    if (!down_[s].empty()) old_down_[s] = std::exchange(down_[s], {});
  }
  for (const LinkPtr& link : links_) {
    if (!link->server_open || link->wrong) continue;
    link->server_open = false;
    cut(link, false, rng_.next_below(2) == 0);
  }
}

void Network::store_died(size_t store) {
  for (const LinkPtr& link : links_) {
    if (link->store != store || !link->client_open) continue;
    link->client_open = false;
    cut(link, rng_.next_below(2) == 0, false);
  }
}

Network::LinkPtr Network::open_link(size_t store) const {
  for (const LinkPtr& link : links_) {
    if (link->store == store && !link->wrong && link->client_open && link->server_open &&
        link->greeted) {
      return link;
    }
  }
  return nullptr;
}

bool Network::break_link(size_t store) {
  const LinkPtr link = open_link(store);
  if (!link) return false;
  // What still arrives may be late, later than a new session's first messages.
  link->up->hold(timeline_.now() + seconds(5 * rng_.next_uniform()));
  cut(link, true, true);
  return true;
}

bool Network::delay(size_t store, Time until) {
  const LinkPtr link = open_link(store);
  if (!link) return false;
  if (rng_.next_below(3) > 0) link->up->hold(until);
  if (rng_.next_below(3) > 0) link->down->hold(until);
  return true;
}

void Network::part(size_t store, Time until) {
  parted_until_[store] = std::max(parted_until_[store], until);
  for (const LinkPtr& link : links_) {
    if (link->store != store) continue;
    link->up->hold(until);
    link->down->hold(until);
  }
}

bool Network::old_tuner(size_t store, Time until) {
  return known_[store].term >= 2 && mislead(store, until, false);
}

bool Network::twin_tuner(size_t store, Time until) {
  return known_[store].term >= 1 && mislead(store, until, true);
}

bool Network::mislead(size_t store, Time until, bool twin) {
  wrong_until_[store] = until;
  twin_[store] = twin;
  break_link(store);  // if there is one; it dials again
  return true;
}

bool Network::corrupt_next_rows(size_t store) { return !std::exchange(corrupt_[store], true); }

bool Network::replay(size_t store) {
  const LinkPtr link = open_link(store);
  if (!link) return false;
  const auto is_old = [&](const auto& m) {
    return m.term() > 0 && m.term() < newest_term_ && !m.has_ping();
  };
  std::vector<wire::FromStore> up;
  std::vector<wire::ToStore> down;
  std::ranges::copy_if(old_up_[store], std::back_inserter(up), is_old);
  std::ranges::copy_if(old_down_[store], std::back_inserter(down), is_old);
  std::erase_if(down, [](const wire::ToStore& m) { return m.has_welcome() || m.has_refusal(); });
  if (up.empty() && down.empty()) return false;
  const bool accepted = bug_ == Bug::kStaleTermAccepted;
  if (down.empty() || (!up.empty() && rng_.next_below(2))) {
    wire::FromStore m = up[rng_.next_below(up.size())];
    if (accepted) m.set_term(newest_term_);
    link->up->put(a_moment(), [this, link, m = std::move(m)] { tell_tuner(link, m); });
  } else {
    wire::ToStore m = down[rng_.next_below(down.size())];
    if (accepted) m.set_term(newest_term_);
    link->down->put(a_moment(), [this, link, m = std::move(m)] { tell_store(link, m); });
  }
  return true;
}

}  // namespace ndtrain::sim
