// While it lives, a connection's statements end with kCancelled once a stop is requested.
#pragma once

#include <sqlite3.h>

#include <stop_token>

#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp::sql {

class Interruption {
 public:
  // Both outlive it.
  Interruption(Database& db, const std::stop_token& stop)
      : db_(db.handle()), interrupt_(stop, Interrupt{db.handle()}) {
    // Between two steps SQLite asks; within the longest one it looks whether it was interrupted.
    sqlite3_progress_handler(
        db_, 1,
        [](void* s) {
          return static_cast<int>(static_cast<const std::stop_token*>(s)->stop_requested());
        },
        const_cast<std::stop_token*>(&stop));
  }
  ~Interruption() { sqlite3_progress_handler(db_, 0, nullptr, nullptr); }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct Interrupt {
    sqlite3* db;
    void operator()() const { sqlite3_interrupt(db); }
  };

  sqlite3* db_;
  std::stop_callback<Interrupt> interrupt_;
};

}  // namespace ndtrain::ndp::sql
