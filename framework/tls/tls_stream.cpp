#include "framework/tls/tls_stream.h"

#include <openssl/err.h>

#include <algorithm>
#include <utility>

#include "framework/core/text.h"
#include "framework/tls/tls_context.h"

namespace ndtrain::tls {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHandshake{10'000};  // that a write waits for, when none came before
constexpr milliseconds kLast{1'000};        // that who was refused is listened to
constexpr size_t kPart = 256 << 10;         // of a write

constexpr std::string_view kAlert = "alert ";

std::chrono::steady_clock::time_point after(milliseconds timeout) {
  return std::chrono::steady_clock::now() +
         std::clamp(timeout, milliseconds(0), milliseconds(std::chrono::hours(24 * 365)));
}

bool is_about_certificates(int alert) {
  return (SSL_AD_BAD_CERTIFICATE <= alert && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_CERTIFICATE_REQUIRED;
}

}  // namespace

void OpenStreams::add(TlsStream& stream) {
  const std::lock_guard lock(mutex_);
  all_.insert(&stream);
}

void OpenStreams::remove(TlsStream& stream) {
  const std::lock_guard lock(mutex_);
  all_.erase(&stream);
}

void OpenStreams::revoke(std::vector<pem::RevocationList> lists) {
  const std::lock_guard lock(mutex_);
  lists_ = std::move(lists);
  for (TlsStream* stream : all_) {
    const pem::Certificate shown = stream->shown();
    if (shown && names(*shown)) stream->end_revoked();
  }
}

bool OpenStreams::refuses(X509& certificate) const {
  const std::lock_guard lock(mutex_);
  return names(certificate);
}

bool OpenStreams::names(X509& certificate) const {
  return std::ranges::any_of(lists_,
                             [&](const auto& list) { return pem::is_revoked(certificate, *list); });
}

TlsStream::TlsStream(std::unique_ptr<Stream> below, SSL_CTX* context, End end, uint64_t rekey_bytes,
                     std::shared_ptr<OpenStreams> among)
    : below_(std::move(below)),
      rekey_bytes_(rekey_bytes),
      among_(std::move(among)),
      ssl_(SSL_new(context)),
      from_below_(BIO_new(BIO_s_mem())),
      to_below_(BIO_new(BIO_s_mem())) {
  if (!ssl_ || !from_below_ || !to_below_) throw Error("OpenSSL: no connection: ", last_reason());
  SSL_set_bio(ssl_.get(), from_below_, to_below_);
  end == End::kDialled ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  if (among_) among_->add(*this);
}

TlsStream::~TlsStream() {
  if (among_) among_->remove(*this);
  ERR_clear_error();
}

pem::Certificate TlsStream::shown() {
  if (!ready_) return nullptr;
  const std::lock_guard lock(ssl_mutex_);
  return pem::Certificate(SSL_get1_peer_certificate(ssl_.get()));
}

void TlsStream::end_revoked() {
  revoked_ = true;
  below_->close();
}

Status TlsStream::with_reason(const Status& status) const {
  if (!revoked_) return status;
  return {Code::kCorrupt, peer() + ": its certificate was revoked"};
}

Status TlsStream::expect(const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1) return {};
  if (SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
      SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1) {
    return {};
  }
  return {Code::kUnsupported, host + ": is no name for a host: " + last_reason()};
}

Status TlsStream::handshake(milliseconds patience) { return handshake_until(after(patience)); }

Status TlsStream::handshake_until(Deadline deadline) {
  if (ready_) return {};
  const std::lock_guard lock(handshake_);
  while (!ready_ && broken_.ok()) {
    ERR_clear_error();
    const int r = SSL_do_handshake(ssl_.get());
    if (r != 1 && SSL_get_error(ssl_.get(), r) != SSL_ERROR_WANT_READ) {
      broken_ = failed("make a TLS connection");
    }
    take_outgoing();
    const Status told = outgoing_.empty() ? Status() : below_->write(outgoing_);
    if (!broken_.ok()) {
      if (SSL_is_server(ssl_.get()) == 1) drain();
      break;
    }
    if (!told.ok()) return told;
    if (r == 1) {
      ready_ = true;  // from here on revoke() looks at it, and it is not between two lists
      const pem::Certificate other = shown();
      if (among_ && other && among_->refuses(*other)) end_revoked();
    } else if (Status s = feed(deadline); !s.ok()) {
      return s;
    }
  }
  return broken_;
}

Result<size_t> TlsStream::read(std::span<std::byte> to, milliseconds timeout) {
  if (to.empty()) throw Error("Stream: read into an empty buffer");
  const Deadline deadline = after(timeout);
  if (Status s = handshake_until(deadline); !s.ok()) return s;
  for (;;) {
    {
      const std::lock_guard lock(ssl_mutex_);
      ERR_clear_error();
      size_t n = 0;
      if (SSL_read_ex(ssl_.get(), to.data(), to.size(), &n) == 1) return n;
      const int error = SSL_get_error(ssl_.get(), 0);
      if (error == SSL_ERROR_ZERO_RETURN) return size_t{0};
      if (error != SSL_ERROR_WANT_READ) return failed("read");
    }
    if (Status s = feed(deadline); !s.ok()) return with_reason(s);
  }
}

// What OpenSSL has to say to what it has read goes with the next write: a reader that writes could
// wait for a peer that waits for it.
Status TlsStream::write(std::span<const std::byte> bytes) {
  if (Status s = handshake_until(after(kHandshake)); !s.ok()) return s;
  const std::lock_guard order(writing_);
  while (!bytes.empty()) {
    const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), kPart));
    {
      const std::lock_guard lock(ssl_mutex_);
      ERR_clear_error();
      if (written_ >= rekey_bytes_ && SSL_version(ssl_.get()) >= TLS1_3_VERSION) {
        written_ = 0;
        if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return failed("write");
      }
      size_t n = 0;
      if (SSL_write_ex(ssl_.get(), part.data(), part.size(), &n) != 1) return failed("write");
      written_ += n;
      take_outgoing();
    }
    if (Status s = below_->write(outgoing_); !s.ok()) return with_reason(s);
    bytes = bytes.subspan(part.size());
  }
  return {};
}

Status TlsStream::feed(Deadline deadline) {
  const auto rest = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  const Result<size_t> n = below_->read(incoming_, std::max(rest, milliseconds(0)));
  if (!n.ok()) return n.status();
  if (*n == 0) return {Code::kIo, peer() + ": cannot read: the other side hung up"};
  const std::lock_guard lock(ssl_mutex_);
  size_t taken = 0;
  if (BIO_write_ex(from_below_, incoming_.data(), *n, &taken) != 1 || taken != *n) {
    throw Error("OpenSSL: no memory for what has come");
  }
  return {};
}

// A stream that is closed with bytes unread takes what it was told last along.
void TlsStream::drain() {
  const Deadline end = after(kLast);
  for (auto rest = kLast; rest > milliseconds(0);
       rest = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now())) {
    const Result<size_t> n = below_->read(incoming_, rest);
    if (!n.ok() || *n == 0) return;
  }
}

void TlsStream::take_outgoing() {
  char* data = nullptr;
  const long size = BIO_get_mem_data(to_below_, &data);
  const auto bytes = std::as_bytes(std::span(data, static_cast<size_t>(size)));
  outgoing_.assign(bytes.begin(), bytes.end());
  BIO_reset(to_below_);
}

Status TlsStream::failed(const char* what) {
  const unsigned long e = ERR_peek_last_error();
  const std::string why = last_reason();
  if (const long verified = SSL_get_verify_result(ssl_.get()); verified != X509_V_OK) {
    return {Code::kCorrupt, peer() + ": its certificate does not do: " + objection(verified)};
  }
  const int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
  if (is_about_certificates(reason - SSL_AD_REASON_OFFSET)) {
    const size_t alert = why.find(kAlert);  // behind the version of the protocol
    return {Code::kCorrupt, peer() + ": refuses the certificate of this side: " +
                                (alert == why.npos ? why : why.substr(alert + kAlert.size()))};
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return {Code::kCorrupt, peer() + ": speaks no TLS"};
  }
  return {Code::kCorrupt, peer() + ": cannot " + what + ": " + why};
}

std::string TlsStream::objection(long verified) const {
  const bool is_server = SSL_is_server(ssl_.get()) == 1;
  std::string why = is_server && verified == X509_V_ERR_INVALID_PURPOSE
                        ? "it is not for clients and servers, as that of a rank is"
                        : X509_verify_cert_error_string(verified);
  STACK_OF(X509)* const chain = SSL_get0_verified_chain(ssl_.get());
  if (chain == nullptr || sk_X509_num(chain) == 0) return why;
  return why + " (it is of '" + printable(pem::name_in(*sk_X509_value(chain, 0)), 80) + "')";
}

}  // namespace ndtrain::tls
