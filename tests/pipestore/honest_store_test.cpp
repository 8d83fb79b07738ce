// What a Tuner would refuse, a store does not say: rows of NaN, names that cannot travel, lines of
// uploads out of their ranges.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "ndp/pipestore/inventory_messages.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::jpeg_of;
using testing::kSide;
using testing::test_pattern;

void fill_with_nan(Model& m) {
  for (auto& [name, t] : m.initialisers) {
    if (t.type().dtype != DType::kF32) continue;
    Tensor nan(t.type());
    std::ranges::fill(nan.mutable_as<float>(), std::nanf(""));
    t = nan;
  }
}

using HonestUploads = testing::UploadsTest;

TEST_F(HonestUploads, ALineThatATunerWouldRefuseIsNeverWritten) {
  open();
  wire::Upload good;
  good.set_digest(bytes_of(sha256("a photo")));
  good.set_path("a.jpg");
  const auto with = [&](const auto& change) {
    wire::Upload line = good;
    change(line);
    return line;
  };
  const wire::Upload bad[] = {
      with([](auto& l) { l.add_top()->set_score(.5F); }),
      with([](auto& l) {
        l.add_top()->set_name("rose");
        l.mutable_top(0)->set_score(std::nanf(""));
      }),
      with([](auto& l) { l.set_path(std::string(limits::kPathBytes + 1, 'x')); }),
      with([](auto& l) { l.set_path("../a.jpg"); }),
      with([](auto& l) { l.set_truth("a\nb"); }),
      with([](auto& l) { l.set_truth(std::string(wire::kClassNameBytes + 1, 'x')); }),
      with([](auto& l) { l.set_time(wire::kLatestTime + 1); }),
      with([](auto& l) { l.set_digest("short"); })};
  for (const wire::Upload& line : bad) {
    EXPECT_EQ(log_->commit({good, line}).code(), Code::kUnsupported) << line.ShortDebugString();
    EXPECT_THAT(log_->after(0, 1 << 20), IsEmpty()) << "all or none";
  }
  EXPECT_TRUE(log_->commit({good}).ok());
}

TEST_F(HonestUploads, APhotoOfWhichTheModelMakesNoNumbersIsKeptWithoutALabel) {
  open();
  uploads_->put_in_force("default", [] { return testing::model_of(1, fill_with_nan); });
  await([&] { return uploads_->version() == 1; });
  const Uploads::Photo photo = uploads_->add(testing::photo_file(1)).or_throw();
  EXPECT_TRUE(photo.known.uploaded);
  EXPECT_EQ(photo.known.version, 0U);
  version(2);  // and the next one labels it
  await([&] { return log_->find(photo.id)->version == 2; });
}

class HonestRows : public ::testing::Test {
 protected:
  void put(const std::string& path, int i) {
    const std::filesystem::path file = root_.at("photos/" + path);
    std::filesystem::create_directories(file.parent_path());
    support::write_file(real_fs(), file, jpeg_of(test_pattern(20 + i, 24)));
  }
  std::string model(const std::function<void(Model&)>& spoil) {
    ModelFile file{.model = build_model("tinynet", {.classes = 3, .img_size = kSide})};
    file.preprocess.img_size = file.preprocess.resize = kSide;
    spoil(file.model);
    save_model(real_fs(), root_.at("model.onnx"), file);
    return root_.at("model.onnx");
  }

  const support::TemporaryDirectory root_;
  Devices devices_{"cpu"};
};

TEST_F(HonestRows, PhotosAndLabelsWhoseNamesCannotTravelAreLeftOutAndNamed) {
  put("rose/a.jpg", 1);
  put("rose/a\nb.jpg", 2);
  put("rose/\xff.jpg", 3);
  put("tu\x1blip/c.jpg", 4);
  put("d.jpg", 5);
  PhotoRowProducer store({.photos = root_.at("photos"),
                          .labels = "folder",
                          .cache = root_.at("cache"),
                          .cache_bytes = 1 << 20},
                         devices_, real_fs(), system_clock());
  ::testing::internal::CaptureStderr();
  const StoreInventory inventory = store.scan().or_throw();
  const std::string said = ::testing::internal::GetCapturedStderr();
  std::map<std::string, std::string> labels;
  for (const StorePhoto& p : inventory.photos) labels[p.path] = p.label;
  EXPECT_EQ(labels, (std::map<std::string, std::string>{{"rose/a.jpg", "rose"}, {"d.jpg", ""}}));
  EXPECT_EQ(inventory.unreadable, 3U);
  ASSERT_EQ(inventory.unreadable_files.size(), 3U);
  EXPECT_THAT(inventory.unreadable_files[0].reason, HasSubstr("no UTF-8"));
  EXPECT_THAT(said, HasSubstr("3 photos are left out, since their names"));
  EXPECT_THAT(said, HasSubstr("rose/a\\nb.jpg"));
}

TEST_F(HonestRows, OfNanAreBadPhotosAndNotSent) {
  put("a.jpg", 1);
  PhotoRowProducer store(
      {.photos = root_.at("photos"), .cache = root_.at("cache"), .cache_bytes = 1 << 20}, devices_,
      real_fs(), system_clock());
  const auto photos = std::make_shared<StoreInventory>(store.scan().or_throw());
  ASSERT_EQ(photos->photos.size(), 1U);
  wire::Job job;
  job.set_rows(wire::Job::FEATURES);
  for (const bool spoiled : {true, false}) {
    const std::string file = model([&](Model& m) {
      if (spoiled) fill_with_nan(m);
    });
    const auto rows = store.open(job, photos, file, "").or_throw();
    const size_t place = 0;
    const JobRows::Made made = rows->make({&place, 1}).or_throw();
    EXPECT_EQ(made.rows.size(), spoiled ? 0U : 1U);
    ASSERT_EQ(made.bad.size(), spoiled ? 1U : 0U);
    if (!spoiled) continue;
    EXPECT_THAT(made.bad[0].reason, HasSubstr("NaN or Inf"));
  }
}

TEST(Inventory, NamesFilesThatCannotBeReadAsFarAsOneMessageGoes) {
  StoreInventory inventory{.unreadable = 1000};
  for (int i = 0; i < 1000; ++i) {
    inventory.unreadable_files.push_back({"a\n" + std::to_string(i) + ".jpg", "cut short"});
  }
  const auto last = [&] { return inventory_messages(1, inventory, {}, {}).back().inventory(); };
  EXPECT_EQ(last().unreadable_files_size(), 1000);
  EXPECT_EQ(last().unreadable_files(7).path(), R"(a\n7.jpg)") << "plain text";
  for (QuarantinedPhoto& p : inventory.unreadable_files) p.path = std::string(4000, 'x');
  EXPECT_EQ(last().unreadable(), 1000U);
  EXPECT_LT(last().unreadable_files_size(), 1000);
  EXPECT_GT(last().unreadable_files_size(), 100);
  EXPECT_LT(static_cast<int64_t>(last().ByteSizeLong()), limits::kMessage / 2);
}

}  // namespace
}  // namespace ndtrain::ndp
