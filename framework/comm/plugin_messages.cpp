#include "framework/comm/plugin_messages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ndtrain {
namespace {

constexpr int32_t kLeastTags = 1024;  // of messages between two ranks at once

}  // namespace

PluginMessages::PluginMessages(const ndt_comm_plugin& plugin, ndt_comm* comm)
    : plugin_(plugin), comm_(comm) {
  std::string why;
  if (plugin.device_memory) why = "its memory is a device's";
  if (plugin.tags < kLeastTags) why = "it has only " + std::to_string(plugin.tags) + " tags";
  if (why.empty()) return;
  plugin.abandon(comm);
  throw Error(plugin.name, ": this plugin moves no messages of the host: ", why);
}

PluginMessages::~PluginMessages() { abandon(); }

// Pieces of a pair arrive in order, so that they need no tags of their own.
template <typename Begin>
PluginMessages::Id PluginMessages::begin(uint64_t bytes, Begin&& piece) {
  const Id id = ++last_;
  if (failure_.ok() && open_) {
    Message& m = messages_[id];
    uint64_t offset = 0;
    do {
      const uint64_t length = std::min(bytes - offset, plugin_.most_bytes);
      ++m.pieces;
      if (piece(offset, length, id) != NDT_COMM_OK) {
        fail();
        return id;
      }
      offset += length;
    } while (offset < bytes);
  } else {
    refused_.push_back({id, failure_.ok() ? Status(Code::kIo, "abandoned") : failure_});
  }
  return id;
}

PluginMessages::Id PluginMessages::send(int to, int32_t tag, std::span<const std::byte> bytes) {
  return begin(bytes.size(), [&](uint64_t offset, uint64_t length, Id id) {
    return plugin_.send(comm_, to, tag, bytes.data() + offset, length, nullptr, id);
  });
}

PluginMessages::Id PluginMessages::receive(int from, int32_t tag, std::span<std::byte> into) {
  return begin(into.size(), [&](uint64_t offset, uint64_t length, Id id) {
    return plugin_.receive(comm_, from, tag, into.data() + offset, length, nullptr, id);
  });
}

PluginMessages::Id PluginMessages::collect(LibraryCollective what, std::span<const float> in,
                                           std::span<float> out) {
  const auto function = what == LibraryCollective::kReduceScatter ? plugin_.reduce_scatter
                        : what == LibraryCollective::kAllGather   ? plugin_.all_gather
                                                                  : plugin_.all_reduce;
  return begin(0, [&](uint64_t, uint64_t, Id id) {
    return function(comm_, in.data(), out.data(), std::min(in.size(), out.size()), NDT_COMM_F32,
                    nullptr, id);
  });
}

void PluginMessages::take_ended(std::vector<Ended>& ended) {
  constexpr int32_t kRoom = 64;
  ndt_comm_done done[kRoom];
  int32_t n = kRoom;
  while (n == kRoom && open_ && failure_.ok()) {
    n = 0;
    if (plugin_.test_some(comm_, done, kRoom, &n) != NDT_COMM_OK) fail();
    for (const ndt_comm_done& d : std::span(done, static_cast<size_t>(n))) {
      const auto it = messages_.find(d.request);
      if (it == messages_.end()) continue;
      Message& m = it->second;
      m.bytes += d.bytes;
      if (d.status == NDT_COMM_TRUNCATED) {
        m.status = Status(Code::kCorrupt, "what came is longer than what was announced");
      } else if (d.status != NDT_COMM_OK) {
        m.status = Status(Code::kIo, std::string(plugin_.name) + ": " + plugin_.last_error());
      }
      if (--m.pieces > 0) continue;
      ended.push_back({it->first, std::move(m.status), m.bytes});
      messages_.erase(it);
    }
  }
  std::ranges::move(refused_, std::back_inserter(ended));
  refused_.clear();
}

// The library is not asked again.
void PluginMessages::fail() {
  failure_ = Status(Code::kIo, std::string(plugin_.name) + ": " + plugin_.last_error());
  for (const auto& [id, m] : messages_) refused_.push_back({id, failure_});
  abandon();
}

void PluginMessages::close() {
  if (std::exchange(open_, false)) plugin_.close(comm_);
}

void PluginMessages::abandon() {
  if (!std::exchange(open_, false)) return;
  messages_.clear();
  plugin_.abandon(comm_);
}

}  // namespace ndtrain
