// A TunerService with nothing around it: links that remember, lanes that wait.
#pragma once

#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "tests/support/waiting_lanes.h"
#include "tuner/service/service.h"

namespace ndtrain::testing {
using namespace ndp;
using namespace tuner;

using support::WaitingLanes;

struct Links final : LinkServer {
  std::string address() const override { return "here"; }
  void send(LinkId link, wire::ToStore m) override { sent.emplace_back(link, std::move(m)); }
  void close(LinkId) override {}

  std::vector<std::pair<LinkId, wire::ToStore>> sent;
};

// Asks for rows, and counts what is sent.
struct NoWork final : JobWork, RowSink {
  NoWork(int& alive, int& away, std::vector<size_t>& kept, std::vector<TensorType> features,
         uint32_t runs)
      : alive_(alive), away_(away), kept_(kept), features_(std::move(features)), runs_(runs) {
    ++alive_;
  }
  ~NoWork() override { --alive_; }
  RowRequest prepare() override {
    return {.row_bytes = 4, .manifest = {.runs = runs_}, .features = features_};
  }
  RowSink& sink() override { return *this; }
  void manifest(const Manifest&, const std::vector<std::string>&) override {}
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override { return {}; }
  Result<std::vector<uint64_t>> open(const Manifest&) override {
    if (away_ > 0) {
      --away_;
      return Status(Code::kIo, "the database restarts");
    }
    return std::vector<uint64_t>();
  }
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override {
    size_t n = 0;
    for (const RowIngest::Rows& r : rows) n += r.rows.size();
    kept_.push_back(n);
    return std::vector<RowIngest::BadRow>();
  }
  int &alive_, &away_;
  std::vector<size_t>& kept_;
  std::vector<TensorType> features_;
  uint32_t runs_;
};
struct NoWorks final : JobFactory {
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    EXPECT_LT(alive, at_once);
    if (makers_away > 0) {
      --makers_away;
      throw SinkUnavailable("the database restarts");
    }
    return std::make_unique<NoWork>(alive, away, kept, features, runs);
  }
  int alive = 0;
  int at_once = 1;                // that may be alive
  int away = 0;                   // so often the sink cannot be reached
  int makers_away = 0;            // and so often what a job needs to begin
  std::vector<size_t> kept = {};  // rows of each call
  std::vector<TensorType> features = {};
  uint32_t runs = 1;
};

class ServiceTest : public ::testing::Test {
 protected:
  void greet(LinkId link, const std::string& store, const std::string& numerics = "",
             uint32_t protocol = kProtocols[0]) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(protocol);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_numerics(numerics);
    service_.handle({link, hello});
  }
  void say(LinkId link, wire::FromStore m) {
    m.set_term(me_.term);
    service_.handle({link, std::move(m)});
  }
  uint64_t submit() { return service_.submit({.model = to_hex(model_), .stores = 1}); }

  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  Links links_;
  WaitingLanes lanes_;
  NoWorks works_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  Digest model_ = models_.add("a model").or_throw();
  TunerIdentity me_ = state_.next_term(1).or_throw();
  TunerService service_{{fs_, clock_, state_, links_, lanes_, works_, models_, versions_}, me_};
};

}  // namespace ndtrain::testing
