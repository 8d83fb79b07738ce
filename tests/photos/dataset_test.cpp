#include "ndp/photos/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/limits.h"
#include "framework/testing/memory_fs.h"
#include "tests/photos/broken_fs.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"

namespace ndtrain::ndp {
namespace {

using support::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text_of(const LabelledPhotos& photos) {
  std::string text;
  for (const LabelledPhotos::Item& i : photos.items) {
    text += i.path + "=" + std::to_string(i.label) + " ";
  }
  return text;
}

TEST(ImageFolder, ClassesAreTheFoldersInByteOrder) {
  MemoryFs fs;
  for (const char* path :
       {"d/rose/2.jpg", "d/rose/1.png", "d/Zinnia/x.JPG", "d/aster/sub/y.jpeg", "d/aster/w.bmp",
        "d/aster/v.bmp", "d/readme.txt", "d/aster/notes.txt", "d/.cache/q.jpg", "d/loose.jpg"}) {
    write_file(fs, path, "x");
  }
  const Result<LabelledPhotos> photos = read_image_folder(fs, "d");
  ASSERT_TRUE(photos.ok()) << photos.status().message();
  EXPECT_THAT(photos->classes, ElementsAre("Zinnia", "aster", "rose"));
  EXPECT_EQ(text_of(*photos), "Zinnia/x.JPG=0 aster/sub/y.jpeg=1 rose/1.png=2 rose/2.jpg=2 ");
  EXPECT_EQ(photos->skipped, (std::map<std::string, int64_t>{{"BMP", 2}}));
}

TEST(ImageFolder, WhatWasUploadedToAnOlderPipeStoreIsNoClass) {
  MemoryFs fs;
  const std::string hex = to_hex(sha256("a photo"));
  const std::string upload = "uploads/" + hex.substr(0, 2) + "/" + hex;
  for (const std::string& path :
       {std::string("d/rose/1.jpg"), "d/" + upload + ".jpg", "d/site/state/" + upload + ".png",
        "d/rose/" + upload + ".jpg", "d/uploads/" + hex + ".jpg"}) {  // a copy of an S3
    write_file(fs, path.c_str(), "x");
  }
  LabelledPhotos photos = read_image_folder(fs, "d").or_throw();
  EXPECT_THAT(photos.classes, ElementsAre("rose"));
  EXPECT_EQ(text_of(photos), "rose/1.jpg=0 ");
  EXPECT_EQ(photos.uploads, 4);
  write_file(fs, "d/uploads/mine.jpg", "x");  // somebody's own class
  photos = read_image_folder(fs, "d").or_throw();
  EXPECT_THAT(photos.classes, ElementsAre("rose", "uploads"));
  EXPECT_EQ(text_of(photos), "rose/1.jpg=0 uploads/mine.jpg=1 ");
  write_file(fs, ("all/" + upload + ".jpg").c_str(), "x");
  EXPECT_THAT(read_image_folder(fs, "all").status().message(), HasSubstr("uploaded"));
}

TEST(ImageFolder, FoldersThatMayBeMeantAsClassesAreFound) {
  MemoryFs fs;
  const std::string hex = to_hex(sha256("a photo"));
  EXPECT_THAT(class_like_folders(fs, "nowhere", 9), ElementsAre());
  for (const std::string& path :
       {std::string("d/2023/1.jpg"), std::string("d/notes/x.txt"), std::string("d/.cache/1.jpg"),
        "d/uploads/" + hex.substr(0, 2) + "/" + hex + ".jpg", "d/uploads/" + hex + ".png"}) {
    write_file(fs, path.c_str(), "x");
  }
  EXPECT_THAT(class_like_folders(fs, "d", 9), ElementsAre()) << "one folder is no classes";
  write_file(fs, "d/2024/1.bmp", "x");
  write_file(fs, "d/2025/1.png", "x");
  EXPECT_THAT(class_like_folders(fs, "d", 9), ElementsAre("2023", "2024", "2025"));
  EXPECT_THAT(class_like_folders(fs, "d", 2), ElementsAre("2023", "2024"));
  write_file(fs, "d/train/a/1.jpg", "x");
  write_file(fs, "d/train/b/1.jpg", "x");
  EXPECT_THAT(class_like_folders(fs, "d", 9), ElementsAre("a", "b"));
}

TEST(ImageFolder, WhatIsWrongIsSaid) {
  MemoryFs memory;
  write_file(memory, "empty/a/1.jpg", "x");
  memory.make_directories("empty/b").or_throw();
  write_file(memory, "bmp/a/1.bmp", "x");
  write_file(memory, "flat/1.jpg", "x");
  write_file(memory, "closed/a/sub/1.jpg", "x");
  testing::BrokenFs fs(memory);
  fs.broken = {"closed/a/sub"};
  const auto message = [&](const char* root) {
    return read_image_folder(fs, root).status().message();
  };
  EXPECT_THAT(message("empty"), AllOf(HasSubstr("empty/b"), HasSubstr("no photos")));
  EXPECT_THAT(message("bmp"), AllOf(HasSubstr("bmp/a"), HasSubstr("not supported")));
  EXPECT_THAT(message("flat"), HasSubstr("no photos"));
  EXPECT_THAT(message("closed"), AllOf(HasSubstr("closed/a"), HasSubstr("permission denied")));
  EXPECT_EQ(read_image_folder(fs, "nowhere").status().code(), Code::kNotFound);
}

class LabelsCsv : public ::testing::Test {
 protected:
  LabelsCsv() {
    for (const char* path : {"d/a.jpg", "d/b,c.jpg", "d/sub/e.png", "d/f.bmp"}) {
      write_file(fs_, path, "x");
    }
  }
  Result<LabelledPhotos> read(std::string_view csv) {
    write_file(fs_, "d/labels.csv", csv);
    return read_labels_csv(fs_, "d/labels.csv", "d");
  }
  std::string message(std::string_view csv) { return read(csv).status().message(); }

  MemoryFs fs_;
};

TEST_F(LabelsCsv, IndicesNeedNoListOfNames) {
  const Result<LabelledPhotos> photos = read("file,class\na.jpg,3\nsub/e.png,0\n");
  ASSERT_TRUE(photos.ok()) << photos.status().message();
  EXPECT_THAT(photos->classes, ElementsAre("0", "1", "2", "3"));
  EXPECT_EQ(text_of(*photos), "a.jpg=3 sub/e.png=0 ");
}

TEST_F(LabelsCsv, NamesAreSortedWhenNobodyListsThem) {
  const Result<LabelledPhotos> photos = read("a.jpg,rose\n\"b,c.jpg\",\"a \"\"b\"\"\"\nf.bmp,rose");
  ASSERT_TRUE(photos.ok()) << photos.status().message();
  EXPECT_THAT(photos->classes, ElementsAre("a \"b\"", "rose"));
  EXPECT_EQ(text_of(*photos), "a.jpg=1 b,c.jpg=0 ");
  EXPECT_EQ(photos->skipped.at("BMP"), 1);
}

TEST_F(LabelsCsv, AListOfNamesBesideItCounts) {
  write_file(fs_, "d/classes.txt", "\xef\xbb\xbfrose\r\ntulip\ncrane\ncrane\n\n");
  const Result<LabelledPhotos> photos = read(
      "\xef\xbb\xbf"
      "file,class\r\na.jpg,tulip\r\n\r\nsub/e.png,3\r\na.jpg,1\r\n");
  ASSERT_TRUE(photos.ok()) << photos.status().message();
  EXPECT_THAT(photos->classes, ElementsAre("rose", "tulip", "crane", "crane (2)"));
  EXPECT_EQ(text_of(*photos), "a.jpg=1 sub/e.png=3 ");
  EXPECT_EQ(text_of(*read("a.jpg,crane (2)\n")), "a.jpg=3 ");
  EXPECT_THAT(message("a.jpg,4\n"), AllOf(HasSubstr("line 1"), HasSubstr("out of range")));
  EXPECT_THAT(message("a.jpg,-1\n"), HasSubstr("out of range"));
  EXPECT_THAT(message("file,class\na.jpg,lily\n"), AllOf(HasSubstr("line 2"), HasSubstr("'lily'")));
  EXPECT_THAT(message("a.jpg,crane\n"), HasSubstr("twice"));
  EXPECT_THAT(message("a.jpg,\n"), HasSubstr("unknown class"));
  EXPECT_EQ(read_labels_csv(fs_, "d/labels.csv", "d", "d/none.txt").status().code(),
            Code::kNotFound);
}

TEST_F(LabelsCsv, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_THAT(message("a.jpg,0\ngone.jpg,0\n"), AllOf(HasSubstr("line 2"), HasSubstr("gone.jpg")));
  EXPECT_THAT(message("a.jpg,0,1\n"), HasSubstr("3 columns"));
  EXPECT_THAT(message("a.jpg\n"), HasSubstr("1 columns"));
  EXPECT_THAT(message("a.jpg,0\n\"x\ny,1"), AllOf(HasSubstr("line 2"), HasSubstr("quote")));
  EXPECT_THAT(message("a.jpg,0\na.jpg,1\n"), HasSubstr("second label"));
  EXPECT_THAT(message("../d/a.jpg,0\n"), HasSubstr("not inside"));
  EXPECT_THAT(message("sub/../../d/a.jpg,0\n"), HasSubstr("not inside"));
  EXPECT_THAT(message("/etc/passwd,0\n"), HasSubstr("not inside"));
  EXPECT_THAT(message(",0\n"), HasSubstr("no file name"));
  EXPECT_THAT(message("file,class\n"), HasSubstr("no photos"));
  EXPECT_THAT(message("f.bmp,0\n"), HasSubstr("supported"));
  EXPECT_EQ(read_labels_csv(fs_, "d/none.csv", "d").status().code(), Code::kNotFound);
}

TEST_F(LabelsCsv, ClassesAreLimited) {
  for (int64_t over : {-1, 0, 1}) {
    const int64_t last = limits::kClasses - 1 + over;
    const Result<LabelledPhotos> photos = read("a.jpg," + std::to_string(last) + "\n");
    EXPECT_EQ(photos.status().code(), over > 0 ? Code::kTooLarge : Code::kOk);
  }
}

TEST_F(LabelsCsv, FilesOfLabelsAndOfClassesHaveALimit) {
  testing::BrokenFs fs(fs_);
  write_file(fs_, "d/labels.csv", "a.jpg,0\n");
  write_file(fs_, "d/classes.txt", "rose\n");
  const auto code = [&](const char* file, int64_t over) {
    fs.sizes = {{file, limits::kLabelsFile + over}};
    return read_labels_csv(fs, "d/labels.csv", "d").status().code();
  };
  EXPECT_EQ(code("d/labels.csv", -1), Code::kOk);
  EXPECT_EQ(code("d/labels.csv", 0), Code::kOk);
  EXPECT_EQ(code("d/labels.csv", 1), Code::kTooLarge);
  EXPECT_EQ(code("d/classes.txt", 1), Code::kTooLarge);
}

TEST(Dataset, LabelsAreCountedInTheClassesTrainedOn) {
  const LabelledPhotos val{"v", {"b", "c"}, {{"b/1.jpg", 0}, {"c/1.jpg", 1}}, {}};
  const Result<LabelledPhotos> same = with_classes(val, {"a", "b", "c"});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(text_of(*same), "b/1.jpg=1 c/1.jpg=2 ");
  EXPECT_EQ(same->classes.size(), 3u);
  EXPECT_THAT(with_classes(val, {"a", "b"}).status().message(), HasSubstr("'c'"));
}

TEST(Dataset, LayoutIsDetected) {
  MemoryFs fs;
  for (const char* d : {"both/train", "both/val", "one/train", "none/a"}) {
    fs.make_directories(d).or_throw();
  }
  const auto layout = [&](const char* data) {
    const DataLayout l = find_layout(fs, data).or_throw();
    return l.train + "|" + l.val;
  };
  EXPECT_EQ(layout("both"), "both/train|both/val");
  EXPECT_EQ(layout("one"), "one/train|");
  EXPECT_EQ(layout("none"), "none|");
  EXPECT_EQ(find_layout(fs, "nowhere").status().code(), Code::kNotFound);
}

TEST(Dataset, ValidationDependsOnThePhotoAlone) {
  int small = 0, large = 0;
  constexpr int kPhotos = 20000;
  for (int i = 0; i < kPhotos; ++i) {
    const Digest d = sha256("photo " + std::to_string(i));
    EXPECT_TRUE(!in_validation(d, 0.1) || in_validation(d, 0.3));
    small += in_validation(d, 0.1);
    large += in_validation(d, 0.3);
    EXPECT_FALSE(in_validation(d, 0));
    EXPECT_TRUE(in_validation(d, 1));
  }
  EXPECT_NEAR(small, 0.1 * kPhotos, 5 * 42);  // five standard deviations
  EXPECT_NEAR(large, 0.3 * kPhotos, 5 * 65);
  // The last eight bytes of its SHA-256 as a fraction, worked out elsewhere.
  EXPECT_TRUE(in_validation(sha256("fixed for ever"), 0.149302864));
  EXPECT_FALSE(in_validation(sha256("fixed for ever"), 0.149302863));
}

TEST(Dataset, TheFlowersAreRead) {
  const std::string root = support::shared_path("/data");
  if (!real_fs().exists(root)) GTEST_SKIP() << root << " is not there";
  const DataLayout layout = find_layout(real_fs(), root + "/flowers").or_throw();
  const LabelledPhotos train = read_image_folder(real_fs(), layout.train).or_throw();
  EXPECT_THAT(train.classes, ElementsAre("daisy", "dandelion", "rose", "sunflower", "tulip"));
  EXPECT_EQ(train.items.size(), 3249u);
  EXPECT_EQ(read_image_folder(real_fs(), layout.val).or_throw().items.size(), 809u);
  const std::string sample = root + "/imagenet-sample";
  const LabelledPhotos imagenet =
      read_labels_csv(real_fs(), sample + "/labels.csv", sample).or_throw();
  EXPECT_EQ(imagenet.classes.size(), 1000u);
  EXPECT_EQ(imagenet.items.size(), 500u);
  EXPECT_EQ(imagenet.items[1].label, 2);
}

}  // namespace
}  // namespace ndtrain::ndp
