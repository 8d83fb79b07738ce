#include "ndp/rados/rados_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

TEST(RadosUrl, NamesAPoolANamespaceAndAnObject) {
  const RadosPlace place = rados_place("rados://photos/july/rose/1.jpg").or_throw();
  EXPECT_EQ(place.pool, "photos");
  EXPECT_EQ(place.nspace, "july");
  EXPECT_EQ(place.name, "rose/1.jpg");
  EXPECT_EQ(rados_place("rados://photos/july").or_throw().name, "");
  EXPECT_FALSE(is_rados_url("/rados://photos/july"));
}

TEST(RadosUrl, TheDefaultNamespaceHasNoName) {
  const RadosPlace place = rados_place("rados://photos//rose/1.jpg").or_throw();
  EXPECT_EQ(place.pool, "photos");
  EXPECT_EQ(place.nspace, "");
  EXPECT_EQ(place.name, "rose/1.jpg");
  EXPECT_EQ(rados_place("rados://photos//").or_throw().name, "");
}

TEST(RadosUrl, APathEndsInNoSlashButThatOfTheDefaultNamespace) {
  for (const auto& [url, path] : {std::pair("rados://photos/july//", "rados://photos/july"),
                                  std::pair("rados://photos/july/a/", "rados://photos/july/a"),
                                  std::pair("rados://photos//", "rados://photos//"),
                                  std::pair("rados://photos//a/", "rados://photos//a")}) {
    EXPECT_EQ(rados_path(rados_place(url).or_throw()), path);
  }
}

TEST(RadosUrl, WhatNamesNoNamespaceIsRefusedWithWhatToWrite) {
  for (const char* const url : {"rados://", "rados://photos", "rados://photos/", "rados:///july"}) {
    const Status s = rados_place(url).status();
    EXPECT_EQ(s.code(), Code::kUnsupported) << url;
    EXPECT_THAT(s.message(), ::testing::HasSubstr("rados://POOL/NAMESPACE")) << url;
  }
}

TEST(RadosUrl, TheUserIsWhomCephsArgumentsName) {
  EXPECT_EQ(user_in_ceph_args(""), "admin");
  EXPECT_EQ(user_in_ceph_args("--keyring /etc/k --id photos"), "photos");
  EXPECT_EQ(user_in_ceph_args("--id=photos --keyring=/etc/k"), "photos");
  EXPECT_EQ(user_in_ceph_args("-n client.photos"), "photos");
  EXPECT_EQ(user_in_ceph_args("--name=client.photos -k id"), "photos");
}

}  // namespace
}  // namespace ndtrain::ndp
