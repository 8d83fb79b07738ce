// How many requests that are of no urgency are taken at a time, so that neither uploads nor one
// client keep all others out. A pure state machine; one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ndp/http/fair_queue.h"

namespace ndtrain::ndp {

class RequestBounds {
 public:
  // `most` of all clients; of uploads, and of one client, three quarters of these.
  explicit RequestBounds(int64_t most) : most_(most), part_(std::max<int64_t>(1, most * 3 / 4)) {}

  // Why there is no room for one more; absent: there is. `client` is "" for one that stands for
  // many, which has no bound of its own. Those of health and operators always have room.
  std::optional<std::string> objection(RequestClass of, const std::string& client) const {
    if (of < RequestClass::kPerson) return std::nullopt;
    if (taken_ >= most_) return "as many requests are being answered as can be";
    if (of == RequestClass::kUpload && uploads_ >= part_) {
      return "as many uploads are being answered as can be";
    }
    const auto own = clients_.find(client);
    if (!client.empty() && own != clients_.end() && own->second >= part_) {
      return client + " has " + std::to_string(own->second) +
             " requests under way, as many as one client may have";
    }
    return std::nullopt;
  }

  void take(RequestClass of, const std::string& client) {
    if (of < RequestClass::kPerson) return;
    ++taken_;
    uploads_ += of == RequestClass::kUpload;
    ++clients_[client];
  }
  void give_back(RequestClass of, const std::string& client) {
    if (of < RequestClass::kPerson) return;
    --taken_;
    uploads_ -= of == RequestClass::kUpload;
    const auto own = clients_.find(client);
    if (--own->second == 0) clients_.erase(own);
  }

 private:
  const int64_t most_, part_;
  int64_t taken_ = 0, uploads_ = 0;
  std::map<std::string, int64_t> clients_;
};

}  // namespace ndtrain::ndp
