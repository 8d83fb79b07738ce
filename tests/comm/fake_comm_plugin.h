// A communication plugin whose ranks are in one process, and that fails as it is told.
#pragma once

#include <memory>

#include "framework/comm/comm_abi.h"

namespace ndtrain::comm_tests {

struct FakeFaults {
  int late = 0;                // calls of test_some() that a message takes at its receiver
  bool cut = false;            // long messages arrive a byte short
  bool truncated = false;      // they do not fit, says the library
  bool refuses_sends = false;  // send() is an error
  bool breaks = false;         // test_some() is
};

// Messages move when their receiver calls test_some(), never else. A short one is copied when it is
// sent, and arrives though its sender has gone.
class FakeWorld {
 public:
  explicit FakeWorld(int ranks);

  // Of so many bytes a message at most.
  static const ndt_comm_plugin& plugin();
  ndt_comm* join(int rank) const;  // once for each

  void set(const FakeFaults& faults) const;
  int messages() const;   // so far
  int closed() const;     // ranks
  int abandoned() const;  // ranks

  struct Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace ndtrain::comm_tests
