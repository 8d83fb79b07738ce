#include "ndp/http/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>
#include <vector>

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* p) const {
    free(p);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Ssl = std::unique_ptr<SSL, Freed<SSL_free>>;

constexpr milliseconds kHandshake{10'000};  // that a write waits for, when none came before

// OpenSSL's last word, which is then forgotten.
std::string reason() {
  const unsigned long e = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(e);
  ERR_clear_error();
  return text ? text : "for no reason that OpenSSL tells";
}

Bio text_bio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::shared_ptr<SSL_CTX> new_context(const SSL_METHOD* method) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
    throw Error("OpenSSL: no TLS: ", reason());
  }
  // A write of ours is all or nothing, and its buffer may move.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

std::vector<std::unique_ptr<X509, Freed<X509_free>>> certificates_in(const std::string& text) {
  const Bio bio = text_bio(text);
  std::vector<std::unique_ptr<X509, Freed<X509_free>>> all;
  while (X509* c = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(c);
  ERR_clear_error();  // the end of the text
  return all;
}

// In brackets where it is IPv6, as in an URL.
std::string text_of(const ASN1_OCTET_STRING& address) {
  const int size = ASN1_STRING_length(&address);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (size != 4 && size != 16) return "";
  ::inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(&address), text.data(),
              text.size());
  return size == 4 ? std::string(text.data()) : "[" + std::string(text.data()) + "]";
}

std::vector<std::string> hosts_in(X509* certificate) {
  std::vector<std::string> hosts;
  const std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      hosts.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      hosts.push_back(text_of(*name->d.iPAddress));
    }
  }
  return hosts;
}

class TlsStream final : public Stream {
 public:
  TlsStream(std::unique_ptr<Stream> under, SSL_CTX* context)
      : under_(std::move(under)), ssl_(SSL_new(context)) {
    BIO* const bio = BIO_new(method());
    if (!ssl_ || !bio) throw Error("OpenSSL: no connection: ", reason());
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
  }
  ~TlsStream() override { ERR_clear_error(); }

  SSL* ssl() { return ssl_.get(); }

  Status connect(milliseconds patience) {
    begin(patience);
    const int r = SSL_connect(ssl_.get());
    return r == 1 ? Status() : failed("make a TLS connection", r);
  }

  Result<size_t> read(std::span<std::byte> to, milliseconds timeout) override {
    begin(timeout);
    const int most = static_cast<int>(std::min<size_t>(to.size(), INT_MAX));
    const int n = SSL_read(ssl_.get(), to.data(), most);
    if (n > 0) return static_cast<size_t>(n);
    if (SSL_get_error(ssl_.get(), n) == SSL_ERROR_ZERO_RETURN) return size_t{0};
    return failed("read", n);
  }

  Status write(std::span<const std::byte> bytes) override {
    begin(kHandshake);
    while (!bytes.empty()) {
      const int most = static_cast<int>(std::min<size_t>(bytes.size(), 1 << 20));
      const int n = SSL_write(ssl_.get(), bytes.data(), most);
      if (n <= 0) return failed("write", n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  void close() override { under_->close(); }
  std::string peer() const override { return under_->peer(); }

 private:
  using Steady = std::chrono::steady_clock;

  void begin(milliseconds timeout) {
    ERR_clear_error();
    trouble_ = {};
    until_ = Steady::now() + std::clamp(timeout, milliseconds(0), milliseconds(1'000'000'000));
  }

  Status failed(const char* what, int r) {
    const int error = SSL_get_error(ssl_.get(), r);
    const std::string why = reason();
    if (!trouble_.ok()) return trouble_;
    if (error == SSL_ERROR_SYSCALL) {
      return {Code::kIo, peer() + ": cannot " + what + ": the other side hung up"};
    }
    return {Code::kIo, peer() + ": cannot " + what + ": " + why};
  }

  static TlsStream& of(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }
  static int bio_read(BIO* bio, char* to, int size) {
    BIO_clear_retry_flags(bio);
    TlsStream& s = of(bio);
    const auto rest = std::chrono::ceil<milliseconds>(s.until_ - Steady::now());
    const Result<size_t> n =
        s.under_->read(std::as_writable_bytes(std::span(to, static_cast<size_t>(size))),
                       std::max(rest, milliseconds(0)));
    if (n.ok()) return static_cast<int>(*n);
    s.trouble_ = n.status();
    // A silence is no end: the next read goes on.
    if (n.status().code() == Code::kCancelled) BIO_set_retry_read(bio);
    return -1;
  }
  static int bio_write(BIO* bio, const char* from, int size) {
    BIO_clear_retry_flags(bio);
    TlsStream& s = of(bio);
    s.trouble_ = s.under_->write(std::as_bytes(std::span(from, static_cast<size_t>(size))));
    return s.trouble_.ok() ? size : -1;
  }
  static long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

  static const BIO_METHOD* method() {
    static BIO_METHOD* const kMethod = [] {
      BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ndtrain stream");
      BIO_meth_set_read(m, bio_read);
      BIO_meth_set_write(m, bio_write);
      BIO_meth_set_ctrl(m, bio_ctrl);
      return m;
    }();
    return kMethod;
  }

  const std::unique_ptr<Stream> under_;
  Steady::time_point until_;
  Status trouble_;  // of the stream below, in the call that is under way
  Ssl ssl_;         // before the others go
};

}  // namespace

Result<std::shared_ptr<const TlsServer>> TlsServer::make(const std::string& certificate,
                                                         const std::string& key) {
  const auto chain = certificates_in(certificate);
  if (chain.empty()) return Status(Code::kCorrupt, "there is no certificate in PEM");
  const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> own(
      PEM_read_bio_PrivateKey(text_bio(key).get(), nullptr, nullptr, const_cast<char*>("")));
  if (!own)
    return Status(Code::kCorrupt, "there is no key in PEM without a passphrase: " + reason());
  const std::shared_ptr<SSL_CTX> context = new_context(TLS_server_method());
  bool fits = SSL_CTX_use_certificate(context.get(), chain[0].get()) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), own.get()) == 1;
  for (size_t i = 1; fits && i < chain.size(); ++i) {
    fits = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  }
  if (!fits) return Status(Code::kCorrupt, "certificate and key do not fit: " + reason());
  return std::shared_ptr<const TlsServer>(new TlsServer(context, hosts_in(chain[0].get())));
}

Result<std::shared_ptr<const TlsClient>> TlsClient::make(const std::string& authorities) {
  const std::shared_ptr<SSL_CTX> context = new_context(TLS_client_method());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else {
    const auto all = certificates_in(authorities);
    if (all.empty()) return Status(Code::kCorrupt, "there is no certificate in PEM");
    for (const auto& c : all) X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), c.get());
  }
  return std::shared_ptr<const TlsClient>(new TlsClient(context));
}

Result<std::unique_ptr<Stream>> TlsClient::wrap(std::unique_ptr<Stream> stream,
                                                const std::string& host,
                                                milliseconds patience) const {
  auto tls = std::make_unique<TlsStream>(std::move(stream), context_.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl()), host.c_str()) != 1) {
    if (SSL_set1_host(tls->ssl(), host.c_str()) != 1 ||
        SSL_set_tlsext_host_name(tls->ssl(), host.c_str()) != 1) {
      return Status(Code::kUnsupported, host + ": is no name for a host: " + reason());
    }
  }
  if (const Status s = tls->connect(patience); !s.ok()) {
    const long verified = SSL_get_verify_result(tls->ssl());
    if (verified == X509_V_OK) return s;
    return Status(Code::kIo, tls->peer() + ": its certificate does not do: " +
                                 X509_verify_cert_error_string(verified));
  }
  return std::unique_ptr<Stream>(std::move(tls));
}

}  // namespace ndtrain::ndp
