// A task that is taken away, with all that was said in it.
#include <gmock/gmock.h>

#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LabelTasks : public LabelsTest {
 protected:
  static constexpr const char* kMood = "mood";

  // Of two versions, one in force, and of people, in two collections.
  void fill(const std::string& name) {
    const int64_t of = db->task(name).or_throw();
    const std::vector<std::string> names{"calm", "gay"};
    const std::vector<int64_t> ids = db->class_ids(of, names).or_throw();
    const int64_t first = db->version(of, {.content = sha256("1" + name), .created = 1}).or_throw();
    const int64_t second =
        db->version(of, {.content = sha256("2" + name), .parent = sha256("1" + name), .created = 2})
            .or_throw();
    db->put_in_force(of, second).or_throw();
    for (const int64_t by : {first, second}) {
      LabelBatch batch{.task = of, .source = LabelSource::kModel, .version = by};
      for (const int64_t photo : photos) {
        batch.labels.push_back(
            {.photo = photo, .class_id = ids[0], .score = .5, .top_k = {}, .time = 10});
      }
      (void)db->put_labels(batch).or_throw();
    }
    const LabelBatch said{.task = of,
                          .source = LabelSource::kHuman,
                          .labels = {{.photo = photos[3], .class_id = ids[1], .time = 20}}};
    (void)db->put_labels(said).or_throw();
  }
  static constexpr int64_t kLabels = 21;  // that fill() makes
};

TEST_P(LabelTasks, GoWithTheirLabelsClassesAndVersionsAndNoOthers) {
  fill(kMood);
  fill("blur");
  put(LabelSource::kHuman, photos[0], cat, 5);
  const TaskSize size = db->task_size(kMood).or_throw();
  EXPECT_EQ(size.labels, kLabels);
  EXPECT_EQ(size.by_people, 1);
  EXPECT_EQ(size.classes, 2);

  db->remove_task(kMood).or_throw();
  EXPECT_THAT(db->tasks().or_throw(), ElementsAre("blur", kDefaultTask));
  EXPECT_EQ(db->task_size(kMood).or_throw().labels, 0);
  EXPECT_EQ(db->task_size("blur").or_throw().labels, kLabels);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
  EXPECT_EQ(db->photos_with(std::vector<Digest>{places(4, 1)[0].digest}).or_throw(),
            std::vector<int64_t>{photos[4]})
      << "photos stay";
  db->remove_task(kMood).or_throw();  // once more
  db->remove_task("never").or_throw();
}

TEST_P(LabelTasks, BegunAnewHaveNothingOfTheirFormerLife) {
  fill(kMood);
  db->remove_task(kMood).or_throw();
  const int64_t again = db->task(kMood).or_throw();
  EXPECT_THAT(db->classes(again).or_throw(), IsEmpty());
  EXPECT_THAT(db->versions(again).or_throw(), IsEmpty());
  EXPECT_EQ(db->in_force(again).or_throw(), std::nullopt);
  EXPECT_THAT(db->history(again, photos[3]).or_throw(), IsEmpty());
  fill(kMood);
  EXPECT_EQ(db->task_size(kMood).or_throw().labels, kLabels);
}

NDT_FOR_ALL_DATABASES(LabelTasks);

}  // namespace
}  // namespace ndtrain::ndp
