#include "ndp/postgres/state_lease.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "framework/core/log.h"
#include "ndp/postgres/lease_lost.h"
#include "ndp/postgres/state_schema.h"

namespace ndtrain::ndp::postgres {
namespace {

constexpr const char* kQuiet = "SET client_min_messages = warning";
constexpr const char* kInterval = "? * interval '1 millisecond'";

bool lacks_tables(Connection& db) {
  return db.query("SELECT to_regclass('ndtrain_state.lease')", {}).is_null(0, 0);
}

// Locked, so that two who come first at once do not both make the tables.
void make_tables(Connection& db) {
  if (lacks_tables(db)) {
    db.start("BEGIN; SELECT pg_advisory_xact_lock(1313100877)");
    if (lacks_tables(db)) db.execute(kStateSchema);
    db.execute("COMMIT");
  }
  const int64_t format = db.query("SELECT format FROM ndtrain_state.lease", {}).integer(0, 0);
  if (format == kStateFormat) return;
  throw sql::Failure{
      Status(Code::kUnsupported, "the state in this database has format " + std::to_string(format) +
                                     "; this program knows " + std::to_string(kStateFormat))};
}

LeaseRow row_of(Connection& db) {
  const Answer a =
      db.query("SELECT term, holder, until > clock_timestamp() FROM ndtrain_state.lease", {});
  return {a.integer(0, 0), a.bytes(0, 1), a.integer(0, 2) != 0};
}

Status of_state(const sql::Failure& failure) {
  return {failure.status.code(), "shared state: " + failure.status.message()};
}

}  // namespace

Result<LeaseRow> StateLease::look(const std::string& url) {
  try {
    Connection db(url, kQuiet);
    make_tables(db);
    return row_of(db);
  } catch (const sql::Failure& failure) {
    return of_state(failure);
  }
}

Result<std::unique_ptr<StateLease>> StateLease::take(const Setting& setting) {
  try {
    (void)with_term(setting.url, 0);  // says now what is wrong with it
    Connection db(setting.url, kQuiet);
    make_tables(db);
    const Value taken[] = {std::string_view(setting.holder), setting.lasts.count()};
    const Answer a =
        db.query(std::string("UPDATE ndtrain_state.lease SET term = term + 1, holder = ?, until ="
                             " clock_timestamp() + ") +
                     kInterval + " WHERE until <= clock_timestamp() RETURNING term",
                 taken);
    if (a.rows() == 0) {
      return Status(Code::kExists, "the shared state is held by " + row_of(db).holder +
                                       "; --standby waits until it may be taken over");
    }
    const int64_t term = a.integer(0, 0);
    // What a paused process began it cannot commit; until it is gone its locks would stop us.
    const std::string own = name_of_term(term);
    const Value others[] = {std::string_view(own)};
    (void)db.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND usename = current_user AND application_name ~ '^ndtrain_term_[0-9]+$'"
        " AND application_name <> convert_from(?, 'UTF8')",
        others);
    db.execute("DELETE FROM ndtrain_state.files WHERE path IS NULL");
    return std::unique_ptr<StateLease>(new StateLease(setting, term));
  } catch (const sql::Failure& failure) {
    return of_state(failure);
  }
}

StateLease::StateLease(Setting setting, int64_t term)
    : setting_(std::move(setting)),
      term_(term),
      renewals_([this](const std::stop_token& stop) { renew(stop); }) {}

StateLease::~StateLease() {
  renewals_.request_stop();
  renewals_.join();
  try {
    Connection db(setting_.url, kQuiet);
    static_cast<void>(renew_once(db, std::chrono::milliseconds(0)));
  } catch (const sql::Failure& failure) {
    log::warn("the lease of the shared state runs out by itself: {}", failure.status.message());
  }
}

// False: another has it.
bool StateLease::renew_once(Connection& db, std::chrono::milliseconds lasts) const {
  const Value mine[] = {lasts.count(), term_};
  return db.query(std::string("UPDATE ndtrain_state.lease SET until = clock_timestamp() + ") +
                      kInterval + " WHERE term = ? RETURNING 1",
                  mine)
             .rows() == 1;
}

void StateLease::renew(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::optional<Connection> db;
  auto until = Clock::now() + setting_.lasts;
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, stop, setting_.renewed, [&] { return stop.stop_requested(); })) {
    const auto asked = Clock::now();
    try {
      if (!db || !db->connected()) db.emplace(setting_.url, kQuiet);
      if (!renew_once(*db, setting_.lasts)) {
        lease_lost("term " + std::to_string(term_) + " is over: another has taken the state over");
      }
      until = asked + setting_.lasts;
    } catch (const sql::Failure& failure) {
      if (Clock::now() >= until) {
        lease_lost("it could not be renewed in time: " + failure.status.message());
      }
      log::warn("the lease of the shared state is not renewed: {}", failure.status.message());
    }
  }
}

}  // namespace ndtrain::ndp::postgres
