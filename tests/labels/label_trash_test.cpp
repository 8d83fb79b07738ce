// Photos in the trash: nothing shows them, and all is as it was when they are back.
#include <gmock/gmock.h>

#include "ndp/labels/label_files.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LabelTrash : public LabelsTest {
 protected:
  void SetUp() override {
    LabelsTest::SetUp();
    if (IsSkipped()) return;
    v1_ = version("v1", 1), v2_ = version("v2", 2);
    db->put_in_force(task, v2_).or_throw();
    for (size_t p = 0; p < photos.size(); ++p) {
      put(LabelSource::kModel, photos[p], p % 2 == 0 ? cat : dog, 10, v1_, 0.25);
      put(LabelSource::kModel, photos[p], p % 3 == 0 ? cat : dog, 20, v2_, 0.5);
    }
    put(LabelSource::kHuman, photos[3], cat, 30);
    put(LabelSource::kImport, photos[4], dog, 30);
    elsewhere_ = db->collection("elsewhere").or_throw();
    db->add_photos(elsewhere_, std::vector<PhotoPlace>{{"copy.jpg", digest(3)}}).or_throw();
  }

  static Digest digest(int i) { return places(i, 1)[0].digest; }
  void trash(std::vector<Digest> which) { db->put_in_trash(which).or_throw(); }
  void restore(std::vector<Digest> which) { db->restore_from_trash(which).or_throw(); }
  std::string exported() {
    std::string text;
    const auto keep = [&](std::string_view part) {
      text += part;
      return Status();
    };
    export_labels(*db, {.collection = collection, .task = task}, keep).or_throw();
    export_labels(*db, {.collection = elsewhere_, .task = task}, keep).or_throw();
    return text;
  }
  // Everything that can be asked about the collection, and every photo's history.
  std::string all() {
    std::string text = exported();
    for (const int64_t photo : photos) {
      for (const LabelRow& r : db->history(task, photo).or_throw()) {
        text += r.class_name + std::to_string(r.time) + " ";
      }
    }
    const LabelStats stats = db->stats(collection, task).or_throw();
    text += std::to_string(stats.photos) + "/" + std::to_string(stats.labelled);
    const LabelDiff diff = db->diff(collection, v1_, v2_).or_throw();
    text += " " + std::to_string(diff.same) + "/" + std::to_string(diff.changed);
    text += " " + std::to_string(db->accuracy(collection, v2_).or_throw().truths);
    for (const auto& p : db->review(collection, task, 10, 1).or_throw()) text += " " + p.path;
    return text;
  }

  int64_t v1_ = 0, v2_ = 0, elsewhere_ = 0;
};
NDT_FOR_ALL_DATABASES(LabelTrash);

TEST_P(LabelTrash, ARestoredPhotoIsExactlyAsItWas) {
  const std::string before = all();
  trash({digest(3), digest(4), digest(7)});
  trash({digest(3)});
  EXPECT_NE(all(), before);
  restore({digest(3), digest(4), digest(7)});
  restore({digest(3), digest(8)});
  EXPECT_EQ(all(), before);
}

TEST_P(LabelTrash, NothingShowsAPhotoThatIsInIt) {
  trash({digest(3)});
  EXPECT_EQ(exported().find("photo 3.jpg"), std::string::npos);
  EXPECT_EQ(exported().find("copy.jpg"), std::string::npos);
  EXPECT_EQ(db->stats(collection, task).or_throw().photos, 9);
  EXPECT_EQ(db->stats(collection, task).or_throw().labelled, 9);
  EXPECT_EQ(db->stats(elsewhere_, task).or_throw().labelled, 0);
  EXPECT_EQ(db->find_photo(collection, "photo 3.jpg").status().code(), Code::kNotFound);
  EXPECT_EQ(db->digest_of(photos[3]).status().code(), Code::kNotFound);
  EXPECT_THAT(db->history(task, photos[3]).or_throw(), IsEmpty());
  EXPECT_EQ(db->accuracy(collection, v2_).or_throw().truths, 1);
  for (const auto& p : db->review(collection, task, 10, 1).or_throw())
    EXPECT_NE(p.photo, photos[3]);
  EXPECT_THAT(db->places_of(std::vector{digest(3)}).or_throw()[0],
              ::testing::UnorderedElementsAre(CollectedPath{"default", "photo 3.jpg"},
                                              CollectedPath{"elsewhere", "copy.jpg"}))
      << "who has it is still known";
}

TEST_P(LabelTrash, WhatComesMeanwhileIsKeptAndShownWhenItIsBack) {
  const Digest late = sha256("late");
  trash({digest(3), late});
  const auto ids = db->add_photos(collection, std::vector<PhotoPlace>{{"moved.jpg", digest(3)},
                                                                      {"late.jpg", late}})
                       .or_throw();
  EXPECT_EQ(ids[0], photos[3]);
  put(LabelSource::kHuman, ids[0], dog, 40);
  put(LabelSource::kHuman, ids[1], dog, 40);
  db->remove_paths(collection, std::vector<std::string>{"photo 3.jpg"}).or_throw();
  EXPECT_EQ(labels().size(), 9U);
  restore({digest(3), late});
  const std::vector<std::string> now = labels();
  EXPECT_EQ(now.size(), 11U);
  EXPECT_THAT(now, ::testing::IsSupersetOf({"moved.jpg=dog", "late.jpg=dog"}));
}

TEST_P(LabelTrash, APathThatAnotherPhotoHasByNowStaysWithIt) {
  trash({digest(3)});
  db->add_photos(collection, std::vector<PhotoPlace>{{"photo 3.jpg", digest(5)}}).or_throw();
  restore({digest(3)});
  EXPECT_EQ(db->find_photo(collection, "photo 3.jpg").or_throw(), photos[5]);
  EXPECT_EQ(db->find_photo(elsewhere_, "copy.jpg").or_throw(), photos[3]);
}

TEST_P(LabelTrash, OfAPhotoThatIsDeletedInItNothingIsLeft) {
  trash({digest(3)});
  EXPECT_EQ(db->remove_photos(std::span(photos).subspan(3, 1)).or_throw(), 1);
  restore({digest(3)});
  EXPECT_THAT(db->places_of(std::vector{digest(3)}).or_throw()[0], IsEmpty());
  EXPECT_THAT(db->photos_with(std::vector{digest(3)}).or_throw(), ElementsAre(0));
  const auto again = db->add_photos(collection, places(3, 1)).or_throw();
  EXPECT_THAT(db->history(task, again[0]).or_throw(), IsEmpty());
  EXPECT_EQ(db->find_photo(collection, "photo 3.jpg").or_throw(), again[0]) << "not in it any more";
}

TEST_P(LabelTrash, IsThereAfterItWasOpenedAgain) {
  const std::string before = all();
  trash({digest(3)});
  db = file->open();
  EXPECT_EQ(labels().size(), 9U);
  restore({digest(3)});
  db = file->open();
  EXPECT_EQ(all(), before);
}

}  // namespace
}  // namespace ndtrain::ndp
