// Who may write a state that lies in a PostgreSQL database: one process at a time, by a lease in a
// row {term, holder, until}. By the server's clock alone it is renewed while its holder lives, and
// may be taken when it has run out; whoever takes it counts the term up. What is written through
// connections with_term() is committed only while the term is the lease's, so that a holder that
// was paused, or is cut off, changes nothing after its successor has begun.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "framework/core/status.h"
#include "ndp/postgres/postgres.h"

namespace ndtrain::ndp::postgres {

inline constexpr std::chrono::milliseconds kLeaseLasts{8000};
inline constexpr std::chrono::milliseconds kLeaseRenewed{1000};  // the time between

// As the database has it.
struct LeaseRow {
  int64_t term = 0;  // 0: nobody has had it yet
  std::string holder;
  bool held = false;  // it has not run out
};

class StateLease {
 public:
  struct Setting {
    std::string url;     // "postgresql://…"
    std::string holder;  // for people: "process 71 on attic"
    std::chrono::milliseconds lasts = kLeaseLasts;
    std::chrono::milliseconds renewed = kLeaseRenewed;
  };

  // Makes the tables where there are none. kUnsupported: they are of another format; kIo.
  static Result<LeaseRow> look(const std::string& url);
  // kExists while another has it. Connections of earlier terms are ended. From now on it is renewed
  // by a thread; where it cannot be in time, or another has it, that calls lease_lost().
  static Result<std::unique_ptr<StateLease>> take(const Setting& setting);
  ~StateLease();  // gives it back: another may take it at once

  int64_t term() const { return term_; }
  std::string url() const { return with_term(setting_.url, term_); }

 private:
  StateLease(Setting setting, int64_t term);
  void renew(const std::stop_token& stop);
  bool renew_once(Connection& db, std::chrono::milliseconds lasts) const;

  const Setting setting_;
  const int64_t term_;
  std::jthread renewals_;
};

}  // namespace ndtrain::ndp::postgres
