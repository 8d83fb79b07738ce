#include "tuner/ingest/mixed_numerics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ndp/engine/numerics.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kValues = 64;

std::vector<TensorType> features() { return {{DType::kF32, {1, kValues}}}; }

// Rows of `n` photos, of standard deviation 1 or so, all off by as much.
std::string rows(size_t n, double off = 0) {
  std::vector<float> v(n * kValues);
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(std::sqrt(2) * std::sin(static_cast<double>(i)) + off);
  }
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)};
}

MixedNumerics::Job job(const std::string& extractor, bool exact = false) {
  return {.extractor = sha256(extractor), .features = features(), .exact = exact};
}

TEST(MixedNumerics, StoresWhoseSamplesAgreeTakePart) {
  MixedNumerics m;
  m.begin(job("one"));
  ASSERT_EQ(m.photos().size(), kNumericsSample);
  EXPECT_EQ(m.admit("a", "blas", rows(8)).note, "");
  const MixedNumerics::Verdict v = m.admit("b", "onednn", rows(8, 0.5 * kNumericsTolerance));
  EXPECT_EQ(v.refusal, "");
  EXPECT_THAT(v.note, AllOf(HasSubstr("a with blas; b with onednn"), HasSubstr("8 photos")));
  EXPECT_EQ(m.admit("c", "onednn", "").note, "") << "known by now";
}

TEST(MixedNumerics, AStoreWhoseSampleDiffersIsRefusedByNameAndMeasure) {
  MixedNumerics m;
  m.begin(job("one"));
  EXPECT_EQ(m.admit("a", "blas", rows(8)).refusal, "");
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(m.admit("b", "odd", rows(8, 5e-3)).refusal,
                AllOf(HasSubstr("b with odd"), HasSubstr("0.005"), HasSubstr("more than 0.001"),
                      HasSubstr("ndtrain store drain")));
  }
}

TEST(MixedNumerics, AnExactJobTakesOneNumericsOnly) {
  MixedNumerics m;
  m.begin(job("one", /*exact=*/true));
  EXPECT_FALSE(m.asks("blas")) << "close is not enough";
  EXPECT_EQ(m.admit("a", "blas", "").refusal, "");
  EXPECT_EQ(m.admit("b", "blas", "").refusal, "");
  EXPECT_THAT(m.admit("c", "onednn", "").refusal, HasSubstr("deterministic"));
}

TEST(MixedNumerics, AStoreThatDoesNotAnswerIsNotBelieved) {
  for (const std::string& answer : {std::string(), rows(7)}) {
    MixedNumerics m;
    m.begin(job("one"));
    EXPECT_EQ(m.admit("a", "blas", rows(8)).refusal, "");
    EXPECT_THAT(m.admit("b", "old", answer).refusal, HasSubstr("b does not say"));
  }
}

TEST(MixedNumerics, NumericsAreAskedOncePerExtractor) {
  MixedNumerics m;
  m.begin(job("one"));
  EXPECT_TRUE(m.asks("blas"));
  m.admit("a", "blas", rows(8));
  m.admit("b", "odd", rows(8, 1));
  m.begin(job("other"));
  EXPECT_TRUE(m.asks("blas"));
  m.begin(job("one"));
  EXPECT_FALSE(m.asks("blas"));
  EXPECT_EQ(m.admit("a", "blas", "").refusal, "");
  EXPECT_THAT(m.admit("b", "odd", "").refusal, HasSubstr("more than 0.001"));
  for (size_t i = 0; i < NumericsSamples::kExtractors; ++i) m.begin(job(std::to_string(i)));
  m.begin(job("one"));
  EXPECT_TRUE(m.asks("blas")) << "was forgotten";
}

TEST(MixedNumerics, AJobThatGoesOnComparesWithItsFirstStoreAsBefore) {
  for (const bool exact : {false, true}) {
    MixedNumerics before, after;
    before.begin(job("one", exact));
    EXPECT_TRUE(before.admit("a", "blas", rows(8)).first);
    EXPECT_FALSE(before.admit("b", "blas", rows(8)).first);
    after.begin(job("one", exact), before.first());
    EXPECT_FALSE(after.asks("blas"));
    EXPECT_THAT(after.admit("a", "odd", rows(8, 5e-3)).refusal,
                AllOf(HasSubstr("a with blas; a with odd"), Not(HasSubstr("does not say"))));
    EXPECT_EQ(after.admit("b", "blas", "").refusal, "");
  }
}

TEST(MixedNumerics, LargeRowsMakeASmallSampleAndNoFeaturesNone) {
  MixedNumerics m;
  MixedNumerics::Job large = job("one");
  large.features = {{DType::kF32, {1, int64_t{1} << 17}}};
  m.begin(large);
  EXPECT_EQ(m.photos().size(), 2U);
  large.features = {{DType::kF32, {1, int64_t{1} << 19}}};
  m.begin(large);
  EXPECT_EQ(m.photos().size(), 1U);
  m.begin({});
  EXPECT_TRUE(m.photos().empty());
  EXPECT_FALSE(m.asks("blas"));
  EXPECT_EQ(m.admit("a", "blas", "").refusal, "");
  EXPECT_EQ(m.admit("b", "onednn", "").refusal, "") << "nothing needs to agree";
}

class MixedStores : public testing::ServiceTest {
 protected:
  MixedStores() { works_.features = features(); }

  // Stores a and b are here and are asked.
  uint64_t begin() {
    const uint64_t job = service_.submit({.model = to_hex(model_), .stores = 2});
    lanes_.run();
    if (service_.stores().empty()) {
      greet(1, "a", "blas");
      greet(2, "b", "onednn");
    }
    return job;
  }
  const wire::Job* asked(LinkId link) const {
    for (auto m = links_.sent.rbegin(); m != links_.sent.rend(); ++m) {
      if (m->first == link && m->second.has_job()) return &m->second.job();
    }
    return nullptr;
  }
  void answer(LinkId link, uint64_t job, char photo, const std::string& sample) {
    wire::FromStore m;
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(job);
    i.set_digests(std::string(32, photo));
    i.add_labels(1);
    i.add_names("cat");
    i.set_sources(std::string(1, '\2'));
    i.set_sample(sample);
    i.set_sample_checksum(xxh3(sample.data(), sample.size()));
    i.set_last(true);
    say(link, m);
    lanes_.run();
  }
};

TEST_F(MixedStores, AJobFailsWhenTheSamplesDiffer) {
  const uint64_t job = begin();
  EXPECT_EQ(asked(1)->sample_size(), static_cast<int>(kNumericsSample));
  answer(1, job, 'x', rows(8));
  answer(2, job, 'y', rows(8, 5e-3));
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message, HasSubstr("a with blas; b with onednn"));
  service_.drain("a", true);
  greet(3, "c", "onednn");
  service_.resume(job);
  lanes_.run();
  answer(2, job, 'y', "");
  answer(3, job, 'z', "");
  EXPECT_EQ(service_.job(job).state, JobState::kRunning) << "no row of a's has come";
}

// Rows of what it computed with before are durable.
TEST_F(MixedStores, AStoreThatComesBackWithOtherNumericsFailsAJobThatWasResumed) {
  const uint64_t job = begin();
  answer(1, job, 'x', rows(8));
  answer(2, job, 'y', rows(8, 1e-5));
  service_.pause(job);
  for (const LinkId link : {1, 2}) service_.handle({link, LinkClosed{"it restarts"}});
  service_.resume(job);
  lanes_.run();
  greet(3, "a", "odd");
  answer(3, job, 'x', rows(8, 5e-3));
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message, HasSubstr("a with blas; a with odd"));
}

TEST_F(MixedStores, AJobRunsWhenTheSamplesAgreeAndTheNextAsksForNone) {
  const uint64_t job = begin();
  answer(1, job, 'x', rows(8));
  answer(2, job, 'y', rows(8, 1e-5));
  EXPECT_EQ(service_.job(job).state, JobState::kRunning) << service_.job(job).message;
  EXPECT_TRUE(std::ranges::any_of(links_.sent, [](auto& m) { return m.second.has_wanted(); }));
  service_.cancel(job);
  const uint64_t next = begin();
  EXPECT_EQ(asked(2)->job(), next);
  EXPECT_EQ(asked(2)->sample_size(), 0);
}

}  // namespace
}  // namespace ndtrain::tuner
