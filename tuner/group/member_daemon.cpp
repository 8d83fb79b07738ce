#include "tuner/group/member_daemon.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/log.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/role_loop.h"
#include "ndp/wire/security_reload.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/tuner_addresses.h"
#include "ndp/wire/tuner_connection.h"
#include "tuner/group/group_net.h"
#include "tuner/group/group_rules.h"
#include "tuner/group/member.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// For a training to come to the end of a wait.
constexpr std::chrono::seconds kEndOfAWait{10};

// By default of this machine where the Tuner is on it.
std::string listen_of(const MemberConfig& config) {
  if (config.relay || !config.listen.empty()) return config.listen;
  return std::ranges::all_of(tuner_addresses(config.tuner), is_local) ? "127.0.0.1:0" : ":0";
}

}  // namespace

struct MemberDaemon::Parts final : TunerEvents {
  struct Joined {
    TrainingPlace place;
    LinkId link = 0;    // by which it was asked for
    uint64_t term = 0;  // of the Tuner that leads
  };

  Parts(const MemberConfig& c, Devices& devices, Fs& fs, Clock& k)
      : config(c),
        tuners(tuner_addresses(config.tuner)),
        clock(k),
        net(config.security),
        certificates({"links", config.read_security,
                      [this](const LinkSecurity& s) {
                        const Status renewed = net.renew(s);
                        if (renewed.ok()) connection->end_if_revoked(s);
                        return renewed;
                      }},
                     config.security),
        state(StateDirectory::open(fs, config.state, "member").or_throw()),
        setting{.fs = fs,
                .clock = clock,
                .devices = devices,
                .net = net.net(),
                .directory = state.path(),
                .listen = listen_of(config),
                .disk = config.disk,
                .silence = config.silence,
                .site = config.site,
                .relay = config.relay,
                .check = config.check} {
    const uint64_t drawn = random_bits();
    wire::Hello hello;
    hello.set_store(config.name);
    hello.set_incarnation(drawn);
    hello.set_version(config.version);
    hello.set_numerics(group_numerics(devices));
    hello.set_site(config.site);
    const auto dial = [this](LinkId id) {
      return LinkClient::dial(tuner_of(id), certificates.now(), id, events, LinkKind::kMember);
    };
    connection = std::make_unique<TunerConnection>(
        TunerConnection::Ports{
            .clock = clock, .state = state, .dial = dial, .last_retry = last_retry_of(tuners)},
        std::move(hello), drawn, *this);
  }
  ~Parts() {
    thread = {};
    connection.reset();
  }

  void turn() {
    const auto wait = std::clamp<std::chrono::nanoseconds>(
        connection->next() - clock.monotonic(), std::chrono::milliseconds(1), kLongestWait);
    if (auto event = events.take(wait)) connection->handle(std::move(*event));
    if (training && over) training_over();
    if (training) leave_the_term_before();
    connection->tick();
    certificates.look(clock.monotonic());
  }

  // Between two waits, where the others are told of it at once; in the midst of one where they
  // stand still.
  void leave() {
    leaves = true;
    connection->leave("it was told to");
    const auto until = clock.monotonic() + kEndOfAWait;
    while (training && !over && clock.monotonic() < until) (void)events.take(kLongestWait);
  }

  // Each dial takes the next address.
  const std::string& tuner_of(LinkId link) const { return tuners[(link - 1) % tuners.size()]; }

  void training_over() {
    thread = {};
    const Joined was = *std::exchange(training, std::nullopt);
    if (was.link == connection->link()) tell(was.place.training, failure);
    const auto next = std::exchange(asked, std::nullopt);
    if (next && next->link == connection->link() && connection->open()) begin(*next);
  }

  // A training is between the ranks: it goes on while there is no session.
  void session_over() override {}

  void message(const wire::ToStore& m) override {
    if (!m.has_join_training()) return connection->drop("a message that members are not sent");
    const wire::JoinTraining& join = m.join_training();
    const LinkId link = connection->link();
    const Joined joined{.place = {.training = join.training(),
                                  .job = join.job(),
                                  .rank = static_cast<int>(join.rank()),
                                  .ranks = static_cast<int>(join.ranks()),
                                  .rendezvous = with_host_of(join.address(), tuner_of(link))},
                        .link = link,
                        .term = connection->term()};
    if (!training) return begin(joined);
    if (training->term == joined.term) {
      return tell(join.training(),
                  "it still trains for job " + std::to_string(training->place.job));
    }
    asked = joined;
  }

  // Who led that training serves no more, and may be silent for as long as `silence`.
  void leave_the_term_before() {
    if (connection->term() == training->term || !thread.request_stop()) return;
    log::info("job {}: a Tuner of term {} serves, so this member leaves the training of term {}",
              training->place.job, connection->term(), training->term);
  }

  void begin(const Joined& joined) {
    training = joined;
    over = false;
    failure.clear();
    thread = std::jthread(
        [this, place = joined.place](const std::stop_token& stop) { train(place, stop); });
  }

  void train(const TrainingPlace& place, const std::stop_token& stop) {
    try {
      const FollowEnd ended = take_part(
          setting, place, stop, [this] { return leaves.load(); },
          [](const std::string& line) { log::info("{}", line); });
      if (ended == FollowEnd::kStopped) failure = "it was stopped";
    } catch (const std::exception& e) {
      failure = e.what();
      log::warn("job {}: this member trains no longer: {}", place.job, failure);
    }
    over = true;
    events.wake();
  }

  void tell(uint64_t number, const std::string& why) {
    if (!connection->open()) return;  // a new session knows of no training
    wire::FromStore m;
    m.mutable_left_training()->set_training(number);
    m.mutable_left_training()->set_failure(wire::as_text(why));
    connection->send(std::move(m));
  }

  const MemberConfig config;
  const std::vector<std::string> tuners;  // addresses
  Clock& clock;
  GroupNet net;
  SecurityReload<LinkSecurity> certificates;
  StateDirectory state;
  const MemberSetting setting;
  LinkEvents<wire::ToStore> events;
  std::unique_ptr<TunerConnection> connection;
  std::atomic<bool> leaves = false;  // the training's thread is to, between two waits
  std::atomic<bool> over = false;
  std::optional<Joined> training;
  std::optional<Joined> asked;  // meanwhile, by a Tuner that has taken over
  std::string failure;          // the thread's until `over`
  std::jthread thread;
};

MemberDaemon::MemberDaemon(const MemberConfig& config, Devices& devices, Fs& fs, Clock& clock)
    : parts_(std::make_unique<Parts>(config, devices, fs, clock)) {}
MemberDaemon::~MemberDaemon() = default;

void MemberDaemon::run(const std::function<bool()>& stop) {
  while (!stop()) parts_->turn();
  parts_->leave();
}

}  // namespace ndtrain::tuner
