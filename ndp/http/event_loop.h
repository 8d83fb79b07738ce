// One thread that waits for many sockets at a time. Boost.Asio stays in the source.
//
// All that a loop calls, it calls on its thread; nothing of it may wait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "framework/core/net.h"
#include "framework/tls/tls.h"

namespace ndtrain::ndp {

// On the loop's thread. Lives until every call has had its answer.
class LoopSocket {
 public:
  // Whether it was done, and how many bytes; not done: the socket is of no use any more. The end of
  // what comes is no bytes, done.
  using Done = std::function<void(bool done, size_t bytes)>;

  virtual ~LoopSocket() = default;
  virtual void handshake(Done done) = 0;  // at once in the clear
  // One of each kind at a time; what they read into and write from stays until they are done.
  virtual void read_some(std::span<char> to, Done done) = 0;
  virtual void write_some(std::span<const char> from, Done done) = 0;
  // Nothing will be written any more. Over TLS after the other side has said so too.
  virtual void end_writing(Done done) = 0;
  virtual void close() = 0;  // what is under way is not done
  virtual bool secure() const = 0;
};

class EventLoop {
 public:
  struct Arrival {
    std::unique_ptr<LoopSocket> socket;
    std::string peer, local;         // addresses as text, without ports; the path of a unix socket
    std::optional<uid_t> user = {};  // of the client, where it is of this machine (peer_user.h)
  };

  EventLoop();
  ~EventLoop();  // after every socket is closed and has had its answers
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void post(std::function<void()> f);  // from any thread
  // Calls `tick` every so often, and `arrived` for each connection while there is `room`; without,
  // they wait until the next tick. Both until stop().
  struct Calls {
    std::function<void(Arrival)> arrived;
    std::function<bool()> room;
    std::function<void()> tick;
    std::chrono::milliseconds every{50};
  };
  void serve(std::unique_ptr<Listener> listener, std::shared_ptr<const TlsServer> tls, Calls calls);
  // Both on its thread. Nobody arrives any more, after those that the system has let in already.
  void close_door();
  void stop();

 private:
  class Running;
  std::unique_ptr<Running> running_;
};

}  // namespace ndtrain::ndp
