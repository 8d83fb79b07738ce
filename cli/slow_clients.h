// Clients that keep an HTTP server waiting, in each of the ways there are, and come again when they
// are dropped. For benches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/net.h"
#include "ndp/http/http_client.h"

namespace ndtrain::cli {
using namespace ndp;

class SlowClients {
 public:
  enum class Kind {
    kHeads,    // a byte of a request's head each second, and never its end
    kBodies,   // the same of a body that was announced
    kReaders,  // a few requests, of whose answers they take a byte each second
  };
  struct Setting {
    std::string address;  // with http:// or https://, or neither
    HttpTrust trust = {};
    std::vector<Kind> kinds = {Kind::kHeads};  // by turns
    std::string path = "/healthz";             // that they ask for
    // They come from 127.0.0.2 and the addresses behind it, so many, by turns; 0: from whichever
    // the system takes. At most 250.
    int64_t addresses = 0;
  };

  // Throws UsageError for a kind that there is not.
  static std::vector<Kind> kinds_of(const std::vector<std::string>& names);

  explicit SlowClients(Setting setting);

  // Those from number `first` on, `n` of them, until `over`.
  void hold(int64_t first, int64_t n, const std::atomic<bool>& over);
  int64_t dialled() const { return dialled_; }

 private:
  std::unique_ptr<Stream> dial(int64_t number);
  Kind kind(int64_t number) const {
    return setting_.kinds[static_cast<size_t>(number) % setting_.kinds.size()];
  }
  std::string opening(Kind kind) const;

  Setting setting_;
  const bool secure_;
  std::atomic<int64_t> dialled_ = 0;
};

}  // namespace ndtrain::cli
