#include "framework/comm/communicator.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "framework/comm/exchange.h"
#include "framework/comm/regroup_by_messages.h"
#include "framework/core/utc_text.h"

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kIdle = std::chrono::hours(1);  // until somebody wakes the thread
constexpr size_t kMostKept = size_t{64} << 20;        // bytes of buffers between operations

// Of a lane, until their numbers begin anew: more than there ever are under way.
constexpr uint64_t kMessages =
    (uint64_t{1} << (ExchangePiece::kTagBits - 4)) / static_cast<uint64_t>(CommOp::kLanes);

bool is_message(const CommOp& op) { return op.kind == CommOp::Kind::kMessage; }

}  // namespace

struct Communicator::State {
  struct Planned {  // not begun
    CommOp op;
    std::vector<uint64_t> tags;
    uint64_t call = 0;
    bool released = false;
    nanoseconds released_at{0};
  };
  struct Running {
    Op id;
    uint64_t call;
    bool message;
    Span span;
    nanoseconds progress;  // when something was last heard
    nanoseconds* ended;    // CommOp::ended
    Exchange exchange;
  };
  struct Shared {  // with another rank, so far: operations of both; messages of each lane
    uint64_t operations = 0;
    std::map<int, uint64_t> sent, received;
  };
  struct Turn {  // what the thread has to do next, beside the transport's work
    std::map<Op, Planned> begin;
    std::function<void()> action;
  };

  State(std::unique_ptr<Transport> t, const Options& o)
      : transport(std::move(t)),
        options(o),
        clock(o.clock ? *o.clock : system_clock()),
        members(static_cast<size_t>(transport->ranks())),
        shared(members.size()) {
    std::iota(members.begin(), members.end(), 0);
    thread = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~State() {
    thread.request_stop();
    ask_to_leave();
  }

  // By any thread.
  void ask_to_leave() {
    leaving.request_stop();
    transport->wake();
  }

  // Under the mutex.
  CommOp expected(CommOp op) const;  // as it may be enqueued
  void check_native(const CommOp& op) const;
  Op add(CommOp op);
  void expect_known(Op op) const;
  bool waits(Op op) const { return planned.contains(op) || under_way.contains(op); }
  void drop_all(const RankGroup& new_members);

  // By the thread.
  void serve(const std::stop_token& stop);
  void work(const std::stop_token& stop);
  Turn next_turn();
  void begin_generation(uint32_t number, const RankGroup& new_members);
  void begin(std::map<Op, Planned> ops);
  void take(const std::vector<Transport::Done>& done);
  bool finish();  // false: nothing is done that was not before
  nanoseconds patience() const;
  void check_stall() const;
  void check_called();
  void fail(std::exception_ptr why);
  void leave();
  void expect_here() const;
  [[noreturn]] void lost(const Running& in, const std::set<int>& ranks, const std::string& why,
                         bool stalled) const;
  Regrouping::Agreement regroup(int64_t step);

  const std::unique_ptr<Transport> transport;
  const Options options;
  Clock& clock;
  // The thread's alone.
  BufferPool buffers{kMostKept};
  std::list<Running> running;
  std::set<int> gone;  // of this generation's members
  bool failed = false;
  bool has_left = false;
  uint32_t generation = 0;

  mutable std::mutex mutex;
  std::condition_variable changed;
  RankGroup members;
  std::vector<Shared> shared;  // of each rank
  Op last = 0;
  uint64_t calls = 0;
  std::map<Op, Planned> planned;
  std::set<Op> under_way, dropped;
  std::exception_ptr failure;
  std::function<void()> action;  // for the thread
  nanoseconds waited{0};
  std::vector<Span> trace;

  std::stop_source leaving;
  std::jthread thread;
  const std::stop_callback<std::function<void()>> on_stop{options.stop, [this] { ask_to_leave(); }};
};

CommOp Communicator::State::expected(CommOp op) const {
  op = checked(std::move(op), transport->rank());
  if (!std::ranges::includes(members, op.group)) {
    throw Error("'", op.name, "': a rank of its group is not in this generation");
  }
  if (op.native && !transport->has_collectives()) {
    throw Error("'", op.name, "': there is no library of collectives below this transport");
  }
  if (op.native && std::ssize(op.group) != transport->ranks()) {
    throw Error("'", op.name, "': the library's collectives are of all ranks");
  }
  if (op.native) check_native(op);
  return op;
}

void Communicator::State::check_native(const CommOp& op) const {
  if (!transport->collects_on_device()) {
    if (op.kind != CommOp::Kind::kBroadcast) return;
    throw Error("'", op.name, "': the library below this transport does not broadcast");
  }
  const auto begins = std::span(op.leaf_begin);
  const bool all_add = std::ranges::adjacent_find(begins, std::greater_equal<>()) == begins.end();
  if (!all_add || !op.more_subtrees.empty()) {
    throw Error("'", op.name, "': on a device each rank adds the sum of one subtree");
  }
}

// Both ranks of a pair count the operations that they share in the same order, and the messages of
// each direction, so that the number names the operation to them; the kind tells it from another
// where the plans differ. What is above ExchangePiece::kTagBits is left to the operation's pieces.
Communicator::Op Communicator::State::add(CommOp op) {
  Planned p{.op = std::move(op), .call = calls};
  for (const int rank : p.op.group) {
    Shared& with = shared[static_cast<size_t>(rank)];
    const auto kind = static_cast<uint64_t>(p.op.kind) << 1;
    if (is_message(p.op)) {
      const uint64_t number =
          (p.op.root == transport->rank() ? with.sent : with.received)[p.op.lane]++;
      p.tags.push_back(
          (number % kMessages * CommOp::kLanes + static_cast<uint64_t>(p.op.lane)) << 4 | kind);
    } else {
      p.tags.push_back(with.operations++ << 4 | kind);
    }
  }
  planned.emplace(++last, std::move(p));
  return last;
}

void Communicator::State::expect_known(Op op) const {
  if (op == 0 || op > last) throw Error("Communicator: there is no operation ", op);
}

void Communicator::State::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      work(stop);
    } catch (...) {
      fail(std::current_exception());
    }
  }
  transport->cancel();
}

void Communicator::State::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (leaving.stop_requested()) leave();
    Turn turn = next_turn();
    if (turn.action) turn.action();
    begin(std::move(turn.begin));
    const bool more = finish() || turn.action;  // then something else may begin
    std::vector<Transport::Done> done;
    transport->poll(done, more ? nanoseconds(0) : patience());
    take(done);
    finish();
    check_called();
    check_stall();
  }
}

Communicator::State::Turn Communicator::State::next_turn() {
  const std::lock_guard lock(mutex);
  Turn turn{.action = std::exchange(action, nullptr)};
  if (turn.action || failure) return turn;
  std::set<uint64_t> calls_under_way;
  for (const Running& r : running) {
    if (!r.message) calls_under_way.insert(r.call);
  }
  bool held_up = false;
  for (auto p = planned.begin(); p != planned.end();) {
    const bool message = is_message(p->second.op);
    const uint64_t call = p->second.call;
    const auto end = std::find_if(p, planned.end(), [&](auto& q) { return q.second.call != call; });
    const bool ready = std::all_of(p, end, [](const auto& q) { return q.second.released; });
    const bool room = calls_under_way.size() < static_cast<size_t>(options.in_flight);
    held_up = held_up || (!message && !(ready && room));
    if (message ? !ready : held_up) {
      p = end;
      continue;
    }
    if (!message) calls_under_way.insert(call);
    while (p != end) {
      under_way.insert(p->first);
      turn.begin.insert(planned.extract(p++));
    }
  }
  return turn;
}

void Communicator::State::begin(std::map<Op, Planned> ops) {
  for (auto& [id, p] : ops) {
    const nanoseconds now = clock.monotonic();
    Span span{p.op.name, p.released_at, now, now};
    nanoseconds* const ended = p.op.ended;
    running.push_back(
        {id, p.call, is_message(p.op), std::move(span), now, ended,
         Exchange(std::move(p.op), std::move(p.tags), options.piece, *transport, buffers)});
    running.back().exchange.begin();
  }
}

void Communicator::State::take(const std::vector<Transport::Done>& done) {
  std::set<int> now_gone;
  const Running* lacks = nullptr;
  std::string why;
  for (const Transport::Done& d : done) {
    for (Running& r : running) {
      std::set<int> peers = r.exchange.peers_of(d.request);
      if (peers.empty()) continue;
      if (d.status.ok()) {
        r.exchange.ended(d.request);
        r.progress = clock.monotonic();
      } else {
        now_gone.merge(peers);
        if (!lacks) why = d.status.message();
        if (!lacks) lacks = &r;
      }
      break;
    }
  }
  gone.insert(now_gone.begin(), now_gone.end());
  if (lacks) lost(*lacks, now_gone, why, false);
}

bool Communicator::State::finish() {
  const auto done = [](const Running& r) { return r.exchange.finished(); };
  if (std::ranges::none_of(running, done)) return false;
  const std::lock_guard lock(mutex);
  for (Running& r : running) {
    if (!done(r)) continue;
    under_way.erase(r.id);
    r.span.ended = clock.monotonic();
    if (r.ended) *r.ended = r.span.ended;
    if (options.trace) trace.push_back(std::move(r.span));
  }
  std::erase_if(running, done);
  changed.notify_all();
  return true;
}

nanoseconds Communicator::State::patience() const {
  nanoseconds least = kIdle;
  for (const Running& r : running) {
    least = std::min(least, r.progress + options.stall - clock.monotonic());
  }
  return std::max(least, nanoseconds(0));
}

void Communicator::State::check_stall() const {
  for (const Running& r : running) {
    if (clock.monotonic() - r.progress < options.stall) continue;
    lost(r, r.exchange.lacking(),
         "nothing came in " + std::to_string(options.stall.count()) + " ms", true);
  }
}

// Somebody has begun to regroup, for whatever reason of its own.
void Communicator::State::check_called() {
  if (!options.regroups || failed || transport->later_generation() == 0) return;
  throw RankLost("another rank has lost one", {});
}

void Communicator::State::lost(const Running& in, const std::set<int>& ranks,
                               const std::string& why, bool stalled) const {
  std::string who;
  for (const int r : ranks) who += (who.empty() ? "" : ", ") + transport->peer(r);
  const auto ago =
      std::chrono::duration_cast<std::chrono::seconds>(clock.monotonic() - in.progress);
  throw RankLost("'" + in.span.name + "' lacks " + who + " since " +
                     utc_text(clock.unix_seconds() - ago.count()) + ": " + why,
                 {ranks.begin(), ranks.end()}, stalled);
}

void Communicator::State::fail(std::exception_ptr why) {
  transport->cancel();
  running.clear();
  failed = true;
  const std::lock_guard lock(mutex);
  failure = std::move(why);
  changed.notify_all();
}

// Once: nothing begins behind it.
void Communicator::State::leave() {
  if (!std::exchange(has_left, true)) {
    fail(std::make_exception_ptr(RankLost("this rank has left", {transport->rank()}, true)));
  }
}

void Communicator::State::expect_here() const {
  if (leaving.stop_requested()) throw RankLost("this rank has left", {transport->rank()}, true);
}

Regrouping::Agreement Communicator::State::regroup(int64_t step) {
  expect_here();
  if (!failed) throw Error("Communicator: no rank is lost, so there is nothing to agree on");
  Regrouping agreeing(transport->rank(), members, gone, step);  // which this thread alone changes
  auto agreed =
      regroup_by_messages(*transport, ++generation, std::move(agreeing), leaving.get_token());
  begin_generation(generation + 1, agreed.members);
  return agreed;
}

void Communicator::State::begin_generation(uint32_t number, const RankGroup& new_members) {
  expect_here();
  transport->begin_generation(number, new_members);
  generation = number;
  running.clear();
  gone.clear();
  failed = false;
  const std::lock_guard lock(mutex);
  drop_all(new_members);
}

void Communicator::State::drop_all(const RankGroup& new_members) {
  for (const auto& [id, p] : planned) dropped.insert(id);
  dropped.merge(under_way);
  planned.clear();
  under_way.clear();
  failure = nullptr;
  members = new_members;
  std::ranges::sort(members);
  std::ranges::fill(shared, Shared());
  changed.notify_all();
}

Communicator::Communicator(std::unique_ptr<Transport> transport, const Options& options) {
  if (options.in_flight < 1 || options.stall.count() < 1 || options.piece < 1) {
    throw Error("Communicator: ", options.in_flight, " calls in flight, ", options.stall.count(),
                " ms, pieces of ", options.piece, " values; each is at least 1");
  }
  state_ = std::make_unique<State>(std::move(transport), options);
}

Communicator::~Communicator() = default;

int Communicator::rank() const { return state_->transport->rank(); }
int Communicator::ranks() const { return state_->transport->ranks(); }
bool Communicator::has_collectives() const { return state_->transport->has_collectives(); }
bool Communicator::collects_on_device() const { return state_->transport->collects_on_device(); }

RankGroup Communicator::members() const {
  const std::lock_guard lock(state_->mutex);
  return state_->members;
}

RankGroup Communicator::lost() const {
  const RankGroup left = members();
  RankGroup lost;
  for (int r = 0; r < ranks(); ++r) {
    if (std::ranges::count(left, r) == 0) lost.push_back(r);
  }
  return lost;
}

Communicator::Op Communicator::enqueue(CommOp op) {
  std::vector<CommOp> one;
  one.push_back(std::move(op));
  return enqueue_together(std::move(one))[0];
}

std::vector<Communicator::Op> Communicator::enqueue_together(std::vector<CommOp> ops) {
  const std::lock_guard lock(state_->mutex);
  for (CommOp& op : ops) op = state_->expected(std::move(op));
  std::vector<Op> ids;
  for (CommOp& op : ops) ids.push_back(state_->add(std::move(op)));
  ++state_->calls;
  return ids;
}

void Communicator::release(Op op) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->expect_known(op);
    const auto it = state_->planned.find(op);
    if (it == state_->planned.end() && state_->dropped.contains(op)) return;
    if (it == state_->planned.end() || it->second.released) {
      throw Error("Communicator: operation ", op, " is released twice");
    }
    it->second.released = true;
    it->second.released_at = state_->clock.monotonic();
  }
  state_->transport->wake();
}

bool Communicator::done(Op op) const {
  const std::lock_guard lock(state_->mutex);
  state_->expect_known(op);
  return !state_->waits(op) && !state_->dropped.contains(op);
}

void Communicator::wait(Op op) {
  while (!wait(op, kIdle)) {
  }
}

bool Communicator::wait(Op op, nanoseconds patience) {
  std::unique_lock lock(state_->mutex);
  state_->expect_known(op);
  const nanoseconds start = state_->clock.monotonic();
  const bool over = state_->changed.wait_for(lock, patience,
                                             [&] { return state_->failure || !state_->waits(op); });
  state_->waited += state_->clock.monotonic() - start;
  if (!over) return false;
  if (state_->dropped.contains(op)) throw Error("Communicator: operation ", op, " was dropped");
  if (state_->waits(op)) std::rethrow_exception(state_->failure);
  return true;
}

double Communicator::waited_s() const {
  const std::lock_guard lock(state_->mutex);
  return std::chrono::duration<double>(state_->waited).count();
}

void Communicator::in_thread(std::function<void()> action) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(action));
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->action) throw Error("Communicator: a generation begins already");
    state_->action = [task] { (*task)(); };
  }
  state_->transport->wake();
  task->get_future().get();
}

void Communicator::leave() {
  state_->ask_to_leave();
  in_thread([&] { state_->leave(); });
}

void Communicator::begin_generation(uint32_t generation, const RankGroup& members) {
  in_thread([&] { state_->begin_generation(generation, members); });
}

Regrouping::Agreement Communicator::regroup(int64_t step) {
  if (!state_->options.regroups) throw Error("Communicator: its ranks do not regroup");
  Regrouping::Agreement agreed;
  in_thread([&] { agreed = state_->regroup(step); });
  return agreed;
}

std::vector<Communicator::Span> Communicator::take_trace() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->trace, {});
}

}  // namespace ndtrain
