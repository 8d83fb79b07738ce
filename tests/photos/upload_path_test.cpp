#include "ndp/photos/upload_path.h"

#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

TEST(UploadPath, IsMadeOfThePhotosBytesAndKnownByThat) {
  const Digest id = sha256("a photo");
  const std::string hex = to_hex(id), path = upload_path(id, ".jpg");
  EXPECT_EQ(path, "uploads/" + hex.substr(0, 2) + "/" + hex + ".jpg");
  EXPECT_TRUE(is_upload_path(path));
  for (const char* extension : {".png", ".heic", ".avif", ".webp", ".gif", ".tif"}) {
    EXPECT_TRUE(is_upload_path(upload_path(id, extension))) << extension;
  }
  EXPECT_TRUE(is_upload_path("/srv/photos/" + path));
}

TEST(UploadPath, IsFlatInAnS3) {
  const Digest id = sha256("a photo");
  const std::string key = upload_key(upload_path(id, ".png"));
  EXPECT_EQ(key, "uploads/" + to_hex(id) + ".png");
  EXPECT_TRUE(is_upload_path(key));
  EXPECT_TRUE(is_upload_path("s3://photos/july/" + key));
  EXPECT_EQ(photo_of_upload_path(key), id);
}

TEST(UploadPath, WhatPeopleNamedIsNone) {
  const std::string hex = to_hex(sha256("a photo")), two = hex.substr(0, 2);
  for (const std::string& path :
       {std::string(), std::string("uploads"), std::string("uploads/cat.jpg"),
        "july/" + hex + ".jpg", two + "/" + hex + ".jpg", "upload/" + two + "/" + hex + ".jpg",
        "uploads/" + two + "/" + hex, "uploads/" + two + "/" + hex + ".jpeg",
        "uploads/" + two + "/" + hex + "0.jpg", "uploads/" + two + "/" + hex.substr(1) + ".jpg",
        "uploads/zz/" + hex + ".jpg", "uploads/" + two + "/" + hex.substr(0, 63) + "g.jpg"}) {
    EXPECT_FALSE(is_upload_path(path)) << path;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
