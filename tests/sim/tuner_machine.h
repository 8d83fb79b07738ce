// The Tuner's computer: the real service, the real work of a fine-tuning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/runtime/devices.h"
#include "tests/sim/kept_uploads.h"
#include "tests/sim/lazy_fs.h"
#include "tests/sim/machine.h"
#include "tests/sim/network.h"
#include "tests/sim/watched_work.h"
#include "tuner/service/service.h"
#include "tuner/watch/watcher.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class TunerMachine final : public Machine {
 public:
  TunerMachine(Timeline& timeline, uint64_t seed, Network& network, Watch& watch, Bug bug);
  ~TunerMachine() override;

  void handle(LinkEvent<wire::FromStore> event);
  void stop(Time back_after);  // SIGTERM
  // From its next start on it has no audit log, which asks for the job of a version.
  void go_without_audit() { audited_ = false; }
  // From its next start on its label database is the one at this url, which is not on its disk, and
  // has what is said of uploads too.
  void keep_labels_at(std::string url) { labels_url_ = std::move(url); }
  // From its next start on it watches that database by this rule, too.
  void watch(WatchRule rule) { rules_.push_back(std::move(rule)); }

  // Of a machine that is up.
  TunerService& service() { return *service_; }
  const Versions& versions() const { return *versions_; }
  ModelStore& models() { return *models_; }
  Digest model() const { return model_; }
  LabelDb* labels() const { return memory_.database.get(); }  // null: no relabelling has begun

 private:
  void start() override;
  void end() override;
  void after_turn() override;
  // It cannot start. Once it runs, the job fails and it lives on.
  bool may_die_when_full() const override { return !service_; }
  std::unique_ptr<UploadSink> make_upload_sink();
  Watcher::Setting watcher_setting(size_t number);

  Network& network_;
  Watch& watch_;
  Bug bug_;
  LazyFs fs_, state_fs_;
  WatchedJobFactory::Memory memory_;
  Digest model_{};
  std::unique_ptr<StateDirectory> state_;
  std::unique_ptr<ModelStore> models_;
  std::unique_ptr<Versions> versions_;
  std::unique_ptr<WatchedJobFactory> works_;
  std::unique_ptr<LinkServer> links_;
  bool audited_ = true;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<UploadSink> uploads_;
  std::unique_ptr<TunerService> service_;
  std::string labels_url_;
  std::vector<WatchRule> rules_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
  std::optional<Time> stopping_;
};

}  // namespace ndtrain::sim
