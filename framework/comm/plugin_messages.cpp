#include "framework/comm/plugin_messages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ndtrain {

PluginMessages::PluginMessages(const ndt_comm_plugin& plugin, ndt_comm* comm)
    : plugin_(plugin), comm_(comm) {}

PluginMessages::~PluginMessages() { abandon(); }

PluginMessages::Id PluginMessages::refuse(Id id) {
  refused_.push_back({id, failure_.ok() ? Status(Code::kIo, "abandoned") : failure_});
  return id;
}

// Pieces of a pair arrive in order, so that they need no tags of their own.
template <typename Begin>
PluginMessages::Id PluginMessages::begin(uint64_t bytes, Begin&& piece) {
  const Id id = ++last_;
  if (!usable()) return refuse(id);
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

ndt_comm_status PluginMessages::begin_call(const LibraryCall& call, void* after, Id id) {
  const float* const in = call.in.data();
  float* const out = call.out.data();
  const size_t count = std::min(call.in.size(), call.out.size());
  switch (call.what) {
    case LibraryCollective::kReduceScatter:
      return plugin_.reduce_scatter(comm_, in, out, count, NDT_COMM_F32, after, id);
    case LibraryCollective::kAllGather:
      return plugin_.all_gather(comm_, in, out, count, NDT_COMM_F32, after, id);
    case LibraryCollective::kReduce:
      return plugin_.reduce(comm_, in, out, count, NDT_COMM_F32, call.root, after, id);
    case LibraryCollective::kBroadcast:
      return plugin_.broadcast(comm_, in, out, count, NDT_COMM_F32, call.root, after, id);
    default:
      return plugin_.all_reduce(comm_, in, out, count, NDT_COMM_F32, after, id);
  }
}

PluginMessages::Id PluginMessages::collect(std::span<const LibraryCall> calls, void* after) {
  const Id id = ++last_;
  if (!usable()) return refuse(id);
  messages_[id].pieces = calls.size();
  const bool together = calls.size() > 1;
  bool ok = !together || plugin_.group_begin(comm_) == NDT_COMM_OK;
  for (const LibraryCall& call : calls) ok = ok && begin_call(call, after, id) == NDT_COMM_OK;
  if (together) ok = ok && plugin_.group_end(comm_) == NDT_COMM_OK;
  if (!ok) fail();
  return id;
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
