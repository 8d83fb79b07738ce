#include "cli/state_place.h"

#include "ndp/postgres/postgres_fs.h"
#include "ndp/postgres/state_lease.h"
#include "ndp/wire/state_directory.h"
#include "tuner/shared_state.h"

namespace ndtrain::cli {

StatePlace state_place(const std::string& state) {
  if (!tuner::is_shared_state(state)) {
    demand_not_moved(real_fs(), state).or_throw();
    return {.database = nullptr, .directory = state};
  }
  const postgres::LeaseRow lease = postgres::StateLease::look(state).or_throw();
  if (lease.term == 0) {
    throw Error(
        "no Tuner has its state in this database yet; start one: tuner serve --state "
        "postgresql://…");
  }
  try {
    const std::string url = postgres::with_term(state, lease.term);
    return {.database = postgres::PostgresFs::open(url).or_throw(), .directory = ""};
  } catch (const sql::Failure& failure) {
    throw Error(failure.status.message());
  }
}

void demand_directory_of_state(const std::string& state, const std::string& instead) {
  if (!tuner::is_shared_state(state)) return;
  throw Error("a state in a database is no directory: ", instead);
}

}  // namespace ndtrain::cli
