// Messages of any length over a communication plugin, which takes them up to some length only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "framework/comm/comm_abi.h"
#include "framework/comm/transport.h"
#include "framework/core/status.h"

namespace ndtrain {

// What the library has been given cannot be taken back: its memory stays where it is until
// take_ended() names it, or abandon() was called. One thread at a time.
class PluginMessages {
 public:
  using Id = uint64_t;  // never 0, never used twice
  struct Ended {
    Id id = 0;
    Status status;
    uint64_t bytes = 0;  // that came
  };

  // Takes the group over.
  PluginMessages(const ndt_comm_plugin& plugin, ndt_comm* comm);
  ~PluginMessages();  // abandon()s, unless close()d
  PluginMessages(const PluginMessages&) = delete;
  PluginMessages& operator=(const PluginMessages&) = delete;

  int rank() const { return plugin_.rank(comm_); }
  int ranks() const { return plugin_.size(comm_); }
  const char* host(int rank) const { return plugin_.host(comm_, rank); }
  int32_t tags() const { return plugin_.tags; }

  Id send(int to, int32_t tag, std::span<const std::byte> bytes);
  // A message as long as that, or shorter where both fit into one of the library's.
  Id receive(int from, int32_t tag, std::span<std::byte> into);
  // The library's own, where it has all of them (transport.h).
  bool has_collectives() const {
    return plugin_.reduce_scatter && plugin_.all_gather && plugin_.all_reduce;
  }
  Id collect(std::span<const LibraryCall> calls, void* after);
  // Moves what can be moved, and adds what has ended since, each once. When the library fails, all
  // that is under way ends with kIo, and all that is begun afterwards.
  void take_ended(std::vector<Ended>& ended);
  size_t under_way() const { return messages_.size(); }

  // In good order, with nothing under way; all ranks do.
  void close();
  // Nothing is read, written or ended any more.
  void abandon();

 private:
  struct Message {
    uint64_t pieces = 0, bytes = 0;
    Status status;
  };

  bool usable() const { return failure_.ok() && open_; }
  Id refuse(Id id);
  template <typename Begin>
  Id begin(uint64_t bytes, Begin&& piece);
  ndt_comm_status begin_call(const LibraryCall& call, void* after, Id id);
  void fail();

  const ndt_comm_plugin& plugin_;
  ndt_comm* comm_;
  bool open_ = true;
  Id last_ = 0;
  Status failure_;
  std::map<Id, Message> messages_;
  std::vector<Ended> refused_;  // begun after the failure
};

}  // namespace ndtrain
