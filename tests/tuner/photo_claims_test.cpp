#include "tuner/ingest/photo_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/claims.h"

namespace ndtrain::tuner {
namespace {

using testing::claim;
using testing::claims;
using ::testing::ElementsAre;

TEST(PhotoClaims, HaveWhatWasSaidInByteOrderOfThePhotos) {
  std::vector<PhotoClaim> said = claims(0, 50);
  said[7].label = "";
  said[9].source = LabelSource::kHuman;
  for (size_t i = 10; i < 50; ++i) said[i].path = "a/" + std::to_string(i);
  said[30].time = 7;
  for (size_t i = 20; i < 45; i += 2) said[i].hash = uint64_t{0xFFFF'0000'0000'0000} + i;
  const PhotoClaims all(said);
  std::ranges::sort(said, {}, &PhotoClaim::digest);
  ASSERT_EQ(all.size(), said.size());
  for (size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(all.digest(i), said[i].digest);
    EXPECT_EQ(all.label(i) == 0 ? "" : all.names().at(all.label(i) - 1), said[i].label);
    EXPECT_EQ(all.source(i), said[i].source);
    EXPECT_EQ(all.path(i), said[i].path);
    EXPECT_EQ(all.time(i), said[i].time);
    EXPECT_EQ(all.hash(i), said[i].hash);
  }
}

TEST(PhotoClaims, FindAPhotoAmongDigestsThatLieEvenlyOrDoNot) {
  for (const bool evenly : {true, false}) {
    std::vector<PhotoClaim> said = claims(0, 300), others = claims(300, 600);
    if (!evenly) {
      for (std::vector<PhotoClaim>* some : {&said, &others}) {
        for (PhotoClaim& c : *some)
          c.digest[0] = c.digest[1] = static_cast<uint8_t>(c.digest[2] % 3);
      }
    }
    const PhotoClaims all(said);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all.place_of(all.digest(i)), i);
    for (const PhotoClaim& c : others) EXPECT_EQ(all.place_of(c.digest), std::nullopt);
    Digest first{}, last;
    last.fill(0xff);
    EXPECT_EQ(all.place_of(first), std::nullopt);
    EXPECT_EQ(all.place_of(last), std::nullopt);
  }
  EXPECT_EQ(PhotoClaims().place_of(Digest{}), std::nullopt);
}

TEST(PhotoClaims, WithoutSomeHaveTheOthersAsTheyWere) {
  std::vector<PhotoClaim> said = claims(0, 10);
  for (PhotoClaim& c : said) c.path = to_hex(c.digest);
  for (size_t i = 4; i < 8; ++i) said[i].hash = i;
  const PhotoClaims all(said);
  const PhotoClaims rest = all.without([&](const Digest& d) { return d == said[3].digest; });
  ASSERT_EQ(rest.size(), 9U);
  for (size_t i = 0; i < rest.size(); ++i) {
    EXPECT_NE(rest.digest(i), said[3].digest);
    EXPECT_EQ(rest.path(i), to_hex(rest.digest(i)));
  }
}

TEST(PhotoClaims, PhotosAreHeldOnToLongerThanWhatIsSaidOfThem) {
  PhotoClaims::Photos photos;
  {
    const PhotoClaims one(std::vector{claim(1, "rose")});
    photos = one.photos();
  }
  EXPECT_THAT(*photos, ElementsAre(claim(1, "").digest));
  EXPECT_EQ(photos.use_count(), 1);
}

}  // namespace
}  // namespace ndtrain::tuner
