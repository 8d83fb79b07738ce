// Messages between the ranks of a run: whole, and in order for each (peer, tag), by requests that
// end later. Memory and TCP implement it, a link model around another (link_model.h), and a library
// of collectives beside another (library_transport.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/status.h"

namespace ndtrain {

// Collectives of all ranks by a library below, which adds up in an order of its own.
enum class LibraryCollective : uint8_t {
  kReduceScatter,
  kAllGather,
  kAllReduce,
  kReduce,
  kBroadcast
};

// A rank's part is as long as the shorter of `in` and `out`, the other one has the parts of all;
// from kAllReduce on both are the whole. In place kAllReduce, kReduce and kBroadcast may be, and
// kAllGather: `in` is then this rank's part of `out`. kReduceScatter may be likewise on a device.
struct LibraryCall {
  LibraryCollective what;
  std::span<const float> in;
  std::span<float> out;
  int root = 0;  // of kReduce and kBroadcast
};

// One thread makes all calls but wake(). Bytes move while a rank polls, if not before. A message
// goes to the receive of its tag that has waited longest; one that comes before its receive waits
// for it. A message of another length than its receive is a broken run: it ends the connection with
// kCorrupt, and the Status names peer and tag.
class Transport {
 public:
  using Request = uint64_t;  // never used twice
  struct Done {
    Request request = 0;
    Status status;  // not ok: the peer is gone, or kCancelled by begin_generation()
  };

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;                 // the peers are 0 … ranks() - 1 but rank()
  virtual std::string peer(int rank) const = 0;  // for people: "rank 1 (10.0.0.7:41234)"

  // The bytes stay where they are, untouched, until the request is done. A sent message need not
  // have arrived by then. Throws Error where the peer is no other rank.
  virtual Request send(int to, uint64_t tag, std::span<const std::byte> bytes) = 0;
  // The same of what may be late: each later send() overtakes it unless it has begun to leave.
  // Where a transport cannot tell, it is send().
  virtual Request send_bulk(int to, uint64_t tag, std::span<const std::byte> bytes) {
    return send(to, tag, bytes);
  }
  virtual Request receive(int from, uint64_t tag, std::span<std::byte> into) = 0;
  // Whether there is such a library; memory and TCP have none.
  virtual bool has_collectives() const { return false; }
  // Its memory is a device's, all five kinds are there, and any number of calls is one operation;
  // else the first three, one by one.
  virtual bool collects_on_device() const { return false; }
  // All ranks begin them in one order, on as many values. On a device they wait for what `after`, a
  // native stream of it, has been given so far; null: for nothing. Throws Error where there is no
  // library.
  virtual Request collect(std::span<const LibraryCall> /*calls*/, void* /*after*/) {
    throw Error("Transport: there is no library of collectives below this one");
  }
  // Adds what is done, each request once; without any waits for one, at most `patience`, or until
  // somebody calls wake().
  virtual void poll(std::vector<Done>& done, std::chrono::nanoseconds patience) = 0;
  // poll() returns, at once or the next time. Thread-safe.
  virtual void wake() = 0;

  // All requests end with kCancelled, and their bytes are free on return. What peers had to say to
  // them is lost: what follows in this generation is as undefined as a run that goes on without it.
  virtual void cancel() = 0;
  // As cancel(); then the group is made anew of `members`, this rank among them. Connections with
  // other ranks end. Messages of earlier generations are dropped, those of later ones wait until
  // this rank begins theirs. A transport begins with generation 0 and all ranks. Throws Error
  // unless `generation` is higher than before.
  virtual void begin_generation(uint32_t generation, std::span<const int> members) = 0;
  // The latest generation that a message has come of, where this rank is behind it: somebody has
  // begun it, and poll() has returned for it. 0: none, or this transport cannot tell.
  virtual uint32_t later_generation() { return 0; }
};

}  // namespace ndtrain
