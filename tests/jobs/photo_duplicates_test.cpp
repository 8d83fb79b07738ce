#include "ndp/jobs/photo_duplicates.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "framework/core/rng.h"
#include "ndp/photos/decode.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a job says for people.
class SaidOfDuplicates final : public Progress {
 public:
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string& line) override { all += line + "\n"; }

  std::string all;
};

class PhotoDuplicatesTest : public FinetuneTest {
 protected:
  void SetUp() override {
    FinetuneTest::SetUp();
    std::filesystem::create_directories(at("set/c0"));
    std::filesystem::create_directories(at("set/c1"));
  }
  void draw(const std::string& name, uint64_t seed, int shape = 0) const {
    // Blocks of greys far apart, each as large as what a bit of a hash is about.
    constexpr int kBlock = 8;
    Rng rng(100 * static_cast<uint64_t>(shape) + seed, "blocks");
    Image image(9 * kBlock, 8 * kBlock);
    for (int by = 0; by < 8; ++by) {
      for (int bx = 0; bx < 9; ++bx) {
        const auto grey = static_cast<uint8_t>(rng.next_below(256));
        for (int y = 0; y < kBlock; ++y) {
          std::fill_n(image.row(by * kBlock + y) + 3 * bx * kBlock, 3 * kBlock, grey);
        }
      }
    }
    write(name, image);
  }
  void write(const std::string& name, const Image& image) const {
    publish(real_fs(), at("set/" + name), encode_jpeg(image)).or_throw();
  }
  // Other bytes, and almost the same pixels: a corner of the picture is a little brighter.
  void copy(const std::string& from, const std::string& to) const {
    const std::string file = bytes("set/" + from);
    Image image = decode(std::as_bytes(std::span(file))).or_throw().image;
    image.row(0)[0] = static_cast<uint8_t>(image.row(0)[0] < 128 ? 255 : 0);
    write(to, image);
  }
  PhotoSet set() const {
    NoProgress quiet;
    return all_photos(real_fs(), *open_catalogue(real_fs(), at("cache"), at("set")), at("set"),
                      quiet);
  }
  PhotoHashes hashes(const PhotoSet& of) const {
    NoProgress quiet;
    return hash_looks(of, at("cache"), real_fs(), system_clock(), quiet);
  }
  static std::vector<std::string> paths(const PhotoSet& of, const std::vector<AlikePhoto>& group) {
    std::vector<std::string> all;
    for (const AlikePhoto& p : group) all.push_back(of.photos[p.photo].path);
    return all;
  }

  ThreadPool threads_{2};
};

TEST_F(PhotoDuplicatesTest, CopiesAreFoundAndHashesServeAgain) {
  for (uint64_t i = 0; i < 6; ++i) draw("c0/" + std::to_string(i) + ".jpg", i);
  copy("c0/2.jpg", "c1/2.jpg");
  std::filesystem::copy(at("set/c0/4.jpg"), at("set/c1/same.jpg"));
  publish(real_fs(), at("set/c1/bad.jpg"), bytes("set/c0/1.jpg").substr(0, 700)).or_throw();
  const PhotoSet all = set();
  const PhotoHashes first = hashes(all);
  EXPECT_EQ(first.decoded + std::ssize(first.quarantined), std::ssize(all.photos));
  const auto groups = duplicate_groups(all, first, kAlikeBits, threads_);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(paths(all, groups[0]), ElementsAre("c0/2.jpg", "c1/2.jpg"));
  EXPECT_LE(groups[0][1].bits, kAlikeBits);
  EXPECT_THAT(paths(all, groups[1]), ElementsAre("c0/4.jpg", "c1/same.jpg"));
  EXPECT_EQ(groups[1][1].bits, 0);
  const PhotoHashes second = hashes(all);
  EXPECT_EQ(second.decoded, 0);
  EXPECT_EQ(second.of, first.of);
}

TEST_F(PhotoDuplicatesTest, FeaturesTellApartWhatHashesDoNot) {
  draw("c0/0.jpg", 0);
  copy("c0/0.jpg", "c0/1.jpg");
  draw("c0/2.jpg", 2);
  const PhotoSet all = set();
  ASSERT_EQ(all.photos.size(), 3U);
  const PhotoHashes by_hand{.of = {0, 0, 0}};
  PhotoEmbeddings seen;
  seen.rows = {.dimensions = 2, .values = {1, 0, 1, 0, 0.6F, 0.8F}};
  seen.photos = {0, 1, 2};
  const auto near = duplicate_groups(all, by_hand, 0, threads_, &seen, 0.9F);
  ASSERT_EQ(near.size(), 1U);
  EXPECT_THAT(paths(all, near[0]), ElementsAre("c0/0.jpg", "c0/1.jpg"));
  EXPECT_FLOAT_EQ(*near[0][1].similarity, 1);
  EXPECT_EQ(duplicate_groups(all, by_hand, 0, threads_, &seen, 0.5F).at(0).size(), 3U);
  EXPECT_EQ(duplicate_groups(all, by_hand, 0, threads_).at(0).size(), 3U);
  seen.photos = {0, 1};
  seen.rows.values.resize(4);
  EXPECT_EQ(duplicate_groups(all, by_hand, 0, threads_, &seen, -1).at(0).size(), 2U)
      << "of the third nothing is known";
}

// Copies whose own digests would put them on both sides.
TEST_F(PhotoDuplicatesTest, AGroupIsOnOneSideOfTheSplit) {
  for (uint64_t i = 0; i < 12; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    draw("c0/" + name, i);
    draw("c1/" + name, i, 1);
    copy("c0/" + name, "c0/copy of " + name);
  }
  TrainingPhotosConfig config{.data = at("set"), .val_split = 0.4, .cache = at("cache")};
  SaidOfDuplicates said;
  TrainingPhotos photos = load_training_photos(real_fs(), config, said);
  const auto torn = [&] {
    int n = 0;
    for (size_t i = 0; i < photos.set.photos.size(); ++i) {
      for (size_t j = 0; j < photos.set.photos.size(); ++j) {
        const std::string &path = photos.set.photos[i].path, &other = photos.set.photos[j].path;
        const bool copies = path.starts_with("c0/") && other == "c0/copy of " + path.substr(3);
        if (copies && photos.for_validation[i] != photos.for_validation[j]) ++n;
      }
    }
    return n;
  };
  ASSERT_GT(torn(), 0);
  keep_duplicates_together(photos, at("cache"), real_fs(), system_clock(), said);
  EXPECT_EQ(torn(), 0);
  EXPECT_THAT(said.all, HasSubstr("24 photos are in 12 groups"));
  EXPECT_GT(std::ranges::count(photos.for_validation, true), 0);
  const std::vector<bool> once = photos.for_validation;
  keep_duplicates_together(photos, at("cache"), real_fs(), system_clock(), said);
  EXPECT_EQ(photos.for_validation, once);
}

TEST_F(PhotoDuplicatesTest, AGivenSplitStaysAndItsCopiesAreCounted) {
  const std::string file = bytes("photos/train/c0/0.jpg");
  publish(real_fs(), at("photos/val/c0/copy.jpg"), file).or_throw();
  FinetuneConfig c = config("run");
  c.group_duplicates = true;
  SaidOfDuplicates said;
  const FinetuneResult r = train(c, said);
  EXPECT_EQ(r.val_photos, kClasses * kVal + 1);
  EXPECT_THAT(said.all, HasSubstr("1 of DATA/val are like one that is trained on"));
}

TEST_F(PhotoDuplicatesTest, ATrainingIsOfPhotosWhoseCopiesItDoesNotValidateWith) {
  for (uint64_t i = 0; i < 12; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    draw("c0/" + name, i);
    draw("c1/" + name, i, 1);
    copy("c0/" + name, "c0/copy of " + name);
  }
  FinetuneConfig plain = config("plain");
  plain.data = at("set");
  plain.val_split = 0.4;
  FinetuneConfig grouped = plain;
  grouped.out = at("grouped");
  grouped.group_duplicates = true;
  const FinetuneResult a = train(plain), b = train(grouped);
  EXPECT_EQ(a.train_photos + a.val_photos, b.train_photos + b.val_photos);
  EXPECT_NE(bytes("plain/model.onnx"), bytes("grouped/model.onnx")) << "of other photos";
  EXPECT_EQ(b.extraction.extracted, 0) << "features are the same";
}

}  // namespace
}  // namespace ndtrain::ndp
