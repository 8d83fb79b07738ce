#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/core/net.h"

namespace ndtrain {

// A network within the process that a test can break. Any address may be listened on; "host:0" gets
// a port of its own. Writes never block. Connections are numbered from 0 as they are dialed. A
// broken connection gives each reader what still arrives, then kIo; writers get kIo at once.
// Thread-safe; streams and listeners may outlive it.
class MemoryNet final : public Net {
 public:
  MemoryNet();
  ~MemoryNet() override;

  Result<std::unique_ptr<Stream>> dial(const std::string& address) override;
  Result<std::unique_ptr<Listener>> listen(const std::string& address) override;

  size_t connections() const;  // dialed so far, whether or not they still stand
  // Of what was written but not read, only so many bytes still arrive in each direction.
  void cut(size_t connection, size_t to_listener = 0, size_t to_dialer = 0);
  void cut_all();
  // The next connection dialed carries so many bytes, both directions together. The write that goes
  // beyond breaks it: what still fitted arrives, the write fails.
  void cut_next_after(int64_t bytes);
  // While down, nobody can be dialed (kIo); standing connections are not touched.
  void set_down(bool down);

 private:
  struct State;
  struct Connection;
  class End;
  class Door;

  std::shared_ptr<State> state_;
};

}  // namespace ndtrain
