// The largest photo there may be, from a store's disk to the messages that carry it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/core/limits.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const StoreInventory> one_photo(const std::string& path, int64_t bytes) {
  return std::make_shared<StoreInventory>(
      StoreInventory{.photos = {{.digest = sha256(std::string(static_cast<size_t>(bytes), '\0')),
                                 .path = path,
                                 .bytes = bytes}}});
}

// As the store asks for it when the Tuner wants photo 0.
JobRows::Made make(JobRows& rows) {
  const size_t place = 0;
  return rows.make({&place, 1}).or_throw();
}

// The file is sparse: nothing of it is on the disk, and a copy is in memory one at a time.
TEST(LargestPhoto, GoesInPiecesAndALargerOneIsNamed) {
  const support::TemporaryDirectory root;
  std::filesystem::create_directory(root.at("photos"));
  support::write_file(real_fs(), root.at("photos/x.jpg"), std::string(1, '\0'));
  Devices devices("cpu");
  PhotoRowProducer store(
      {.photos = root.at("photos"), .cache = root.at("cache"), .cache_bytes = 1 << 20}, devices,
      real_fs(), system_clock());
  wire::Job job;
  job.set_rows(wire::Job::FILES);
  for (const int64_t over : {-1, 0, 1}) {
    const int64_t size = limits::kPhotoFile + over;
    std::filesystem::resize_file(root.at("photos/x.jpg"), static_cast<uint64_t>(size));
    const auto rows = store.open(job, one_photo("x.jpg", size), "", "").or_throw();
    RowDelivery work(1, 1, rows->row(), kWindow);
    const uint64_t zero = 0;
    wire::Wanted wanted;
    wanted.set_job(1);
    wanted.set_numbers(pack_numbers({&zero, 1}));
    wanted.set_places(pack_numbers({&zero, 1}));
    ASSERT_TRUE(work.wanted(wanted).ok());
    const RowDelivery::Batch batch = work.next(1).value();
    const JobRows::Made made = make(*rows);
    if (over > 0) {
      ASSERT_EQ(made.bad.size(), 1U);
      EXPECT_TRUE(made.rows.empty());
      EXPECT_THAT(made.bad[0].reason, HasSubstr(std::to_string(limits::kPhotoFile)));
      continue;
    }
    ASSERT_EQ(made.rows.size(), 1U);
    EXPECT_EQ(made.rows[0].size(), static_cast<size_t>(size));
    int64_t sent = 0;
    for (const wire::FromStore& m : work.done(batch, made.rows, {})) {
      ASSERT_LT(m.ByteSizeLong(), static_cast<size_t>(limits::kMessage));
      if (!m.has_rows()) continue;
      ASSERT_EQ(m.rows().lengths(0), static_cast<uint64_t>(size)) << "what the pieces make";
      sent += static_cast<int64_t>(m.rows().rows().size());
    }
    EXPECT_EQ(sent, size);
  }
}

}  // namespace
}  // namespace ndtrain::ndp
