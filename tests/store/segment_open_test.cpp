// What opening a store reads.
#include <gtest/gtest.h>

#include "tests/store/store_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_store;

// Counts the bytes read from segment files.
class CountingFs final : public Fs {
 public:
  explicit CountingFs(Fs& fs) : fs_(fs) {}

  int64_t bytes_read = 0;

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = fs_.open(path, mode);
    if (!file.ok()) return file.status();
    const bool counts = segment_number(name_of_path(path)).has_value();
    return std::unique_ptr<File>(
        std::make_unique<Counted>(std::move(*file), counts ? &bytes_read : nullptr));
  }
  Result<FileInfo> info(const std::string& path) override { return fs_.info(path); }
  Result<std::vector<std::string>> list(const std::string& d) override { return fs_.list(d); }
  Status make_directories(const std::string& path) override { return fs_.make_directories(path); }
  Status rename(const std::string& a, const std::string& b) override { return fs_.rename(a, b); }
  Status remove(const std::string& path) override { return fs_.remove(path); }
  Status sync_directory(const std::string& path) override { return fs_.sync_directory(path); }
  Result<Space> space(const std::string& path) override { return fs_.space(path); }

 private:
  class Counted final : public File {
   public:
    Counted(std::unique_ptr<File> file, int64_t* count) : file_(std::move(file)), count_(count) {}
    Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
      if (count_) *count_ += static_cast<int64_t>(to.size());
      return file_->read_at(offset, to);
    }
    Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
    Status truncate(int64_t size) override { return file_->truncate(size); }
    Status sync() override { return file_->sync(); }
    Result<int64_t> size() override { return file_->size(); }

   private:
    std::unique_ptr<File> file_;
    int64_t* count_;
  };

  Fs& fs_;
};

TEST(SegmentOpen, ReadsOnlyHeadersWhereTheIndexDoesNotReachAndNothingWhereItDoes) {
  MemoryFs memory;
  ManualClock clock;
  const Digest group = digest("g");
  const SegmentOptions options{.segment_bytes = 1 << 20};
  constexpr int kRecords = 300;
  const std::string payload(20'000, 'x');
  {
    auto store = open_store(memory, clock, options);
    for (int i = 0; i < kRecords; ++i) ASSERT_TRUE(put(*store, group, key(i), payload).ok());
    ASSERT_TRUE(store->close().ok());
  }
  const auto segments = static_cast<int64_t>(segment_files(memory).size());
  ASSERT_GE(segments, 5);
  {
    CountingFs fs(memory);
    auto store = open_store(fs, clock, options);
    EXPECT_EQ(fs.bytes_read, segments * static_cast<int64_t>(kSegmentHeaderBytes));
    EXPECT_EQ(store->groups().at(0).records, kRecords);
  }
  ASSERT_TRUE(memory.remove(join(kDir, "index")).ok());
  CountingFs fs(memory);
  auto store = open_store(fs, clock, options);
  // The last segment is read whole: only it can be torn.
  EXPECT_LT(fs.bytes_read, (1 << 20) + kRecords * 100 + segments * 100);
  EXPECT_EQ(store->groups().at(0).records, kRecords);
}

TEST(SegmentOpen, ReadsOnlyTheTailAfterACrash) {
  MemoryFs memory;
  ManualClock clock;
  const Digest group = digest("g");
  const std::string payload(20'000, 'x');
  auto store = open_store(memory, clock);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put(*store, group, key(i), payload).ok());
  ASSERT_TRUE(store->close().ok());
  store = nullptr;
  store = open_store(memory, clock);
  ASSERT_TRUE(put(*store, group, key(100), payload).ok());
  ASSERT_TRUE(store->flush().ok());
  store = nullptr;
  memory.crash();
  CountingFs fs(memory);
  store = open_store(fs, clock);
  EXPECT_LT(fs.bytes_read, 21'000);
  EXPECT_EQ(store->groups().at(0).records, 101);
}

}  // namespace
}  // namespace ndtrain::ndp
