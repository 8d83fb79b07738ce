#include "framework/comm/stream_transport.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "framework/comm/frame.h"
#include "framework/comm/inbox.h"
#include "framework/core/error.h"

namespace ndtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLongestPoll = std::chrono::hours(1);  // no clock's end is near

class StreamTransport final : public Transport {
 public:
  StreamTransport(int rank, std::vector<std::unique_ptr<Stream>> streams,
                  const StreamOptions& options);
  ~StreamTransport() override;

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }
  std::string peer(int rank) const override { return peers_[static_cast<size_t>(rank)].name; }
  Request send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    return enqueue(to, {.tag = tag, .bytes = bytes});
  }
  Request send_bulk(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    return enqueue(to, {.tag = tag, .bytes = bytes, .bulk = true});
  }
  Request receive(int from, uint64_t tag, std::span<std::byte> into) override;
  void poll(std::vector<Done>& done, nanoseconds patience) override;
  void wake() override;
  void cancel() override;
  void begin_generation(uint32_t generation, std::span<const int> members) override;
  uint32_t later_generation() override;

 private:
  struct Outgoing {
    Request request = 0;
    uint32_t generation = 0;
    uint64_t tag = 0;
    std::span<const std::byte> bytes = {};
    bool bulk = false;
    size_t sent = 0;
  };
  struct Peer {
    explicit Peer(const StreamOptions& options) : inbox(options.most_ahead) {}

    std::string name;
    std::unique_ptr<Stream> stream;
    Inbox inbox;
    std::deque<Outgoing> out;
    Request writing = 0;  // the first of `out`, while the stream takes a part of it
    Status ended;
    bool silenced = false;  // the reader has come to its end
    std::condition_variable work;
    std::jthread reader, writer;
  };

  Peer& other(int rank);
  Request enqueue(int to, Outgoing message);

  void read(Peer& peer);
  bool take(Peer& peer, const FrameReader::Frame& frame);  // under the mutex; false: the last one
  void write(Peer& peer);
  void wrote(Peer& peer, Request request, bool taken, size_t length);  // under the mutex
  // The next part of what is to be sent, in `frame`; its length.
  size_t next_part(const Outgoing& message, std::span<std::byte> frame) const;

  // Under the mutex.
  void end(Peer& peer, const Status& why);
  void end_orderly(Peer& peer, const Status& why);
  void cancel_all();

  const int rank_;
  const StreamOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  uint32_t generation_ = 0, latest_ = 0;  // this rank's; of what has come
  Request requests_ = 0;
  std::vector<Done> done_;
  std::deque<Peer> peers_;
};

StreamTransport::StreamTransport(int rank, std::vector<std::unique_ptr<Stream>> streams,
                                 const StreamOptions& options)
    : rank_(rank), options_(options) {
  if (rank < 0 || rank >= std::ssize(streams)) {
    throw Error("stream_transport: rank ", rank, " of ", streams.size());
  }
  for (int r = 0; r < std::ssize(streams); ++r) {
    Peer& p = peers_.emplace_back(options);
    p.name = "rank " + std::to_string(r);
    p.stream = std::move(streams[static_cast<size_t>(r)]);
    if (!p.stream && r != rank) throw Error("stream_transport: no stream to rank ", r);
    if (p.stream) p.name += " (" + p.stream->peer() + ")";
  }
  for (Peer& p : peers_) {
    if (!p.stream) continue;
    p.reader = std::jthread([this, &p] { read(p); });
    p.writer = std::jthread([this, &p] { write(p); });
  }
}

// Says goodbye, and hears what comes until the peers have said so too: a stream that is closed with
// bytes unread may lose what is under way to the peer.
StreamTransport::~StreamTransport() {
  std::unique_lock lock(mutex_);
  cancel_all();
  for (Peer& p : peers_) {
    if (p.stream) end_orderly(p, {Code::kCancelled, "left"});
  }
  changed_.wait_for(lock, options_.farewell, [&] {
    return std::ranges::all_of(peers_, [](const Peer& p) { return !p.stream || p.silenced; });
  });
  for (Peer& p : peers_) {
    if (p.stream && !p.silenced) p.stream->close();
  }
}

StreamTransport::Peer& StreamTransport::other(int rank) {
  if (rank < 0 || rank >= ranks() || rank == rank_) {
    throw Error("Transport: rank ", rank, " is no peer of rank ", rank_, " of ", ranks());
  }
  return peers_[static_cast<size_t>(rank)];
}

Transport::Request StreamTransport::enqueue(int to, Outgoing message) {
  Peer& peer = other(to);
  const std::lock_guard lock(mutex_);
  message.request = ++requests_;
  message.generation = generation_;
  if (!peer.ended.ok()) {
    done_.push_back({message.request, peer.ended});
    return message.request;
  }
  auto before = peer.out.end();
  if (!message.bulk) {
    before = std::ranges::find_if(peer.out, [&](const Outgoing& o) {
      return o.bulk && o.sent == 0 && o.request != peer.writing;
    });
  }
  peer.out.insert(before, message);
  peer.work.notify_one();
  return message.request;
}

Transport::Request StreamTransport::receive(int from, uint64_t tag, std::span<std::byte> into) {
  Peer& peer = other(from);
  const std::lock_guard lock(mutex_);
  const Request request = ++requests_;
  const Status status = peer.inbox.receive(request, tag, into, done_);
  if (!status.ok()) end(peer, status);
  return request;
}

void StreamTransport::poll(std::vector<Done>& done, nanoseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::min(patience, kLongestPoll),
                    [&] { return !done_.empty() || woken_; });
  woken_ = false;
  std::ranges::move(done_, std::back_inserter(done));
  done_.clear();
}

void StreamTransport::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void StreamTransport::cancel() {
  const std::lock_guard lock(mutex_);
  cancel_all();
}

void StreamTransport::cancel_all() {
  for (Peer& p : peers_) {
    for (const Outgoing& o : p.out) {
      done_.push_back({o.request, Status(Code::kCancelled, "cancelled")});
    }
    p.out.clear();
    p.inbox.cancel(done_);
  }
}

void StreamTransport::begin_generation(uint32_t generation, std::span<const int> members) {
  const std::lock_guard lock(mutex_);
  if (generation <= generation_ || std::ranges::count(members, rank_) == 0) {
    throw Error("Transport: rank ", rank_, " cannot go from generation ", generation_, " to ",
                generation, " of ", members.size(), " members");
  }
  cancel_all();
  generation_ = generation;
  for (int r = 0; r < ranks(); ++r) {
    Peer& p = peers_[static_cast<size_t>(r)];
    p.inbox.begin_generation(generation);
    if (r != rank_ && std::ranges::count(members, r) == 0) {
      end_orderly(p, {Code::kIo, "is not in generation " + std::to_string(generation)});
    }
  }
}

uint32_t StreamTransport::later_generation() {
  const std::lock_guard lock(mutex_);
  return latest_ > generation_ ? latest_ : 0;
}

void StreamTransport::read(Peer& peer) {
  FrameReader frames(*peer.stream, options_.silence);
  for (bool more = true; more;) {
    const Result<FrameReader::Frame> frame = frames.next();
    const std::lock_guard lock(mutex_);
    if (frame.ok()) {
      more = take(peer, *frame);
    } else {
      more = false;
      end(peer, frame.status());
    }
    peer.silenced = !more;
    if (!done_.empty() || !more) changed_.notify_all();
  }
}

bool StreamTransport::take(Peer& peer, const FrameReader::Frame& frame) {
  if (frame.header.kind == FrameHeader::Kind::kBye) {
    end_orderly(peer, {Code::kIo, frame.header.generation > generation_
                                      ? "has left, or goes on without this rank"
                                      : "has left"});
    return false;
  }
  if (!peer.ended.ok() || frame.header.kind == FrameHeader::Kind::kAlive) return true;
  if (frame.header.kind == FrameHeader::Kind::kPart &&
      frame.header.generation > std::max(latest_, generation_)) {
    latest_ = frame.header.generation;
    woken_ = true;
    changed_.notify_all();
  }
  const Status status = frame.header.kind == FrameHeader::Kind::kPart
                            ? peer.inbox.part(frame.header, frame.body, done_)
                            : Status(Code::kCorrupt, "a rendezvous in the middle of a run");
  if (!status.ok()) end(peer, status);
  return status.ok();
}

void StreamTransport::write(Peer& peer) {
  std::vector<std::byte> frame(kFrameHeaderBytes + kMostFrameBytes);
  std::unique_lock lock(mutex_);
  while (peer.ended.ok()) {
    peer.work.wait_for(lock, options_.silence / 3,
                       [&] { return !peer.out.empty() || !peer.ended.ok(); });
    if (!peer.ended.ok()) break;
    const Outgoing message = peer.out.empty() ? Outgoing{} : peer.out.front();
    const size_t length = message.request == 0 ? 0 : next_part(message, frame);
    peer.writing = message.request;
    lock.unlock();
    Status status;
    if (message.request == 0) {
      status = write_frame(*peer.stream, FrameHeader::Kind::kAlive);
    } else {
      seal_frame({.kind = FrameHeader::Kind::kPart,
                  .generation = message.generation,
                  .length = static_cast<uint32_t>(length),
                  .tag = message.tag,
                  .total = message.bytes.size(),
                  .offset = message.sent},
                 std::span(frame).first(kFrameHeaderBytes + length));
      status = peer.stream->write(std::span(frame).first(kFrameHeaderBytes + length));
    }
    lock.lock();
    if (!status.ok()) end(peer, status);
    wrote(peer, message.request, status.ok(), length);
  }
  const auto bye = sealed_frame({.kind = FrameHeader::Kind::kBye, .generation = generation_}, {});
  lock.unlock();
  // Where the stream is closed it is told to nobody, who knows.
  static_cast<void>(peer.stream->write(bye).ok());
}

// The stream has taken so much of a message, or not; it may have been cancelled meanwhile.
void StreamTransport::wrote(Peer& peer, Request request, bool taken, size_t length) {
  peer.writing = 0;
  if (request == 0 || peer.out.empty() || peer.out.front().request != request) return;
  Outgoing& message = peer.out.front();
  message.sent += length;
  const bool whole = taken && message.sent == message.bytes.size();
  if (!whole && peer.ended.ok()) return;
  done_.push_back({request, whole ? Status() : peer.ended});
  peer.out.pop_front();
  changed_.notify_all();
}

size_t StreamTransport::next_part(const Outgoing& message, std::span<std::byte> frame) const {
  const size_t length = std::min(message.bytes.size() - message.sent, kMostFrameBytes);
  std::ranges::copy(message.bytes.subspan(message.sent, length), frame.begin() + kFrameHeaderBytes);
  return length;
}

// The connection is of no use any more.
void StreamTransport::end(Peer& peer, const Status& why) {
  end_orderly(peer, why);
  peer.stream->close();
}

void StreamTransport::end_orderly(Peer& peer, const Status& why) {
  if (!peer.ended.ok()) return;
  std::string text = peer.name + ": " + why.message();
  if (const auto tag = peer.inbox.unfinished()) {
    text += " (in the middle of message " + std::to_string(*tag) + ")";
  }
  peer.ended = Status(why.code(), text);
  // What the stream takes just now may be what the peer waited for before it left.
  std::erase_if(peer.out, [&](const Outgoing& o) {
    if (o.request == peer.writing) return false;
    done_.push_back({o.request, peer.ended});
    return true;
  });
  peer.inbox.end(peer.ended, done_);
  peer.work.notify_one();
  changed_.notify_all();
}

}  // namespace

std::unique_ptr<Transport> stream_transport(int rank, std::vector<std::unique_ptr<Stream>> streams,
                                            const StreamOptions& options) {
  return std::make_unique<StreamTransport>(rank, std::move(streams), options);
}

}  // namespace ndtrain
