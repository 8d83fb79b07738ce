// Labels that photos contradict, found by a Tuner over its stores.
#include <gmock/gmock.h>

#include "ndp/jobs/photo_embeddings.h"
#include "ndp/jobs/refine_labels.h"
#include "ndp/photos/catalogue.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain {
using namespace ndp;
using namespace tuner;

namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RefineJob : public testing::RolesTest {
 protected:
  void SetUp() override {
    testing::RolesTest::SetUp();
    for (uint32_t i = 0; i < 2; ++i) {
      stores_.push_back(
          std::make_unique<testing::RunningStore>(store("s" + std::to_string(i), i, 2), devices_));
    }
  }
  nlohmann::json work(JobSpec spec) {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    if (spec.kind == JobKind::kFinetune) spec.model = to_hex(daemon.add_model(at("base.onnx")));
    spec.stores.number = 2;
    log_.clear();
    return outcome(daemon, spec);
  }
  void put_a_version_in_force() {
    JobSpec spec;
    spec.head = "linear";
    spec.trainer.epochs = 1;
    (void)work(spec);
  }
  // What the library finds on this machine, by the same features.
  RefinedLabels found_here() {
    NoProgress quiet;
    const PhotoSet set =
        hash_photos(real_fs(), *open_catalogue(real_fs(), at("here"), at("photos")),
                    read_image_folder(real_fs(), at("photos")).or_throw(), quiet);
    PhotoEmbeddings seen =
        embed_photos(set, load_model(real_fs(), at("base.onnx")), {.cache = at("here")},
                     devices_.get(false), real_fs(), system_clock(), quiet);
    KnownPhotos known{.rows = std::move(seen.rows)};
    for (const size_t i : seen.photos) known.photos.push_back(set.photos[i].digest);
    return refine_labels(truth_rows(db(), collection(), task(), known), known, shared_threads());
  }
  // Photos with an issue, in the order in which a review shows them.
  std::vector<std::string> reviewed_first() {
    std::vector<std::string> paths;
    for (const ReviewPhoto& p : db().review(collection(), task(), kPhotos, 1).or_throw()) {
      if (!p.suggested.empty()) paths.push_back(p.path);
    }
    return paths;
  }

  LabelDb& db() {
    if (!db_) db_ = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
    return *db_;
  }
  int64_t collection() { return db().collection(kDefaultCollection).or_throw(); }
  int64_t task() { return db().task(kDefaultTask).or_throw(); }

  std::vector<std::unique_ptr<testing::RunningStore>> stores_;
  std::unique_ptr<LabelDb> db_;
};

TEST_F(RefineJob, ListsWhatIsFoundOnOneMachineAndReviewsBeginWithIt) {
  put_a_version_in_force();
  (void)work({.kind = JobKind::kRelabel});
  import_what_folders_show(db());
  const RefinedLabels here = found_here();
  ASSERT_GE(here.issues.size(), 4U);
  const nlohmann::json tried = work({.kind = JobKind::kRefine, .dry_run = true});
  EXPECT_EQ(tried["contradicted"], here.issues.size());
  EXPECT_EQ(tried["features_of_earlier_jobs"], kPhotos) << "no store sends them again";
  EXPECT_THAT(reviewed_first(), IsEmpty());
  const nlohmann::json result = work({.kind = JobKind::kRefine});
  EXPECT_EQ(result["looked_at"], kPhotos);
  EXPECT_EQ(result["classes"], 3);
  EXPECT_EQ(result["version"], 1);
  EXPECT_EQ(result["rare"], 0);
  EXPECT_EQ(result["without_features"], 0);
  EXPECT_EQ(result["first"], tried["first"]);
  ASSERT_EQ(result["first"].size(), here.issues.size());
  std::vector<std::string> paths;
  for (size_t i = 0; i < here.issues.size(); ++i) {
    EXPECT_EQ(result["first"][i], nlohmann::json::parse(to_json(here.issues[i]).dump())) << i;
    paths.push_back(here.issues[i].label.path);
  }
  EXPECT_THAT(reviewed_first(), ::testing::UnorderedElementsAreArray(paths));
  EXPECT_THAT(log_, HasSubstr(paths[0] + ": "));
  EXPECT_THAT(log_, HasSubstr("the dashboard's review, begin with these"));
}

TEST_F(RefineJob, SaysWhatItLacks) {
  const auto failure = [&] {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    const TunerDaemon::Outcome o = daemon.run_job(
        {.kind = JobKind::kRefine, .stores = 2}, [] { return false; }, [](const std::string&) {});
    EXPECT_FALSE(o.done);
    return o.message;
  };
  EXPECT_THAT([&] { (void)failure(); },
              ::testing::ThrowsMessage<Error>(HasSubstr("refine needs a fine-tuning before it")));
  put_a_version_in_force();
  EXPECT_THAT(failure(), HasSubstr("of none of the stores' photos anybody has said"));
}

}  // namespace
}  // namespace ndtrain
