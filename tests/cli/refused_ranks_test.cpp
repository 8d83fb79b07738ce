// Ranks of a run that are not of the same one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

using RefusedRanks = testing_cli::RanksTest;

TEST_F(RefusedRanks, ThoseThatDifferAreRefusedByTheFirstDifference) {
  const Pair pair = start_apart({"-e", "2"}, {"--lr", "0.5"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  for (const Outcome& o : {first, second}) {
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, AllOf(HasSubstr("rank 1 is not of the same run as rank 0"),
                             HasSubstr("--lr is 0.5, not 0.001")));
  }
  EXPECT_FALSE(real_fs().exists(at("run")));
}

// Under the same names.
TEST_F(RefusedRanks, ThoseWithAnotherModelOrOtherPhotosAreRefused) {
  ASSERT_EQ(
      run({"model", "build", "tinynet", "-o", "n.onnx", "--classes", "2", "--seed", "9"}).code, 0);
  std::filesystem::copy(at("photos"), at("fewer"), std::filesystem::copy_options::recursive);
  std::filesystem::remove(at("fewer/c0/0.jpg"));
  constexpr int kModel = 100, kPhotos = 101;
  const auto start_with = [&](int rank, const std::string& rendezvous, const std::string& model,
                              const std::string& photos) {
    const int m = ::open(at(model).c_str(), O_RDONLY), p = ::open(at(photos).c_str(), O_RDONLY);
    ::dup2(m, kModel);
    ::dup2(p, kPhotos);
    Words words = train("run" + std::to_string(rank), {"-e", "2"});
    words[1] = "/dev/fd/" + std::to_string(kPhotos);
    words[3] = "/dev/fd/" + std::to_string(kModel);
    const pid_t child =
        start_as("rank" + std::to_string(rank), at_place(words, rank, 2, rendezvous));
    for (const int fd : {m, p, kModel, kPhotos}) ::close(fd);
    return child;
  };
  for (const auto& [model, photos, what] : {std::array{"n.onnx", "photos", "model is "},
                                            {"m.onnx", "fewer", "photos and labels is "}}) {
    const std::string rendezvous = free_address();
    const pid_t first = start_with(0, rendezvous, "m.onnx", "photos"),
                second = start_with(1, rendezvous, model, photos);
    for (const Outcome& o : {end_of(second, "rank1"), end_of(first, "rank0")}) {
      EXPECT_EQ(o.code, 1) << o.err;
      EXPECT_THAT(o.err,
                  AllOf(HasSubstr("rank 1 is not of the same run as rank 0"), HasSubstr(what)));
    }
  }
}

// As on another processor: rank 1 has one plugin only.
TEST_F(RefusedRanks, ThoseWithOtherKernelsAreRefusedByName) {
  const std::string plugins = std::getenv("NDTRAIN_BACKEND_PATH");
  if (!real_fs().exists(plugins + "/libndt_onednn.so")) GTEST_SKIP() << "no onednn plugin";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(plugins)) {
    if (entry.path().filename() != "libndt_cpu.so") continue;
    const std::filesystem::path to =
        std::filesystem::path(at("plugins")) / std::filesystem::relative(entry.path(), plugins);
    std::filesystem::create_directories(to.parent_path());
    std::filesystem::create_symlink(entry.path(), to);
  }
  const std::string rendezvous = free_address();
  const pid_t first = start_as("rank0", at_place(train("run", {"-e", "2"}), 0, 2, rendezvous));
  ::setenv("NDTRAIN_BACKEND_PATH", at("plugins").c_str(), 1);
  const pid_t second = start_as("rank1", at_place(train("run1", {"-e", "2"}), 1, 2, rendezvous));
  ::setenv("NDTRAIN_BACKEND_PATH", plugins.c_str(), 1);
  for (const Outcome& o : {end_of(second, "rank1"), end_of(first, "rank0")}) {
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, AllOf(HasSubstr("rank 1 is not of the same run as rank 0"),
                             HasSubstr("processor and plugin is cpu"), HasSubstr("not onednn")));
  }
}

TEST_F(RefusedRanks, ThoseThatExchangeOtherwiseAreRefusedByTheFirstDifference) {
  const Pair pair = start_apart({"-e", "2"}, {"--sync", "dear"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  for (const Outcome& o : {first, second}) {
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr("--sync is dear, not ddp"));
  }
}

TEST_F(RefusedRanks, AShardedOptimizerIsOneOfAllOrOfNone) {
  const Pair pair = start_apart({"-e", "2"}, {"--shard-optimizer"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  for (const Outcome& o : {first, second}) {
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr("--shard-optimizer is true, not false"));
  }
}

}  // namespace
}  // namespace ndtrain
