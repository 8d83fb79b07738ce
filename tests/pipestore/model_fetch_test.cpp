#include "ndp/pipestore/model_fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "ndp/deltas/delta.h"
#include "ndp/wire/digests.h"
#include "tests/deltas/some_model.h"
#include "tests/support/waiting_lanes.h"

namespace ndtrain::ndp {
namespace {

using support::WaitingLanes;
using testing::drawn;
using ::testing::HasSubstr;
using testing::some_model;

std::string version(uint64_t seed) {
  Model m = some_model();
  m.initialisers["fc.w"] = drawn(DType::kF32, {10, 32}, Rng(seed, "fc"));
  return export_model(m);
}

class ModelFetchTest : public ::testing::Test {
 protected:
  void hold(const std::string& bytes) {
    publish(fs_, blobs_.path(sha256(bytes)), bytes).or_throw();
  }
  bool want(const std::string& bytes) { return fetch_.fetch(std::vector{sha256(bytes)}); }
  const wire::ModelWanted& asked() { return sent_.back().model_wanted(); }
  void give(const std::string& bytes) {
    wire::ModelPart p;
    p.set_sha256(bytes_of(sha256(bytes)));
    p.set_total(bytes.size());
    p.set_bytes(bytes);
    p.set_checksum(xxh3(bytes.data(), bytes.size()));
    EXPECT_TRUE(fetch_.part(p));
    lanes_.run();
  }
  wire::Way way(const std::vector<std::string>& versions) {
    wire::Way w;
    w.set_sha256(bytes_of(sha256(versions.back())));
    for (size_t i = 1; i < versions.size(); ++i) {
      wire::Way::Step& s = *w.add_steps();
      s.set_delta(bytes_of(sha256(delta(versions[i - 1], versions[i]))));
      s.set_base(bytes_of(sha256(versions[i - 1])));
      s.set_result(bytes_of(sha256(versions[i])));
    }
    return w;
  }
  static std::string delta(const std::string& from, const std::string& to) {
    return make_delta(from, to).or_throw().bytes;
  }
  bool here(const std::string& bytes) {
    const Digest digest = sha256(bytes);
    return blobs_.has(digest) && fs_.read(blobs_.path(digest)).or_throw() == bytes;
  }

  MemoryFs fs_;
  ModelBlobs blobs_{fs_, "models"};
  WaitingLanes lanes_;
  std::vector<wire::FromStore> sent_;
  int arrived_ = 0;
  std::string failed_;
  ModelFetch fetch_{{.fs = fs_,
                     .blobs = blobs_,
                     .lanes = lanes_,
                     .lane = 0,
                     .apply = apply_delta,
                     .send = [this](wire::FromStore m) { sent_.push_back(std::move(m)); },
                     .here = [this] { ++arrived_; },
                     .failed = [this](const Status& why) { failed_ = why.message(); }}};
  const std::string a_ = version(1), b_ = version(2), c_ = version(3);
};

TEST_F(ModelFetchTest, ItSaysWhatItHoldsAndTakesTheFileItself) {
  hold(a_);
  EXPECT_FALSE(want(c_));
  ASSERT_EQ(asked().held_size(), 1);
  EXPECT_EQ(asked().held(0), bytes_of(sha256(a_)));
  give(c_);
  EXPECT_EQ(arrived_, 1);
  EXPECT_TRUE(want(c_));
  EXPECT_TRUE(here(c_));
}

TEST_F(ModelFetchTest, AChainOfDeltasEndsOnTheModelAndLeavesNoDelta) {
  hold(a_);
  want(c_);
  fetch_.way(way({a_, b_, c_}));
  EXPECT_EQ(asked().sha256(), bytes_of(sha256(delta(a_, b_))));
  EXPECT_EQ(asked().held_size(), 0);
  give(delta(a_, b_));
  EXPECT_EQ(arrived_, 0);
  give(delta(b_, c_));
  EXPECT_EQ(arrived_, 1);
  EXPECT_TRUE(here(c_));
  EXPECT_EQ(blobs_.list().size(), 3U);
  EXPECT_EQ(sent_.size(), 3U);
}

TEST_F(ModelFetchTest, AWayOfMoreStepsThanThereMayBeIsNotGone) {
  hold(a_);
  for (const int steps : {ModelFetch::kSteps, ModelFetch::kSteps + 1}) {
    fetch_.session_over();
    want(c_);
    wire::Way w;
    w.set_sha256(bytes_of(sha256(c_)));
    std::string base = bytes_of(sha256(a_));
    for (int i = 1; i <= steps; ++i) {
      wire::Way::Step& s = *w.add_steps();
      s.set_delta(bytes_of(sha256("delta " + std::to_string(i))));
      s.set_base(base);
      base = bytes_of(i < steps ? sha256("model " + std::to_string(i)) : sha256(c_));
      s.set_result(base);
    }
    fetch_.way(w);
    const bool gone = steps == ModelFetch::kSteps;
    EXPECT_EQ(asked().sha256(), bytes_of(gone ? sha256("delta 1") : sha256(c_)));
    EXPECT_EQ(asked().failure(), gone ? "" : "a way that does not lead there");
  }
}

TEST_F(ModelFetchTest, ItSaysOfSoManyModelsThatItHoldsThem) {
  for (size_t n = 1; n <= ModelFetch::kHeld + 1; ++n) {
    hold("model " + std::to_string(n));
    fetch_.session_over();
    want(c_);
    EXPECT_EQ(asked().held_size(), static_cast<int>(std::min(n, ModelFetch::kHeld)));
  }
}

TEST_F(ModelFetchTest, WhatWasMadeInAFormerSessionIsNotMadeAgain) {
  hold(a_);
  want(c_);
  fetch_.way(way({a_, b_, c_}));
  give(delta(a_, b_));
  fetch_.session_over();
  EXPECT_FALSE(want(c_));
  EXPECT_EQ(asked().held_size(), 2) << "the model between is held now";
  fetch_.way(way({a_, b_, c_}));
  EXPECT_EQ(asked().sha256(), bytes_of(sha256(delta(b_, c_))));
  give(delta(b_, c_));
  EXPECT_TRUE(here(c_));
}

TEST_F(ModelFetchTest, ADeltaThatWasAppliedForAFormerSessionIsIgnored) {
  hold(a_);
  want(b_);
  fetch_.way(way({a_, b_}));
  wire::ModelPart p;
  const std::string d = delta(a_, b_);
  p.set_sha256(bytes_of(sha256(d)));
  p.set_total(d.size());
  p.set_bytes(d);
  p.set_checksum(xxh3(d.data(), d.size()));
  EXPECT_TRUE(fetch_.part(p));
  fetch_.session_over();
  lanes_.run();
  EXPECT_EQ(arrived_, 0);
  EXPECT_TRUE(want(b_)) << "it is here all the same";
}

// Every one of them is told to the Tuner, with what is held, and ends on the right bytes.
TEST_F(ModelFetchTest, AWayThatDoesNotDoIsSaidAndTheFileItselfWanted) {
  const std::string d = delta(a_, c_), other = delta(a_, b_);
  std::string rotten = a_;
  rotten[rotten.size() / 2] ^= 1;
  wire::Way odd = way({a_, c_}), elsewhere = way({a_, c_}), empty = way({a_, c_});
  odd.mutable_steps(0)->set_base("short");
  elsewhere.mutable_steps(0)->set_result(bytes_of(sha256(b_)));
  empty.clear_steps();
  wire::Way swapped = way({a_, c_});
  swapped.mutable_steps(0)->set_delta(bytes_of(sha256(other)));
  const struct {
    std::string what;
    wire::Way way;
    std::string given;
    std::string base;
  } cases[] = {
      {"a digest that is none", odd, "", a_},       {"does not lead there", elsewhere, "", a_},
      {"does not lead there", empty, "", a_},       {"its base is not here", way({b_, c_}), "", a_},
      {"instead of", swapped, other, a_},           {"no delta", way({a_, c_}), "not a delta", a_},
      {"does not fit on", way({a_, c_}), d, rotten}};
  for (const auto& c : cases) {
    for (const Digest& digest : blobs_.list()) blobs_.remove(digest);
    publish(fs_, blobs_.path(sha256(a_)), c.base).or_throw();
    want(c_);
    wire::Way given = c.way;
    if (c.given == "not a delta") {
      given.mutable_steps(0)->set_delta(bytes_of(sha256(c.given)));
    }
    fetch_.way(given);
    if (!c.given.empty()) give(c.given);
    EXPECT_THAT(asked().failure(), HasSubstr(c.what));
    EXPECT_EQ(asked().sha256(), bytes_of(sha256(c_))) << c.what;
    give(c_);
    EXPECT_TRUE(here(c_)) << c.what;
    EXPECT_EQ(failed_, "") << c.what;
  }
  EXPECT_FALSE(blobs_.has(sha256(a_))) << "bytes that are not a's have kept its name";
}

// On the Tuner's disk, say; each part is as it was sent.
TEST_F(ModelFetchTest, WaysThatLeadNowhereAreGivenUpInTheEnd) {
  hold(a_);
  want(b_);
  wire::Way nowhere = way({a_, b_});
  nowhere.mutable_steps(0)->set_base(bytes_of(sha256("nobody has it")));
  for (int i = 1; i < ModelFetch::kBadWays; ++i) {
    fetch_.way(nowhere);
    EXPECT_EQ(asked().failure(), "its base is not here");
    EXPECT_EQ(failed_, "");
  }
  fetch_.way(nowhere);
  EXPECT_THAT(failed_, HasSubstr("3 ways to model "));
  EXPECT_TRUE(fetch_.idle());
  want(b_);  // another time
  fetch_.way(nowhere);
  EXPECT_EQ(asked().failure(), "its base is not here");
  give(b_);
  EXPECT_TRUE(here(b_));
}

TEST_F(ModelFetchTest, ADeltaThatIsNotWhatItsDigestSaysIsNotAskedForAgain) {
  hold(a_);
  want(b_);
  fetch_.way(way({a_, b_}));
  std::string bad = delta(a_, b_);
  bad.back() ^= 1;
  wire::ModelPart p;
  p.set_sha256(asked().sha256());
  p.set_total(bad.size());
  p.set_bytes(bad);
  p.set_checksum(xxh3(bad.data(), bad.size()));
  EXPECT_TRUE(fetch_.part(p));
  EXPECT_THAT(asked().failure(), HasSubstr("has the digest"));
  EXPECT_EQ(asked().sha256(), bytes_of(sha256(b_)));
  give(b_);
  EXPECT_TRUE(here(b_));
}

TEST_F(ModelFetchTest, OnAFullDiskItIsGivenUp) {
  hold(a_);
  want(b_);
  fetch_.way(way({a_, b_}));
  fs_.set_capacity(static_cast<int64_t>(a_.size() + delta(a_, b_).size()) + 100);
  give(delta(a_, b_));
  EXPECT_NE(failed_, "");
  EXPECT_FALSE(here(b_));
  fs_.set_capacity(1 << 20);
  EXPECT_FALSE(want(b_));
  fetch_.way(way({a_, b_}));
  lanes_.run();  // the delta is here already
  EXPECT_TRUE(here(b_));
}

TEST_F(ModelFetchTest, APartWithAWrongChecksumEndsTheSession) {
  want(a_);
  wire::ModelPart p;
  p.set_sha256(bytes_of(sha256(a_)));
  p.set_total(a_.size());
  p.set_bytes(a_);
  EXPECT_FALSE(fetch_.part(p));
}

}  // namespace
}  // namespace ndtrain::ndp
