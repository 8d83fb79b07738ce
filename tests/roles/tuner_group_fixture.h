// A Tuner, PipeStores and members of its trainings in this process, and jobs that they do.
#pragma once

#include <gmock/gmock.h>

#include <utility>

#include "tests/roles/roles_fixture.h"
#include "tuner/group/member_daemon.h"

namespace ndtrain::testing {

class RunningMember {
 public:
  RunningMember(const MemberConfig& config, Devices& devices)
      : daemon_(config, devices, real_fs(), system_clock()),
        thread_([this] { daemon_.run([this] { return stop_.load(); }); }) {}
  ~RunningMember() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  MemberDaemon daemon_;
  std::thread thread_;
};

class TunerGroup : public RolesTest {
 protected:
  static constexpr int kShards = 6;

  static JobSpec spec(int tuners) {
    JobSpec s;
    s.stores = 2u;
    s.runs = 2;
    s.store_timeout = 60;
    s.trainer.epochs = 2;
    s.trainer.batch = 12;
    s.trainer.shards = kShards;
    s.trainer.schedule.lr = 5e-3;
    s.freeze = "layer1";
    s.tuners = tuners;
    return s;
  }

  MemberConfig member(const std::string& name) const {
    return {.name = name,
            .tuner = address(),
            .state = at("member-" + name),
            .version = "test",
            .site = site_};
  }

  void join(const std::string& name) {
    members_[name] = std::make_unique<RunningMember>(member(name), devices_);
  }

  // The job over two stores, from nothing, with the members that are joined; `on_line` hears what
  // it says.
  nlohmann::json train(const JobSpec& s, const std::string& state,
                       const std::function<void(const std::string& line)>& on_line = {}) {
    TunerDaemon daemon(tuner(state), devices_, real_fs(), system_clock());
    return train_by(daemon, s, {store(state + "0", 0, 2), store(state + "1", 1, 2)}, on_line);
  }
  nlohmann::json train_by(TunerDaemon& daemon, JobSpec s,
                          const std::vector<PipeStoreConfig>& configs,
                          const std::function<void(const std::string& line)>& on_line = {}) {
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    std::vector<std::unique_ptr<RunningStore>> stores;
    for (const PipeStoreConfig& c : configs) {
      stores.push_back(std::make_unique<RunningStore>(c, devices_));
    }
    log_.clear();
    const auto until = system_clock().monotonic() + std::chrono::minutes(3);
    const TunerDaemon::Outcome o = daemon.run_job(
        s, [&] { return system_clock().monotonic() > until; },
        [&](const std::string& line) {
          log_ += line + "\n";
          if (on_line) on_line(line);
        });
    EXPECT_TRUE(o.ended && o.done) << o.message << "\n" << log_;
    return nlohmann::json::parse(o.result);
  }

  // In two lives of the Tuner, of which the first ends behind the fifth epoch.
  nlohmann::json in_two_lives(JobSpec s, const std::string& state,
                              const std::function<void()>& between) {
    std::vector<std::unique_ptr<RunningStore>> stores;
    for (uint32_t i = 0; i < 2; ++i) {
      stores.push_back(
          std::make_unique<RunningStore>(store(state + std::to_string(i), i, 2), devices_));
    }
    TunerDaemon::Outcome o;
    log_.clear();
    for (int life = 0; life < 2; ++life) {
      TunerDaemon daemon(tuner(state), devices_, real_fs(), system_clock());
      s.model = to_hex(daemon.add_model(at("base.onnx")));
      bool stop = false;
      o = daemon.run_job(
          s, [&] { return stop; },
          [&](const std::string& line) {
            log_ += line + "\n";
            stop = stop || (life == 0 && line.starts_with("epoch 5/"));
          });
      if (life > 0) break;
      EXPECT_FALSE(o.ended) << log_;
      between();
    }
    EXPECT_TRUE(o.done) << o.message << log_;
    return nlohmann::json::parse(o.result);
  }

  // So long that it is still under way when it is heard that the fifth epoch has ended.
  static constexpr int kLonger = 20;
  static JobSpec longer(JobSpec s) {
    s.trainer.epochs = kLonger;
    return s;
  }

  // A job for three: `a` comes when it has begun with `b`, which leaves then, and comes back.
  nlohmann::json train_while_some_come_and_go(JobSpec s, const std::string& state) {
    s.tuners = 3;
    s.store_timeout = 1;
    s.trainer.epochs = kLong;
    join("b");
    bool together = false;
    int epochs = 0;  // of all three; after two of them each has kept what it goes on from
    auto result = train(s, state, [&](const std::string& line) {
      if (line.starts_with("2 of 3 Tuners") && !members_.contains("a")) join("a");
      together = together || line.starts_with("3 of 3 Tuners");
      if (together && line.starts_with("epoch ") && ++epochs == 2) {
        members_.erase("b");
        join("b");
      }
    });
    EXPECT_THAT(log_, ::testing::HasSubstr("a is here: all Tuners meet again, and go on from"));
    EXPECT_THAT(log_, ::testing::HasSubstr("b is here: all Tuners meet again, and go on from"));
    EXPECT_EQ(result["taken_in_tuners"], nlohmann::json({"a", "b"}));
    EXPECT_EQ(result["tuners"], 3);
    EXPECT_EQ(result["epochs"], 2 * kLong);
    EXPECT_FALSE(result.contains("lost_tuners"));
    members_.clear();
    return result;
  }
  // So many epochs of a run that members come and go within it.
  static constexpr int kLong = 60;

  std::string by_one_tuner() { return train(spec(1), "one")["model_id"]; }

  std::string site_;  // of members that are made
  std::map<std::string, std::unique_ptr<RunningMember>> members_;
};

}  // namespace ndtrain::testing
