// A Tuner and its PipeStores on one machine, under one directory:
//   DIR/up.json        what runs, and how it was asked for
//   DIR/site.json      how it was asked for the last time it was up
//   DIR/tuner          the Tuner's state;            DIR/tuner.log
//   DIR/storeN/state   of PipeStore N;               DIR/storeN.log
//   DIR/storeN/photos  its photos, unless they are elsewhere
//
// One thread; one process at a time, which the lock sees to.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/process.h"

namespace ndtrain::cli {
using namespace ndp;

struct SiteSettings {
  int64_t stores = 1;
  // That all share, as `pipestore serve` takes them; empty: each has its own.
  std::vector<std::string> photos;
  std::string labels, http, device;
  int64_t port = 0, threads = 0;  // 0: the system's choice
  bool less_memory = false, tf32 = false;
  std::string tuning;            // absolute; "": by the rule
  std::string loopback = "own";  // as `tuner serve` takes it

  bool operator==(const SiteSettings&) const = default;
  std::string text() const;  // as flags of `ndtrain up`: those that are not its defaults
};

// The background processes may be started again from elsewhere.
std::string absolute_path(const std::string& path);

class Site {
 public:
  struct Member {
    std::string name, log;
    ProcessId process;
  };

  // Reads up.json and site.json, where they are. Throws Error: another `up` or `down` is at work
  // here.
  Site(Fs& fs, const std::string& directory, bool make);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return join(path_, name); }
  const SiteSettings& settings() const { return settings_; }
  // Those it was up with the last time, or is; nullopt: it never was.
  const std::optional<SiteSettings>& before() const { return before_; }
  const std::vector<Member>& members() const { return members_; }  // the Tuner first, if any
  const std::string& listen() const { return listen_; }
  const std::string& http() const { return http_; }
  bool is_running() const;  // any of it

  // Starts what does not run, and waits until all stores have a session; `say` tells what for. When
  // one of them ends (Error), or `stop` is true before (false), those it started are stopped.
  bool start(const SiteSettings& settings, const std::function<bool()>& stop,
             const std::function<void(const std::string&)>& say);
  size_t started() const { return started_.size(); }        // by the last start()
  std::vector<std::string> photos_of(int64_t store) const;  // directories

  struct Stopped {
    std::vector<Member> stopped, gone, running;  // gone: before; running: still, after a minute
  };
  Stopped stop();

 private:
  void load();
  void save() const;
  void launch(const std::string& name, const std::vector<std::string>& words);
  void launch_tuner();
  void launch_stores();
  std::vector<std::string> store_names() const;  // as the Tuner has them
  bool await_tuner(const std::function<bool()>& stop);
  bool await_stores(const std::function<bool()>& stop,
                    const std::function<void(const std::string&)>& say) const;
  const Member* running_member(const std::string& name) const;
  std::string said_last(const std::string& log) const;
  void undo();  // what the last start() started
  void keep(const std::vector<Member>& asked);
  void check_started() const;  // throws Error when one has ended

  Fs& fs_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
  SiteSettings settings_;
  std::optional<SiteSettings> before_;
  std::string listen_, http_;
  std::vector<Member> members_;
  std::vector<std::string> started_;
  int64_t tuner_log_from_ = 0;  // where this Tuner's lines begin
};

}  // namespace ndtrain::cli
