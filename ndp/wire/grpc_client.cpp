#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "ndp/wire/grpc_link.h"
#include "ndp/wire/grpc_peer.h"
#include "ndp/wire/read_ahead.h"
#include "ndp/wire/wire.grpc.pb.h"

namespace ndtrain::ndp {
namespace {

using wire::FromStore, wire::ToStore;

constexpr int kConnectWithinMs = 5000, kResolveWithinMs = 5000;
constexpr std::chrono::seconds kFarewell{1};

std::shared_ptr<grpc::Channel> channel_to(const std::string& address,
                                          const LinkSecurity& security) {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : wire::channel_settings()) arguments.SetInt(name, value);
  // A stream is a session: it has a connection of its own and is never repeated behind our back.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectWithinMs);
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, kResolveWithinMs);
  return grpc::CreateCustomChannel(address, wire::client_credentials(security), arguments);
}

// Operations that the role starts need the stream to outlive its end: a hold, given back when
// there will be no more of them. Every operation is started under the mutex while the hold is had.
class ClientStream final : private grpc::ClientBidiReactor<FromStore, ToStore> {
 public:
  ClientStream(const std::string& address, const LinkSecurity& security, LinkId id,
               LinkEvents<ToStore>& events, LinkKind kind)
      : id_(id),
        address_(address),
        security_(security),
        stub_(wire::Tuner::NewStub(channel_to(address, security))),
        events_(&events) {
    if (kind == LinkKind::kStore) stub_->async()->Session(&context_, this);
    if (kind == LinkKind::kMember) stub_->async()->Member(&context_, this);
    AddHold();
    StartCall();
  }

  // The last event is there on return. False: gRPC has not let go of it within `patience`, and it
  // may not be destroyed before wait().
  bool end(std::chrono::nanoseconds patience) {
    read_ahead_->stop();
    std::unique_lock lock(mutex_);
    if (reason_.empty()) reason_ = "this side shut down";
    give_up();
    if (done_.wait_for(lock, patience, [&] { return is_done_; })) return true;
    std::exchange(events_, nullptr)->put({id_, LinkClosed{reason_}});
    return false;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return is_done_; });
  }

  void send(FromStore message) {
    const std::lock_guard lock(mutex_);
    if (closing_ || !held_) return;
    waiting_ += message.ByteSizeLong();
    queue_.push_back(std::move(message));
    advance();
  }

  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    if (is_done_) return;
    if (reason_.empty()) reason_ = "closed by this side";
    closing_ = true;
    // Reading ended, and the status that must follow did not come.
    if (!held_ && !half_closed_) context_.TryCancel();
    advance();
  }

  void end_if_revoked(const LinkSecurity& security) {
    const std::lock_guard lock(mutex_);
    if (!open_ || !is_revoked(security, certificate_)) return;
    reason_ = address_ + ": " + wire::revoked(wire::certified_name(*context_.auth_context()));
    give_up();
  }

 private:
  // Why who was dialled is not to be talked to; "" where it is the Tuner.
  std::string objection(std::optional<LinkRole> role, const std::string& certificate) const {
    if (role == LinkRole::kMember) {
      return "shows the certificate of a member of a training, not of the Tuner";
    }
    if (!is_revoked(security_, certificate)) return "";
    return wire::revoked(wire::certified_name(*context_.auth_context()));
  }

  void OnReadInitialMetadataDone(bool ok) override {
    const std::string shown = ok ? wire::shown_certificate(*context_.auth_context()) : "";
    const std::optional<LinkRole> role = link_role_of(shown);
    const std::string why_not = objection(role, shown);
    const std::lock_guard lock(mutex_);
    if (ok && why_not.empty() && events_) {
      events_->put({id_, LinkOpened{.peer = address_,
                                    .certified = wire::certified_name(*context_.auth_context()),
                                    .role = role}});
    }
    if (!ok || !events_) return release();
    if (!why_not.empty()) {
      reason_ = address_ + ": " + why_not;
      return give_up();
    }
    certificate_ = shown;
    open_ = true;
    StartRead(&incoming_);
    advance();
  }

  void OnReadDone(bool ok) override {
    const size_t bytes = ok ? incoming_.ByteSizeLong() : 0;
    const bool fits = bytes <= static_cast<size_t>(limits::kMessage);
    if (ok && fits) {
      ToStore message = std::move(incoming_);
      incoming_.Clear();  // before another thread may read on
      ReadAhead::Message ahead = read_ahead_->take(bytes);
      {
        const std::lock_guard lock(mutex_);
        if (!events_) return;
        events_->put({id_, std::move(message), std::move(ahead.held)});
      }
      if (ahead.read_on) StartRead(&incoming_);
      return;
    }
    const std::lock_guard lock(mutex_);
    if (fits) return release();
    reason_ = wire::too_large(address_, bytes);
    give_up();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) return release();
    advance();
  }

  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    held_ = false;
    if (reason_.empty()) {
      reason_ =
          status.ok() ? address_ + " closed the stream" : address_ + ": " + status.error_message();
    }
    if (events_) events_->put({id_, LinkClosed{reason_}});
    is_done_ = true;
    done_.notify_all();  // under the lock: the stream may be gone right after
  }

  void read_on() {
    const std::lock_guard lock(mutex_);
    if (held_) StartRead(&incoming_);
  }

  void give_up() {
    if (is_done_) return;
    context_.TryCancel();
    release();
  }

  void release() {
    queue_.clear();
    waiting_ = 0;
    if (std::exchange(held_, false)) RemoveHold();
  }

  void advance() {
    if (!open_ || writing_ || !held_) return;
    if (!queue_.empty()) {
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      waiting_ -= outgoing_.ByteSizeLong();
      writing_ = true;
      StartWrite(&outgoing_);
    } else if (closing_) {
      half_closed_ = true;
      StartWritesDone();
      release();
    }
  }

  const LinkId id_;
  const std::string address_;
  const LinkSecurity security_;
  const std::unique_ptr<wire::Tuner::Stub> stub_;
  grpc::ClientContext context_;
  ToStore incoming_;
  const std::shared_ptr<ReadAhead> read_ahead_ = std::make_shared<ReadAhead>([this] { read_on(); });
  mutable std::mutex mutex_;  // of all below
  std::condition_variable done_;
  LinkEvents<ToStore>* events_;  // null: nobody hears of it any more
  std::deque<FromStore> queue_;
  size_t waiting_ = 0;                // bytes of it
  FromStore outgoing_;                // while writing_
  std::string reason_, certificate_;  // the Tuner's, in PEM
  bool open_ = false, writing_ = false, closing_ = false, half_closed_ = false, is_done_ = false;
  bool held_ = true;
};

// What a role has of its stream.
class DialledLink final : public LinkClient {
 public:
  explicit DialledLink(std::shared_ptr<ClientStream> stream) : stream_(std::move(stream)) {}
  // A write that the system does not take, as of a peer that stands still, ends with the connection
  // alone, however the stream was cancelled; that may be never (a unix socket), and the role has
  // others to talk to. gRPC's own threads cannot destroy a channel: they would wait for themselves.
  ~DialledLink() override {
    if (stream_->end(kFarewell)) return;
    try {
      std::thread([stream = stream_] { stream->wait(); }).detach();
    } catch (const std::system_error&) {  // as many threads as can be
      stream_->wait();
    }
  }

  void send(FromStore message) override { stream_->send(std::move(message)); }
  size_t waiting() const override { return stream_->waiting(); }
  void close() override { stream_->close(); }
  void end_if_revoked(const LinkSecurity& security) override { stream_->end_if_revoked(security); }

 private:
  const std::shared_ptr<ClientStream> stream_;
};

}  // namespace

std::unique_ptr<LinkClient> LinkClient::dial(const std::string& address,
                                             const LinkSecurity& security, LinkId id,
                                             LinkEvents<ToStore>& events, LinkKind kind) {
  wire::log_grpc_quietly();
  return std::make_unique<DialledLink>(
      std::make_shared<ClientStream>(address, security, id, events, kind));
}

}  // namespace ndtrain::ndp
