// A Tuner's state that another machine may take over: in a PostgreSQL database, written by who has
// the lease (ndp/postgres/state_lease.h). Its files are below kDirectory of fs(), which is a name
// and no place; what can be had again lies in `scratch`, a directory of this machine:
//
//   features/           features of jobs that are done
//   holders/            what each store holds
//   jobs/N/…/spool/     rows of stores, and which runs of them are complete (closed.json)
//
// All other paths of fs() are the machine's. `scratch` is emptied when another process had the
// state in between, so that nothing comes back that was deleted there.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "ndp/postgres/postgres_fs.h"
#include "ndp/postgres/state_lease.h"

namespace ndtrain::tuner {
using namespace ndp;

// "postgresql://…", rather than a directory.
bool is_shared_state(std::string_view state);

// Of a path below the state: what can be had again, and lies in `scratch`.
bool is_scratch(std::string_view path);

class SharedState {
 public:
  static constexpr const char* kDirectory = "postgresql:";

  struct Setting {
    std::string url;
    std::string scratch;  // made if absent
    std::chrono::milliseconds lasts = postgres::kLeaseLasts;
  };
  // kExists while another process has the state, or the scratch directory; kIo.
  static Result<std::unique_ptr<SharedState>> take(const Setting& setting);

  Fs& fs() { return *fs_; }
  int64_t term() const { return lease_->term(); }
  // Of the label database, beside the state: written under the same lease.
  std::string labels() const { return lease_->url(); }

 private:
  SharedState() = default;

  std::unique_ptr<FileLock> scratch_;
  std::unique_ptr<postgres::StateLease> lease_;
  std::unique_ptr<postgres::PostgresFs> files_;
  std::unique_ptr<Fs> fs_;
};

}  // namespace ndtrain::tuner
