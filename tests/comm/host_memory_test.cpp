// Segments that processes share: who finds them, and what is left of them.
#include "framework/comm/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "framework/core/fs.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::comm_tests {
namespace {

using support::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr size_t kBytes = 100'000;

std::vector<std::string> names_in(const std::string& directory) {
  return real_fs().list(directory).or_throw();
}

// In another process, which ends as if it were killed.
void in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HostMemory, IsTheSameForAllThatMapIt) {
  const TemporaryDirectory directory;
  const auto made = HostMemory::make(kBytes, directory.path()).or_throw();
  const auto opened = HostMemory::open(made->name(), kBytes, directory.path()).or_throw();
  ASSERT_EQ(made->bytes().size(), kBytes);
  ASSERT_EQ(opened->bytes().size(), kBytes);
  EXPECT_NE(made->bytes().data(), opened->bytes().data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(made->bytes().data()) % 64, 0U);
  EXPECT_EQ(std::ranges::count(opened->bytes(), std::byte{0}), kBytes);
  EXPECT_THAT(names_in(directory.path()), ElementsAre(made->name()));
  made->unlink();
  EXPECT_THAT(names_in(directory.path()), IsEmpty());
  made->bytes().back() = std::byte{7};
  EXPECT_EQ(opened->bytes().back(), std::byte{7});
}

TEST(HostMemory, IsTheSameInAnotherProcess) {
  const auto made = HostMemory::make(kBytes).or_throw();
  in_child([&] {
    const auto opened = HostMemory::open(made->name(), kBytes);
    if (!opened.ok()) return false;
    (*opened)->bytes()[5] = std::byte{9};
    return true;
  });
  EXPECT_EQ(made->bytes()[5], std::byte{9});
  EXPECT_TRUE(HostMemory::open(made->name(), kBytes).ok()) << "the child has not unlinked it";
  made->unlink();
  EXPECT_EQ(HostMemory::open(made->name(), kBytes).status().code(), Code::kNotFound);
}

TEST(HostMemory, HasNoNameAnyMoreWhenItsMakerEnds) {
  const TemporaryDirectory directory;
  { const auto made = HostMemory::make(kBytes, directory.path()).or_throw(); }
  EXPECT_THAT(names_in(directory.path()), IsEmpty());
}

TEST(HostMemory, ThatIsNotWhatWasMadeIsRefused) {
  const TemporaryDirectory directory, elsewhere;
  const auto made = HostMemory::make(kBytes, directory.path()).or_throw();
  const auto code_of = [&](const std::string& name, size_t bytes, const std::string& path) {
    return HostMemory::open(name, bytes, path).status().code();
  };
  EXPECT_EQ(code_of(made->name(), kBytes, elsewhere.path()), Code::kNotFound);
  EXPECT_EQ(code_of(made->name(), kBytes + 1, directory.path()), Code::kCorrupt);
  EXPECT_EQ(code_of("../" + made->name(), kBytes, directory.path()), Code::kCorrupt);
  EXPECT_EQ(code_of("passwd", kBytes, "/etc"), Code::kCorrupt);
  real_fs()
      .rename(directory.at(made->name()), directory.at("ndtrain-0-1-0123456789abcdef"))
      .or_throw();
  EXPECT_EQ(code_of("ndtrain-0-1-0123456789abcdef", kBytes, directory.path()), Code::kCorrupt);
}

TEST(HostMemory, ThatThereIsNoRoomForIsAnError) {
  const TemporaryDirectory directory;
  const Status much = HostMemory::make(size_t{1} << 50, directory.path()).status();
  EXPECT_EQ(much.code(), Code::kNoSpace);
  EXPECT_THAT(much.message(), HasSubstr("of memory that are available"));
  const Status nowhere = HostMemory::make(kBytes, directory.at("absent")).status();
  EXPECT_EQ(nowhere.code(), Code::kNotFound);
  EXPECT_THAT(nowhere.message(), HasSubstr("cannot create it"));
  EXPECT_THAT(names_in(directory.path()), IsEmpty());
}

TEST(HostMemory, OfADeadProcessIsRemovedAndOfALiveOneIsNot) {
  const TemporaryDirectory directory;
  const auto live = HostMemory::make(kBytes, directory.path()).or_throw();
  in_child([&] {
    auto made = HostMemory::make(kBytes, directory.path());
    return made.ok() && (*made).release() != nullptr;
  });
  const std::vector<std::string> both = names_in(directory.path());
  EXPECT_EQ(both.size(), 2U);
  EXPECT_THAT(both, ::testing::Contains(live->name()));
  for (const char* name : {"ndtrain.log", "ndtrain-x"}) {
    real_fs().open(directory.at(name), Fs::Mode::kCreate).or_throw();
  }
  const auto made = HostMemory::make(kBytes, directory.path()).or_throw();
  EXPECT_THAT(names_in(directory.path()),
              UnorderedElementsAre(live->name(), made->name(), "ndtrain.log", "ndtrain-x"));
}

}  // namespace
}  // namespace ndtrain::comm_tests
