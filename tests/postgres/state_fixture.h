// A state on a server of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ndp/postgres/lease_lost.h"
#include "ndp/postgres/postgres_fs.h"
#include "ndp/postgres/state_lease.h"
#include "tests/support/files.h"
#include "tests/support/postgres_server.h"

namespace ndtrain::testing_state {
using namespace ndp;
using namespace ndp::postgres;

// No std::exception, as FsyncFailed.
struct LeaseLost {
  std::string what;
};

// While it lives, a lease that is lost throws LeaseLost.
class LeaseThrows {
 public:
  LeaseThrows() : before_(set_lease_handler([](const std::string& w) { throw LeaseLost{w}; })) {}
  ~LeaseThrows() { set_lease_handler(before_); }
  LeaseThrows(const LeaseThrows&) = delete;
  LeaseThrows& operator=(const LeaseThrows&) = delete;

 private:
  const LeaseHandler before_;
};

// One that holds the lease of a state, and its files.
struct Holder {
  explicit Holder(const std::string& url, const std::string& name = "test",
                  std::chrono::milliseconds lasts = kLeaseLasts)
      : lease(StateLease::take({.url = url, .holder = name, .lasts = lasts}).or_throw()),
        fs(PostgresFs::open(lease->url()).or_throw()) {}

  std::unique_ptr<StateLease> lease;
  std::unique_ptr<PostgresFs> fs;
};

class StateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!support::PostgresServer::lacking().empty()) {
      GTEST_SKIP() << support::PostgresServer::lacking();
    }
    url = support::PostgresServer::shared().new_database();
  }

  // As when the holder was paused for so long.
  void run_out() const {
    Connection db(url, "SET jit = off");
    db.execute("UPDATE ndtrain_state.lease SET until = '-infinity'");
  }

  std::string url;
};

}  // namespace ndtrain::testing_state
