#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "framework/core/log.h"
#include "framework/core/net.h"
#include "ndp/wire/grpc_certificates.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/grpc_peer.h"
#include "ndp/wire/read_ahead.h"
#include "ndp/wire/wire.grpc.pb.h"

namespace ndtrain::ndp {
namespace {

using wire::FromStore, wire::ToStore;

// One peer's stream. Calls of gRPC and of the role come on any thread; every operation is
// started under the mutex, so that none follows Finish.
class ServerStream final : public grpc::ServerBidiReactor<FromStore, ToStore> {
 public:
  // `gone` may destroy the stream.
  ServerStream(LinkId id, grpc::CallbackServerContext& context, LinkEvents<FromStore>& events,
               std::function<void()> gone)
      : id_(id),
        context_(context),
        peer_(wire::readable_peer(context.peer())),
        certified_(wire::certified_name(*context.auth_context())),
        hosts_(wire::certified_hosts(*context.auth_context())),
        certificate_(wire::shown_certificate(*context.auth_context())),
        role_(link_role_of(certificate_)),
        events_(events),
        gone_(std::move(gone)) {}

  void start() {
    events_.put({id_, LinkOpened{peer_, certified_, hosts_, role_}});
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    StartSendInitialMetadata();  // tells the client that it is connected
    StartRead(&incoming_);
  }

  void send(ToStore message) {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    waiting_ += message.ByteSizeLong();
    queue_.push_back(std::move(message));
    advance();
  }

  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = "closed by this side";
    closing_ = true;
    advance();
  }

  // Without what is queued.
  void abandon(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    drop_queue();
  }

  void end_if_revoked(const LinkSecurity& security) {
    if (!is_revoked(security, certificate_)) return;
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    reason_ = peer_ + ": " + wire::revoked(certified_);
    status_ = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, wire::revoked(certified_));
    if (writing_) context_.TryCancel();  // it could take for ever
    drop_queue();
  }

  void OnReadDone(bool ok) override {
    const size_t bytes = ok ? incoming_.ByteSizeLong() : 0;
    const bool fits = bytes <= static_cast<size_t>(limits::kMessage);
    if (ok && fits) {
      FromStore message = std::move(incoming_);
      incoming_.Clear();  // before another thread may read on
      ReadAhead::Message ahead = read_ahead_->take(bytes);
      events_.put({id_, std::move(message), std::move(ahead.held)});
      if (ahead.read_on) read_on();
      return;
    }
    const std::lock_guard lock(mutex_);
    if (!fits) {
      reason_ = wire::too_large(peer_, bytes);
      status_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, reason_);
      clear_queue();
    }
    closing_ = true;
    advance();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) {
      advance();
    } else {
      drop_queue();
    }
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    drop_queue();
  }

  void OnDone() override {
    read_ahead_->stop();
    events_.put({id_, LinkClosed{reason()}});
    const std::function<void()> gone = std::move(gone_);
    gone();
  }

 private:
  void read_on() {
    const std::lock_guard lock(mutex_);
    if (!finished_) StartRead(&incoming_);
  }

  void clear_queue() {
    queue_.clear();
    waiting_ = 0;
  }

  void drop_queue() {
    clear_queue();
    closing_ = true;
    advance();
  }

  void advance() {
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      waiting_ -= outgoing_.ByteSizeLong();
      writing_ = true;
      StartWrite(&outgoing_);
    } else if (closing_) {
      finished_ = true;
      Finish(status_);
    }
  }

  std::string reason() {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return reason_;
    if (!broken_) return peer_ + " closed the stream";
    return peer_ + ": the stream broke (the connection was lost, or a message had more than " +
           std::to_string(wire::kGrpcMessage) + " bytes)";
  }

  const LinkId id_;
  grpc::CallbackServerContext& context_;
  const std::string peer_, certified_;
  const std::vector<std::string> hosts_;
  const std::string certificate_;  // PEM; "": none
  const std::optional<LinkRole> role_;
  LinkEvents<FromStore>& events_;
  std::function<void()> gone_;
  FromStore incoming_;
  const std::shared_ptr<ReadAhead> read_ahead_ = std::make_shared<ReadAhead>([this] { read_on(); });
  std::mutex mutex_;  // of all below
  std::deque<ToStore> queue_;
  size_t waiting_ = 0;  // bytes of it
  ToStore outgoing_;    // while writing_
  std::string reason_;
  grpc::Status status_;
  bool writing_ = false, closing_ = false, broken_ = false;
  bool finished_ = false;  // nothing may be started any more
};

// A stream that ends before it began.
class RefusedStream final : public grpc::ServerBidiReactor<FromStore, ToStore> {
 public:
  explicit RefusedStream(const std::string& why) {
    Finish(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, why));
  }
  void OnDone() override { delete this; }
};

class GrpcServer final : public LinkServer, private wire::Tuner::CallbackService {
 public:
  GrpcServer(LinkEvents<FromStore>& events, LinkEvents<FromStore>* members)
      : events_(events), members_(members) {}

  ~GrpcServer() override {
    if (!server_) return;
    std::map<LinkId, std::shared_ptr<ServerStream>> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    for (const auto& [id, stream] : streams) stream->abandon("this side shut down");
    server_->Shutdown(std::chrono::system_clock::now());
    std::unique_lock lock(mutex_);
    empty_.wait(lock, [&] { return streams_.empty(); });
  }

  // Once, before anything else.
  Status serve(const std::string& address, const LinkSecurity& security) {
    security_ = security;
    if (security.on()) certificates_ = std::make_shared<wire::ServerCertificates>(security);
    grpc::ServerBuilder builder;
    for (const auto& [name, value] : wire::channel_settings()) {
      builder.AddChannelArgument(name, value);
    }
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterService(this);
    int port = 0;
    builder.AddListeningPort(
        address, certificates_ ? certificates_ : grpc::InsecureServerCredentials(), &port);
    server_ = builder.BuildAndStart();
    if (!server_) {
      return Status(Code::kIo, address + ": cannot listen" +
                                   (security.on() ? "; are certificate, key and authority in PEM, "
                                                    "and does the key belong to the certificate?"
                                                  : ""));
    }
    address_ = address.starts_with("unix:")
                   ? address
                   : address.substr(0, address.rfind(':') + 1) + std::to_string(port);
    return Status();
  }

  std::string address() const override { return address_; }

  void send(LinkId link, ToStore message) override {
    if (const auto stream = find(link)) stream->send(std::move(message));
  }

  size_t waiting(LinkId link) const override {
    const auto stream = find(link);
    return stream ? stream->waiting() : 0;
  }

  void close(LinkId link) override {
    if (const auto stream = find(link)) stream->close();
  }

  void renew(const LinkSecurity& security) override {
    if (certificates_) certificates_->renew(security);
    std::map<LinkId, std::shared_ptr<ServerStream>> streams;
    {
      const std::lock_guard lock(mutex_);
      security_ = security;
      streams = streams_;
    }
    for (const auto& [id, stream] : streams) stream->end_if_revoked(security);
  }

 private:
  static LinkId new_id() {
    static std::atomic<LinkId> last{0};  // of the process: servers may share their events
    return ++last;
  }

  using Reactor = grpc::ServerBidiReactor<FromStore, ToStore>;

  Reactor* Session(grpc::CallbackServerContext* context) override {
    return begin(*context, events_);
  }

  Reactor* Member(grpc::CallbackServerContext* context) override {
    return members_ ? begin(*context, *members_) : wire::Tuner::CallbackService::Member(context);
  }

  Reactor* begin(grpc::CallbackServerContext& context, LinkEvents<FromStore>& events) {
    const LinkId id = new_id();
    const auto stream =
        std::make_shared<ServerStream>(id, context, events, [this, id] { remove(id); });
    {
      const std::lock_guard lock(mutex_);
      if (is_revoked(security_, wire::shown_certificate(*context.auth_context()))) {
        return refused(context);
      }
      streams_.emplace(id, stream);
    }
    stream->start();
    return stream.get();
  }

  static Reactor* refused(const grpc::CallbackServerContext& context) {
    const std::string why = wire::revoked(wire::certified_name(*context.auth_context()));
    log::warn("{}: refused: {}", wire::readable_peer(context.peer()), why);
    return new RefusedStream(why);
  }

  std::shared_ptr<ServerStream> find(LinkId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = streams_.find(id);
    return it == streams_.end() ? nullptr : it->second;
  }

  // The last that a stream does with the server.
  void remove(LinkId id) {
    std::shared_ptr<ServerStream> stream;  // dies without the lock
    const std::lock_guard lock(mutex_);
    stream = std::move(streams_.at(id));
    streams_.erase(id);
    if (streams_.empty()) empty_.notify_all();
  }

  LinkEvents<FromStore>& events_;
  LinkEvents<FromStore>* const members_;
  std::string address_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  LinkSecurity security_;
  std::map<LinkId, std::shared_ptr<ServerStream>> streams_;
  std::shared_ptr<wire::ServerCertificates> certificates_;  // null: in the clear
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<LinkServer>> LinkServer::listen(const std::string& address,
                                                       const LinkSecurity& security,
                                                       LinkEvents<FromStore>& events,
                                                       LinkEvents<FromStore>* members) {
  wire::log_grpc_quietly();
  // gRPC does not say why it cannot have an address, and takes a unix socket from its owner.
  if (const auto probe = real_net().listen(address); !probe.ok()) {
    return Status(Code::kIo, probe.status().message());
  }
  auto server = std::make_unique<GrpcServer>(events, members);
  if (const Status s = server->serve(address, security); !s.ok()) return s;
  return std::unique_ptr<LinkServer>(std::move(server));
}

}  // namespace ndtrain::ndp
