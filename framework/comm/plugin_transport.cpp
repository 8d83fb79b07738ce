#include "framework/comm/plugin_transport.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "framework/comm/announced.h"
#include "framework/comm/frame.h"
#include "framework/comm/plugin_messages.h"
#include "framework/comm/poll_pause.h"

namespace ndtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using FrameKind = FrameHeader::Kind;

constexpr nanoseconds kLongestWait = std::chrono::hours(1);  // no clock's end is near
constexpr int32_t kFrames = 0;        // the tag of frames; payloads have those above
constexpr int32_t kLeastTags = 1024;  // of messages between two ranks at once

nanoseconds now() { return PollPause::now(); }

class PluginTransport final : public Transport {
 public:
  PluginTransport(const ndt_comm_plugin& plugin, ndt_comm* comm, const PluginOptions& options);
  ~PluginTransport() override;

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }
  std::string peer(int rank) const override { return peers_[static_cast<size_t>(rank)].name; }
  Request send(int to, uint64_t tag, std::span<const std::byte> bytes) override;
  Request receive(int from, uint64_t tag, std::span<std::byte> into) override;
  bool has_collectives() const override { return messages_.has_collectives(); }
  Request collect(std::span<const LibraryCall> calls, void* after) override;
  void poll(std::vector<Done>& done, nanoseconds patience) override;
  void wake() override { pause_.wake(); }
  void cancel() override;
  void begin_generation(uint32_t generation, std::span<const int> members) override;

 private:
  using Bytes = std::vector<std::byte>;
  struct Peer {
    int rank = 0;
    std::string name;
    Announced announced;
    Bytes frame;                     // that is received next
    int32_t sent = 0, heard_of = 0;  // tags of the last payload in either direction
    nanoseconds heard{0}, said{0};
    Status ended;
    bool said_bye = false, left = false;
  };
  // What a message of the library's is.
  struct Use {
    enum class Of : uint8_t { kFrameOut, kFrameIn, kPayload, kCollective };
    Of of;
    int peer;             // of a collective this rank: it takes all of them
    Request request = 0;  // 0: of nobody
    uint64_t total = 0;   // that have to come
    Bytes bytes = {};     // that belong to nobody else
    bool cancelled = false;

    bool is_long() const { return of == Of::kPayload || of == Of::kCollective; }
  };

  Peer& other(int rank);
  int32_t payload_tag(int32_t& last) const { return last = 1 + last % (messages_.tags() - 1); }
  void finish(Request request, const Status& status) { done_.push_back({request, status}); }
  bool has_payload(int peer) const;

  void say(Peer& peer, const FrameHeader& header, std::span<const std::byte> body = {});
  void say_bye(Peer& peer);
  void await_frame(Peer& peer);
  void meet(Peer& peer, Announced::Meeting meeting);
  void take_unwanted(Peer& peer);

  bool step();  // what there is to do without waiting; false: there was nothing
  void take(const PluginMessages::Ended& ended);
  Status take_frame(Peer& peer, std::span<const std::byte> frame);
  void watch();
  void end(Peer& peer, const Status& why);
  void end_all(const std::string& why);
  void drop_all(const Status& why);

  const PluginOptions options_;
  PluginMessages messages_;
  const int rank_;
  uint32_t generation_ = 0;
  Request requests_ = 0;
  std::vector<Done> done_;
  std::deque<Peer> peers_;
  std::map<PluginMessages::Id, Use> uses_;
  nanoseconds stepped_ = now();
  PollPause pause_;
};

PluginTransport::PluginTransport(const ndt_comm_plugin& plugin, ndt_comm* comm,
                                 const PluginOptions& options)
    : options_(options), messages_(plugin, comm), rank_(messages_.rank()) {
  for (int r = 0; r < messages_.ranks(); ++r) {
    Peer& p = peers_.emplace_back();
    p.rank = r;
    p.name = "rank " + std::to_string(r) + " (" + messages_.host(r) + ")";
    p.heard = p.said = stepped_;
    p.frame.resize(kFrameHeaderBytes + kMostInFrame);
    if (r != rank_) await_frame(p);
  }
}

PluginTransport::~PluginTransport() {
  drop_all({Code::kCancelled, "left"});
  for (Peer& p : peers_) {
    if (p.rank != rank_ && p.ended.ok()) say_bye(p);
  }
  const nanoseconds until = now() + options_.farewell;
  // Who is silent does not say goodbye either.
  const auto lost = [](const Peer& p) { return p.ended.code() == Code::kCancelled; };
  while (messages_.under_way() > 0 && now() < until && std::ranges::none_of(peers_, lost)) {
    step();
    pause_.pause(until - now());
  }
  if (messages_.under_way() == 0) messages_.close();
}

PluginTransport::Peer& PluginTransport::other(int rank) {
  if (rank < 0 || rank >= ranks() || rank == rank_) {
    throw Error("Transport: rank ", rank, " is no peer of rank ", rank_, " of ", ranks());
  }
  return peers_[static_cast<size_t>(rank)];
}

bool PluginTransport::has_payload(int peer) const {
  return std::ranges::any_of(uses_, [&](const auto& entry) {
    const Use& use = entry.second;
    return use.of == Use::Of::kCollective || (use.of == Use::Of::kPayload && use.peer == peer);
  });
}

Transport::Request PluginTransport::send(int to, uint64_t tag, std::span<const std::byte> bytes) {
  Peer& peer = other(to);
  const Request request = ++requests_;
  pause_.stir();
  FrameHeader header{.kind = FrameKind::kPart, .generation = generation_, .tag = tag};
  header.total = bytes.size();
  if (!peer.ended.ok()) {
    finish(request, peer.ended);
  } else if (bytes.size() <= kMostInFrame) {
    say(peer, header, bytes);
    finish(request, {});
  } else {
    say(peer, header);
    const auto id = messages_.send(to, payload_tag(peer.sent), bytes);
    uses_[id] = {.of = Use::Of::kPayload, .peer = to, .request = request};
  }
  return request;
}

Transport::Request PluginTransport::receive(int from, uint64_t tag, std::span<std::byte> into) {
  Peer& peer = other(from);
  const Request request = ++requests_;
  pause_.stir();
  auto meeting = peer.announced.receive(tag, {request, into});
  if (meeting) meet(peer, std::move(*meeting));
  if (!peer.ended.ok()) {
    for (const Request r : peer.announced.take_receives()) finish(r, peer.ended);
  }
  return request;
}

Transport::Request PluginTransport::collect(std::span<const LibraryCall> calls, void* after) {
  if (!has_collectives()) return Transport::collect(calls, after);
  const Request request = ++requests_;
  pause_.stir();
  const auto id = messages_.collect(calls, after);
  uses_[id] = {.of = Use::Of::kCollective, .peer = rank_, .request = request};
  return request;
}

void PluginTransport::poll(std::vector<Done>& done, nanoseconds patience) {
  const nanoseconds until = now() + std::min(patience, kLongestWait);
  bool stepped = step();
  while (!pause_.take_woken() && done_.empty() && now() < until) {
    if (!stepped) pause_.pause_unless_woken(until - now());
    stepped = step();
  }
  std::ranges::move(done_, std::back_inserter(done));
  done_.clear();
}

void PluginTransport::cancel() {
  drop_all({Code::kCancelled, "cancelled"});
  const nanoseconds until = now() + options_.silence;
  const auto has_payloads = [&] {
    return std::ranges::any_of(uses_, [](const auto& u) { return u.second.is_long(); });
  };
  while (has_payloads() && now() < until) {
    step();
    pause_.pause(until - now());
  }
  if (has_payloads()) end_all("what was under way was not taken");
}

void PluginTransport::begin_generation(uint32_t generation, std::span<const int> members) {
  if (generation <= generation_ || std::ranges::count(members, rank_) == 0) {
    throw Error("Transport: rank ", rank_, " cannot go from generation ", generation_, " to ",
                generation, " of ", members.size(), " members");
  }
  cancel();
  generation_ = generation;
  for (Peer& p : peers_) {
    p.announced.begin_generation(generation);
    take_unwanted(p);
    if (p.rank != rank_ && std::ranges::count(members, p.rank) == 0) {
      end(p, {Code::kIo, "is not in generation " + std::to_string(generation)});
    }
  }
}

// All requests end, but for those that the library has: they end when it has done its part.
void PluginTransport::drop_all(const Status& why) {
  for (Peer& p : peers_) {
    for (const Request r : p.announced.take_receives()) finish(r, why);
    p.announced.refuse();
    take_unwanted(p);
  }
  for (auto& [id, use] : uses_) use.cancelled = use.is_long();
}

void PluginTransport::say(Peer& peer, const FrameHeader& header, std::span<const std::byte> body) {
  Bytes frame = sealed_frame(header, body);
  const auto id = messages_.send(peer.rank, kFrames, frame);
  uses_[id] = {.of = Use::Of::kFrameOut, .peer = peer.rank, .bytes = std::move(frame)};
  peer.said = now();
}

void PluginTransport::say_bye(Peer& peer) {
  if (!std::exchange(peer.said_bye, true)) say(peer, {.kind = FrameKind::kBye});
}

void PluginTransport::await_frame(Peer& peer) {
  const auto id = messages_.receive(peer.rank, kFrames, peer.frame);
  uses_[id] = {.of = Use::Of::kFrameIn, .peer = peer.rank};
}

void PluginTransport::meet(Peer& peer, Announced::Meeting meeting) {
  const auto& [message, receive] = meeting;
  if (message.total != receive.into.size()) {
    const Status why(Code::kCorrupt, "message " + std::to_string(message.tag) + " has " +
                                         std::to_string(message.total) + " bytes, not " +
                                         std::to_string(receive.into.size()));
    end(peer, why);
    finish(receive.request, peer.ended);
  } else if (!message.payload) {
    std::ranges::copy(message.bytes, receive.into.begin());
    finish(receive.request, {});
  } else if (!peer.ended.ok()) {
    finish(receive.request, peer.ended);
  } else {
    const auto id = messages_.receive(peer.rank, *message.payload, receive.into);
    uses_[id] = {.of = Use::Of::kPayload,
                 .peer = peer.rank,
                 .request = receive.request,
                 .total = message.total};
  }
}

// Who sends it waits for that.
void PluginTransport::take_unwanted(Peer& peer) {
  while (const auto message = peer.announced.next_unwanted()) {
    Bytes room(message->total);
    const auto id = messages_.receive(peer.rank, *message->payload, room);
    uses_[id] = {.of = Use::Of::kPayload,
                 .peer = peer.rank,
                 .total = message->total,
                 .bytes = std::move(room)};
  }
}

bool PluginTransport::step() {
  std::vector<PluginMessages::Ended> ended;
  messages_.take_ended(ended);
  for (const PluginMessages::Ended& e : ended) take(e);
  watch();
  return !ended.empty();
}

void PluginTransport::take(const PluginMessages::Ended& ended) {
  const auto it = uses_.find(ended.id);
  if (it == uses_.end()) return;
  const Use use = std::move(it->second);
  uses_.erase(it);
  Peer& peer = peers_[static_cast<size_t>(use.peer)];
  Status status = ended.status;
  if (use.of == Use::Of::kCollective) {
    pause_.stir();
    return finish(use.request, use.cancelled ? Status(Code::kCancelled, "cancelled") : status);
  }
  if (use.of == Use::Of::kFrameIn) {
    peer.heard = now();
    if (status.ok()) status = take_frame(peer, std::span(peer.frame).first(ended.bytes));
    if (!peer.left && ended.status.ok()) await_frame(peer);
  }
  if (use.of == Use::Of::kPayload) {
    pause_.stir();
    peer.heard = now();
    if (use.total > 0 && status.ok() && ended.bytes != use.total) {
      status = Status(Code::kCorrupt, "a message of " + std::to_string(use.total) + " bytes has " +
                                          std::to_string(ended.bytes));
    }
    if (use.cancelled) status = Status(Code::kCancelled, "cancelled");
  }
  if (!status.ok() && !use.cancelled) end(peer, status);
  if (use.request > 0) finish(use.request, use.cancelled || status.ok() ? status : peer.ended);
}

// Untrusted. Not ok: the connection ends.
Status PluginTransport::take_frame(Peer& peer, std::span<const std::byte> frame) {
  const Result<FrameHeader> header = open_whole_frame(frame);
  if (!header.ok()) return header.status();
  if (header->kind == FrameKind::kAlive) return {};
  pause_.stir();
  if (header->kind == FrameKind::kBye) {
    peer.left = true;
    end(peer, {Code::kIo, "has left"});
    return {};
  }
  if (header->kind != FrameKind::kPart)
    return {Code::kCorrupt, "a rendezvous in the middle of a run"};
  Result<Announced::Message> message = announced_by(*header, frame.subspan(kFrameHeaderBytes));
  if (!message.ok()) return message.status();
  if (message->bytes.empty() && message->total > 0) message->payload = payload_tag(peer.heard_of);
  if (message->bytes.size() + peer.announced.bytes() > options_.most_ahead) {
    return {Code::kTooLarge, "message " + std::to_string(header->tag) + " of " +
                                 std::to_string(header->total) + " bytes, which nobody awaits"};
  }
  auto meeting = peer.announced.add(std::move(*message));
  if (meeting) meet(peer, std::move(*meeting));
  take_unwanted(peer);
  return {};
}

// Says what has to be said, and who has not been heard. Who was not here itself cannot tell.
void PluginTransport::watch() {
  const nanoseconds was = std::exchange(stepped_, now()), third = options_.silence / 3;
  for (Peer& p : peers_) {
    if (p.rank == rank_ || (!p.ended.ok() && !has_payload(p.rank))) continue;
    if (stepped_ - was > third) p.heard = stepped_;
    if (p.ended.ok() && stepped_ - p.said > third) say(p, {.kind = FrameKind::kAlive});
    if (stepped_ - p.heard <= options_.silence) continue;
    end(p, {Code::kCancelled, "silent for " + std::to_string(options_.silence.count()) + " ms"});
    if (has_payload(p.rank)) end_all(p.ended.message());
  }
}

void PluginTransport::end(Peer& peer, const Status& why) {
  if (peer.ended.ok()) peer.ended = Status(why.code(), peer.name + ": " + why.message());
  say_bye(peer);
  for (const Request r : peer.announced.take_receives()) finish(r, peer.ended);
}

// The library is called no more.
void PluginTransport::end_all(const std::string& why) {
  messages_.abandon();
  for (Peer& p : peers_) {
    if (p.rank != rank_) end(p, {Code::kIo, "all connections ended: " + why});
  }
  for (const auto& [id, use] : uses_) {
    const Status& ended = peers_[static_cast<size_t>(use.peer)].ended;
    const Status status = use.of == Use::Of::kCollective ? Status(Code::kIo, why) : ended;
    if (use.request == 0) continue;
    finish(use.request, use.cancelled ? Status(Code::kCancelled, "cancelled") : status);
  }
  uses_.clear();
}

}  // namespace

std::unique_ptr<Transport> plugin_transport(const ndt_comm_plugin& plugin, ndt_comm* comm,
                                            const PluginOptions& options) {
  std::string why;
  if (plugin.device_memory) {
    why = "its memory is a device's";
  } else if (plugin.tags < kLeastTags) {
    why = "it has only " + std::to_string(plugin.tags) + " tags";
  }
  if (!why.empty()) {
    plugin.abandon(comm);
    throw Error(plugin.name, ": this plugin moves no messages of the host: ", why);
  }
  return std::make_unique<PluginTransport>(plugin, comm, options);
}

}  // namespace ndtrain
