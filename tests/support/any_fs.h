// What every Fs promises; who has a kind of it instantiates AnyFs with it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "framework/core/fs.h"
#include "framework/testing/fsync_throws.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::testing_fs {

using support::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct FsKind {
  std::string name;
  std::function<std::shared_ptr<Fs>()> make;  // empty, or null: see `lacking`
  bool tells_space = true;
  std::string lacking = {};

  // As ctest lists it.
  friend std::ostream& operator<<(std::ostream& out, const FsKind& kind) {
    return out << kind.name;
  }
};

class AnyFs : public ::testing::TestWithParam<FsKind> {
 protected:
  void SetUp() override {
    if (!GetParam().lacking.empty()) GTEST_SKIP() << GetParam().lacking;
    made = GetParam().make();
    fs().make_directories(root).or_throw();
  }

  std::string at(std::string_view name) const { return join(root, name); }
  void put(const std::string& name, std::string_view text) {
    auto file = fs().open(at(name), Fs::Mode::kCreate).or_throw();
    file->append(bytes_of(text)).or_throw();
  }
  std::string get(const std::string& name) { return fs().read(at(name)).or_throw(); }

  Fs& fs() const { return *made; }

  std::shared_ptr<Fs> made;
  support::TemporaryDirectory directory;
  const std::string root = directory.path();
};

TEST_P(AnyFs, ReadsWhatWasWritten) {
  put("a", "hello");
  EXPECT_EQ(get("a"), "hello");
  put("a", "");  // kCreate replaces
  EXPECT_EQ(get("a"), "");
}

TEST_P(AnyFs, AppendAddsAndMakesTheFile) {
  for (const char* part : {"one", "two"}) {
    fs().open(at("log"), Fs::Mode::kAppend).or_throw()->append(bytes_of(part)).or_throw();
  }
  EXPECT_EQ(get("log"), "onetwo");
}

TEST_P(AnyFs, ReadsFromAnyOffsetAndShortAtTheEnd) {
  put("a", "0123456789");
  auto file = fs().open(at("a"), Fs::Mode::kRead).or_throw();
  std::string to(4, '?');
  const auto span = std::as_writable_bytes(std::span(to));
  EXPECT_EQ(*file->read_at(3, span), 4u);
  EXPECT_EQ(to, "3456");
  EXPECT_EQ(*file->read_at(8, span), 2u);
  EXPECT_EQ(to.substr(0, 2), "89");
  EXPECT_EQ(*file->read_at(10, span), 0u);
  EXPECT_EQ(*file->read_at(1000, span), 0u);
  EXPECT_FALSE(file->read_at(-1, span).ok());
  EXPECT_EQ(*file->size(), 10);
}

TEST_P(AnyFs, AFileOpenForReadingCannotBeWritten) {
  put("a", "x");
  auto file = fs().open(at("a"), Fs::Mode::kRead).or_throw();
  EXPECT_FALSE(file->append(bytes_of("y")).ok());
  EXPECT_FALSE(file->truncate(0).ok());
  EXPECT_EQ(get("a"), "x");
}

TEST_P(AnyFs, TruncatesAndGoesOnAtTheNewEnd) {
  auto file = fs().open(at("a"), Fs::Mode::kCreate).or_throw();
  file->append(bytes_of("0123456789")).or_throw();
  file->truncate(3).or_throw();
  file->append(bytes_of("x")).or_throw();
  file->truncate(6).or_throw();  // grows with zeros
  file->sync();
  EXPECT_EQ(get("a"), std::string("012x\0\0", 6));
}

TEST_P(AnyFs, WhatIsNotThereIsNotFoundAndNamed) {
  const std::string path = at("none/such");
  EXPECT_EQ(fs().open(path, Fs::Mode::kRead).status().code(), Code::kNotFound);
  EXPECT_EQ(fs().open(path, Fs::Mode::kCreate).status().code(), Code::kNotFound);
  EXPECT_EQ(fs().info(path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs().list(path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs().remove(path).code(), Code::kNotFound);
  EXPECT_EQ(fs().rename(path, at("b")).code(), Code::kNotFound);
  const FsyncThrows throws;
  EXPECT_THROW(fs().sync_directory(path), FsyncFailed);
  EXPECT_EQ(fs().space(path).status().code(), Code::kNotFound);
  EXPECT_THAT(fs().read(path).status().message(), HasSubstr(path));
  EXPECT_FALSE(fs().exists(path));
}

TEST_P(AnyFs, AFileIsNoDirectory) {
  put("f", "x");
  EXPECT_EQ(fs().open(at("f/x"), Fs::Mode::kRead).status().code(), Code::kNotFound);
  EXPECT_EQ(fs().list(at("f")).status().code(), Code::kNotFound);
  EXPECT_EQ(fs().make_directories(at("f")).code(), Code::kExists);
  EXPECT_EQ(fs().make_directories(at("f/x")).code(), Code::kExists);
  EXPECT_EQ(fs().open(root, Fs::Mode::kRead).status().code(), Code::kUnsupported);
}

TEST_P(AnyFs, ListsNamesInByteOrder) {
  for (const char* name : {"b", "a", "\xc3\xa9", "B", ".hidden"}) put(name, "");
  fs().make_directories(at("c")).or_throw();
  EXPECT_THAT(*fs().list(root), ElementsAre(".hidden", "B", "a", "b", "c", "\xc3\xa9"));
}

TEST_P(AnyFs, MakesDirectoriesWithTheirParents) {
  fs().make_directories(at("x/y/z")).or_throw();
  fs().make_directories(at("x/y/z/")).or_throw();
  fs().make_directories(at("x//y/w/")).or_throw();
  EXPECT_TRUE(fs().info(at("x/y"))->is_directory);
  EXPECT_THAT(*fs().list(at("x/y")), ElementsAre("w", "z"));
}

TEST_P(AnyFs, RenameReplacesFiles) {
  put("a", "new");
  put("b", "old");
  const uint64_t inode = fs().info(at("a"))->inode;
  fs().rename(at("a"), at("b")).or_throw();
  EXPECT_EQ(get("b"), "new");
  EXPECT_EQ(fs().info(at("b"))->inode, inode);
  EXPECT_THAT(*fs().list(root), ElementsAre("b"));
  fs().rename(at("b"), at("b")).or_throw();
  EXPECT_EQ(get("b"), "new");
}

TEST_P(AnyFs, RenameMovesDirectoriesButNotIntoThemselves) {
  fs().make_directories(at("d/e")).or_throw();
  fs().make_directories(at("full/x")).or_throw();
  put("d/f", "x");
  EXPECT_FALSE(fs().rename(at("d"), at("d/e/d")).ok());
  EXPECT_EQ(fs().rename(at("d"), at("full")).code(), Code::kExists);
  EXPECT_FALSE(fs().rename(at("d/f"), at("full")).ok());
  fs().rename(at("d"), at("full/d")).or_throw();
  EXPECT_EQ(get("full/d/f"), "x");
}

TEST_P(AnyFs, RemovesFilesAndEmptyDirectories) {
  fs().make_directories(at("d")).or_throw();
  put("d/f", "x");
  EXPECT_EQ(fs().remove(at("d")).code(), Code::kExists);
  fs().remove(at("d/f")).or_throw();
  fs().remove(at("d")).or_throw();
  EXPECT_FALSE(fs().exists(at("d")));
}

TEST_P(AnyFs, AFileIsLockedByOneAtATimeUntilItIsClosed) {
  put("file", "bytes");
  auto open = [&] { return fs().open(at("file"), Fs::Mode::kRead).or_throw(); };
  std::unique_ptr<File> first = open();
  const std::unique_ptr<File> second = open();
  ASSERT_TRUE(first->lock().ok());
  EXPECT_TRUE(first->lock().ok()) << "again, by the holder";
  EXPECT_EQ(second->lock().code(), Code::kExists);
  EXPECT_EQ(open()->lock().code(), Code::kExists);
  first.reset();
  EXPECT_TRUE(second->lock().ok());
}

TEST_P(AnyFs, AVisitIsTheFirstOncePerDirectory) {
  EXPECT_TRUE(fs().first_visit(at("a")));
  EXPECT_TRUE(fs().first_visit(at("b")));
  EXPECT_FALSE(fs().first_visit(at("a")));
}

TEST_P(AnyFs, AnOpenFileOutlivesItsName) {
  put("a", "still here");
  auto file = fs().open(at("a"), Fs::Mode::kRead).or_throw();
  fs().remove(at("a")).or_throw();
  std::string to(10, '?');
  EXPECT_EQ(*file->read_at(0, std::as_writable_bytes(std::span(to))), 10u);
  EXPECT_EQ(to, "still here");
}

TEST_P(AnyFs, ReadTakesUpToTheLimitAndNoMore) {
  put("a", "12345");
  EXPECT_EQ(*fs().read(at("a"), 6), "12345");
  EXPECT_EQ(*fs().read(at("a"), 5), "12345");
  EXPECT_EQ(fs().read(at("a"), 4).status().code(), Code::kTooLarge);
}

TEST_P(AnyFs, InfoAndSpaceTellSizes) {
  put("a", "12345");
  EXPECT_EQ(fs().info(at("a"))->size, 5);
  EXPECT_FALSE(fs().info(at("a"))->is_directory);
  EXPECT_GT(fs().info(at("a"))->mtime_ns, 0);
  EXPECT_TRUE(fs().exists(""));  // the current directory
  if (!GetParam().tells_space) {
    EXPECT_EQ(fs().space(root).status().code(), Code::kUnsupported);
    return;
  }
  EXPECT_GT(fs().space(root)->total, 0);
  EXPECT_GE(fs().space(root)->total, fs().space(root)->free);
}

inline std::string name_of_kind(const ::testing::TestParamInfo<FsKind>& kind) {
  return kind.param.name;
}

}  // namespace ndtrain::testing_fs
