// Versions and how they get to stores, as the Tuner sees it.
#include <gmock/gmock.h>

#include <algorithm>

#include "ndp/wire/digests.h"
#include "tests/deltas/some_model.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::drawn;
using testing::some_model;

class ServiceModelsTest : public testing::ServiceTest {
 protected:
  PublishedModel publish(uint64_t seed, bool production = true) {
    Model m = some_model();
    m.initialisers["fc.w"] = drawn(DType::kF32, {10, 32}, Rng(seed, "fc"));
    const Digest head = models_.add(export_model(m)).or_throw();
    const PublishedModel v =
        service_.publish_version({.extractor = model_, .head = head}, production);
    lanes_.run();
    return v;
  }
  // What a store that comes is told to have.
  uint64_t told(LinkId link, const std::string& store) {
    const size_t before = links_.sent.size();
    greet(link, store);
    for (size_t i = before; i < links_.sent.size(); ++i) {
      if (links_.sent[i].second.has_publish()) return links_.sent[i].second.publish().version();
    }
    return 0;
  }
  void in_force(LinkId link, uint64_t version) {
    wire::FromStore m;
    m.mutable_in_force()->set_version(version);
    say(link, m);
  }
  const wire::ToStore& ask(LinkId link, const Digest& model, const std::vector<Digest>& held,
                           const std::string& failure = "") {
    wire::FromStore m;
    m.mutable_model_wanted()->set_sha256(bytes_of(model));
    for (const Digest& d : held) m.mutable_model_wanted()->add_held(bytes_of(d));
    m.mutable_model_wanted()->set_failure(failure);
    say(link, m);
    lanes_.run();
    return links_.sent.back().second;
  }
};

TEST_F(ServiceModelsTest, AVersionOfAnotherTaskHasItsOwnParentAndRollback) {
  publish(1);
  const auto other = [this](uint64_t seed) {
    Model m = some_model();
    m.initialisers["fc.w"] = drawn(DType::kF32, {10, 32}, Rng(seed, "fc"));
    const Digest head = models_.add(export_model(m)).or_throw();
    PublishedModel v = service_.publish_version(
        {.task = "birds", .extractor = model_, .head = head}, /*production=*/true);
    lanes_.run();
    return v;
  };
  EXPECT_EQ(other(2).parent, 0U) << "nothing of its task was in force";
  EXPECT_EQ(other(3).parent, 2U);
  EXPECT_EQ(versions_.in_force("birds")->version, 3U);
  EXPECT_EQ(service_.rollback("birds"), 2U);
  EXPECT_EQ(versions_.in_force(kDefaultTask)->version, 1U);
}

TEST_F(ServiceModelsTest, AStoreGetsWhatIsInForceAndNotTheCandidate) {
  publish(1);
  publish(2, /*production=*/false);
  EXPECT_EQ(told(1, "a"), 1U);
  service_.promote(2);
  EXPECT_EQ(links_.sent.back().second.publish().version(), 2U);
  EXPECT_EQ(versions_.find(2)->parent, 1U);
}

TEST_F(ServiceModelsTest, RollbackPublishesWhatWasInForceBefore) {
  EXPECT_THROW(service_.rollback(std::string(kDefaultTask)), Error);
  publish(1);
  publish(2);
  greet(1, "a");
  in_force(1, 2);
  EXPECT_EQ(service_.rollback(std::string(kDefaultTask)), 1U);
  EXPECT_EQ(links_.sent.back().second.publish().version(), 1U);
  EXPECT_THROW(service_.rollback(std::string(kDefaultTask)), Error)
      << "nothing was before version 1";
  publish(3);
  EXPECT_EQ(versions_.find(3)->parent, 1U) << "what it took the place of";
  service_.promote(2);
  EXPECT_EQ(service_.rollback(std::string(kDefaultTask)), 3U) << "not version 2's parent";
  EXPECT_EQ(service_.rollback(std::string(kDefaultTask)), 1U);
}

// It was on its way to the version that is no longer wanted.
TEST_F(ServiceModelsTest, AStoreThatEndsElsewhereIsToldAgain) {
  publish(1);
  greet(1, "a");
  in_force(1, 1);
  publish(2);
  service_.rollback(std::string(kDefaultTask));
  const size_t before = links_.sent.size();
  in_force(1, 2);
  ASSERT_EQ(links_.sent.size(), before + 1);
  EXPECT_EQ(links_.sent.back().second.publish().version(), 1U);
}

TEST_F(ServiceModelsTest, AStoreIsGivenDeltasFromWhatItHolds) {
  const PublishedModel a = publish(1), b = publish(2), c = publish(3);
  greet(1, "a");
  const wire::ToStore& one = ask(1, c.head, {b.head, model_});
  ASSERT_TRUE(one.has_way());
  ASSERT_EQ(one.way().steps_size(), 1);
  EXPECT_EQ(one.way().steps(0).base(), bytes_of(b.head));
  EXPECT_EQ(one.way().steps(0).result(), bytes_of(c.head));
  const wire::ToStore& direct = ask(1, c.head, {a.head});
  ASSERT_EQ(direct.way().steps_size(), 1) << "one delta is less than two of these";
  EXPECT_EQ(direct.way().steps(0).base(), bytes_of(a.head));
  const std::string delta = direct.way().steps(0).delta();
  const wire::ToStore& part = ask(1, *digest_of(delta), {});
  EXPECT_EQ(sha256(part.model_part().bytes()), *digest_of(delta));
}

TEST_F(ServiceModelsTest, AStoreThatHoldsNothingOrCouldNotUseADeltaGetsTheFile) {
  const PublishedModel a = publish(1), b = publish(2);
  greet(1, "a");
  EXPECT_TRUE(ask(1, b.head, {}).has_model_part());
  EXPECT_TRUE(ask(1, b.head, {sha256("foreign")}).has_model_part());
  EXPECT_TRUE(ask(1, b.head, {a.head}, "a damaged delta").has_model_part());
  EXPECT_TRUE(ask(1, b.head, {a.head}).has_way());
}

// While the Tuner makes a delta, which others wait for too.
TEST_F(ServiceModelsTest, AStoreMayAskEightTimesWithoutWaitingForAnAnswer) {
  const PublishedModel a = publish(1), b = publish(2), c = publish(3);
  greet(1, "a");
  greet(2, "b");
  const auto is_here = [&](const std::string& store) {
    return std::ranges::any_of(service_.stores(),
                               [&](const auto& s) { return s.name == store && s.here; });
  };
  wire::FromStore m;
  m.mutable_model_wanted()->set_sha256(bytes_of(c.head));
  m.mutable_model_wanted()->add_held(bytes_of(a.head));
  for (int i = 0; i < 8; ++i) say(1, m);
  say(2, m);
  EXPECT_TRUE(is_here("a"));
  say(1, m);
  EXPECT_FALSE(is_here("a")) << "nine times";
  EXPECT_TRUE(is_here("b"));
  lanes_.run();
  EXPECT_EQ(links_.sent.back().first, 2U);
  EXPECT_TRUE(links_.sent.back().second.has_way()) << "who asked beside it is answered";
}

// Thousands of parts may wait for a store that takes none: they are counted by their bytes.
TEST_F(ServiceModelsTest, APartOfAModelTakesNoMoreMemoryThanItHasBytes) {
  const int64_t total = models_.size(model_);
  ASSERT_LT(total, int64_t{kModelPart} / 4);
  const auto part = [&](int64_t offset) {
    return models_.read(model_, offset, kModelPart).or_throw();
  };
  for (const int64_t offset : {int64_t{0}, total - 5}) {
    const std::string bytes = part(offset).bytes;
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), total - offset);
    EXPECT_LE(bytes.capacity(), bytes.size() + 32) << offset;
  }
  EXPECT_EQ(models_.read(model_, 7, 10).or_throw().bytes, part(0).bytes.substr(7, 10));
  for (const int64_t offset : {total, total + 1}) EXPECT_EQ(part(offset).bytes, "") << offset;
  EXPECT_FALSE(models_.read(model_, -1, kModelPart).ok());
}

// As PyTorch writes it, and we beyond 2 GiB.
TEST(ModelStoreTest, AModelWhoseWeightsLieBesideItIsKeptAsOneFile) {
  const support::TemporaryDirectory directory;
  const Model given = some_model();
  const std::string file = directory.at("m.onnx");
  ASSERT_TRUE(export_model(real_fs(), file, given, {.most_in_one_file = 0}).ok());
  ASSERT_EQ(real_fs().list(directory.path())->size(), 2U);
  ModelStore models(real_fs(), directory.at("models"));
  const Digest kept = models.add_file(file).or_throw();
  EXPECT_EQ(content_id(models.load(kept).model), content_id(import_model(real_fs(), file)));
}

TEST_F(ServiceModelsTest, AStoreThatLeftIsNotAnswered) {
  const PublishedModel a = publish(1);
  greet(1, "a");
  wire::FromStore m;
  m.mutable_model_wanted()->set_sha256(bytes_of(a.head));
  m.mutable_model_wanted()->add_held(bytes_of(model_));
  say(1, m);
  const PublishedModel b = publish(2);
  m.mutable_model_wanted()->set_sha256(bytes_of(b.head));
  m.mutable_model_wanted()->add_held(bytes_of(a.head));
  fs_.remove(models_.path(versions_.find(2)->head)).or_throw();
  service_.handle({1, LinkClosed{"gone"}});
  const size_t before = links_.sent.size();
  lanes_.run();
  EXPECT_EQ(links_.sent.size(), before);
}

TEST_F(ServiceModelsTest, AVersionThatSomebodyNeedsIsNotRemoved) {
  publish(1);
  publish(2);
  publish(3);
  greet(1, "a");
  in_force(1, 1);
  EXPECT_THROW(service_.remove_version(1), Error);
  EXPECT_THROW(service_.remove_version(3), Error);
  EXPECT_THROW(service_.remove_version(9), Error);
  const Digest head = versions_.find(2)->head;
  service_.remove_version(2);
  service_.tick();
  EXPECT_FALSE(models_.has(head));
  EXPECT_TRUE(models_.has(model_)) << "others have this extractor";
}

TEST_F(ServiceModelsTest, OldVersionsGoButWhatStoresHold) {
  greet(1, "a");
  const Digest first = publish(1).head;
  in_force(1, 1);
  const Digest second = publish(2).head;
  for (uint64_t seed = 3; seed <= TunerService::kKeptVersions + 5; ++seed) publish(seed);
  service_.tick();
  EXPECT_TRUE(versions_.find(1));
  EXPECT_TRUE(models_.has(first));
  EXPECT_FALSE(versions_.find(2));
  EXPECT_FALSE(models_.has(second));
  EXPECT_EQ(versions_.all().size(), TunerService::kKeptVersions + 1);
  for (const Digest& file : models_.list()) {
    const auto part = models_.read(file, 0, 8).or_throw();
    if (part.bytes != "NDTDELTA") continue;
    const std::string bytes = models_.read_all(file).or_throw();
    EXPECT_NE(bytes.substr(9, 32), bytes_of(second)) << "a delta from what is gone";
  }
}

}  // namespace
}  // namespace ndtrain::tuner
