// A whole PipeStore labels its photos for a job of the Tuner, and each of its file operations goes
// wrong in every way, those by which photos are read among them. No photo gets another label than
// it should, and none is lost to the next process.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "framework/core/publish.h"
#include "framework/onnx/export.h"
#include "models/zoo.h"
#include "ndp/labels/top_k_row.h"
#include "ndp/photos/encode.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "tests/faults/role_sweep.h"
#include "tests/pipestore/service_fixture.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::faults {
using namespace ndp;

namespace {

constexpr uint64_t kLabelled = 4;  // photos
constexpr uint32_t kBest = 2;      // classes of a row

// Never destroyed: backends stay loaded.
Devices& devices_of_stores() {
  static Devices& all = *new Devices("cpu");
  return all;
}

Image striped_photo(uint64_t n) {
  Image image(20, 20);
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<uint8_t>(i * (n + 1) * 37 + n * 50);
  }
  return image;
}

using LabelRows = std::map<Digest, std::string>;  // by photo

// One process, with a Tuner that wants the labels of what it does not have.
class LabellingLife {
 public:
  LabellingLife(Fs& fs, const std::string& root, const std::string& model)
      : fs_(fs), root_(root), model_(model) {}

  void play(LabelRows& kept) {
    for (int round = 0; round < 6 && !done_; ++round) {
      meet();
      lanes_.run();
      listen(kept);
      lanes_.run();
      listen(kept);
      clock_.advance(RowJobs::kRetry + std::chrono::seconds(1));
    }
  }
  bool done() const { return done_; }
  const std::string& refused() const { return refused_; }

 private:
  void say(wire::ToStore m) {
    m.set_term(1);
    service_.handle({link_, std::move(m)});
  }
  // A session and its job, where there is none.
  void meet() {
    service_.tick();
    if (link_ == met_) return;
    met_ = link_;
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    service_.handle({link_, testing::WelcomedStore::welcome()});
    photos_.clear();
    wire::ToStore m;
    m.mutable_job()->set_job(1);
    m.mutable_job()->set_rows(wire::Job::LABELS);
    m.mutable_job()->set_extractor(bytes_of(sha256(model_)));
    m.mutable_job()->set_top_k(kBest);
    say(m);
  }

  void listen(LabelRows& kept) {
    for (; heard_ < sent_.size(); ++heard_) {
      const wire::FromStore m = sent_[heard_];
      if (m.has_model_wanted()) give(m.model_wanted().offset());
      if (m.has_inventory()) want(m.inventory(), kept);
      if (m.has_rows()) keep(m.rows(), kept);
      if (m.has_refused()) refused_ = m.refused().reason();
      if (m.has_run_done()) done_ = true;
    }
  }

  void give(uint64_t offset) {
    const std::string part = model_.substr(offset);
    wire::ToStore m;
    m.mutable_model_part()->set_sha256(bytes_of(sha256(model_)));
    m.mutable_model_part()->set_offset(offset);
    m.mutable_model_part()->set_total(model_.size());
    m.mutable_model_part()->set_bytes(part);
    m.mutable_model_part()->set_checksum(xxh3(part.data(), part.size()));
    say(m);
  }

  void want(const wire::Inventory& inventory, const LabelRows& kept) {
    const std::string& bytes = inventory.digests();
    for (size_t at = 0; at < bytes.size(); at += sizeof(Digest)) {
      photos_.push_back(digest_of(bytes.substr(at, sizeof(Digest))).value());
    }
    if (!inventory.last()) return;
    std::vector<uint64_t> missing;
    for (size_t i = 0; i < photos_.size(); ++i) {
      if (!kept.contains(photos_[i])) missing.push_back(i);
    }
    if (missing.empty()) return;
    wire::ToStore m;
    m.mutable_wanted()->set_job(1);
    m.mutable_wanted()->set_numbers(pack_numbers(missing));
    m.mutable_wanted()->set_places(pack_numbers(missing));
    say(m);
  }

  void keep(const wire::Rows& rows, LabelRows& kept) {
    ASSERT_EQ(rows.checksum(), xxh3(rows.rows().data(), rows.rows().size()));
    std::set<uint64_t> bad;
    for (const wire::Unreadable& u : rows.unreadable()) bad.insert(u.number());
    size_t at = 0;
    for (const uint64_t n : unpack_numbers(rows.numbers(), kLabelled, kLabelled).or_throw()) {
      if (bad.contains(n)) continue;
      kept[photos_.at(n)] = rows.rows().substr(at, kBest * kRankedClassBytes);
      at += kBest * kRankedClassBytes;
    }
    wire::ToStore m;
    m.mutable_ack()->set_job(rows.job());
    m.mutable_ack()->set_run(rows.run());
    m.mutable_ack()->set_chunk(rows.chunk());
    say(m);
  }

  // Where the catalogue and the cache are is made before they are.
  PhotoRowConfig config() const {
    const std::string cache = join(root_, "state");
    fs_.make_directories(cache).or_throw();
    return {.photos = join(root_, "photos"), .cache = cache, .batch = 2};
  }

  Fs& fs_;
  const std::string root_, model_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, join(root_, "state"), "pipestore").or_throw();
  support::WaitingLanes lanes_;
  PhotoRowProducer producer_{config(), devices_of_stores(), fs_, clock_};
  testing::Sent sent_;
  LinkId link_ = 0, met_ = 0;
  std::function<std::unique_ptr<LinkClient>(LinkId)> dial_ = [this](LinkId id) {
    link_ = id;
    return std::make_unique<testing::Link>(sent_);
  };
  PipeStoreService service_{{.fs = fs_,
                             .clock = clock_,
                             .state = state_,
                             .lanes = lanes_,
                             .producer = producer_,
                             .dial = dial_},
                            {},
                            1};
  size_t heard_ = 0;
  std::vector<Digest> photos_;  // of the inventory
  bool done_ = false;
  std::string refused_;
};

class FaultyLabelling : public RoleSweep {
 protected:
  FaultyLabelling() : RoleSweep(Disk::kReal) {}
  // For tests behind these: before the first database is opened.
  static void SetUpTestSuite() { support::FaultyVfs::install(); }

  void SetUp() override {
    for (uint64_t n = 0; n < kLabelled; ++n) {
      const std::string folder = files_.at("photos/c" + std::to_string(n % 2));
      std::filesystem::create_directories(folder);
      publish(real_fs(), folder + "/" + std::to_string(n) + ".jpg", encode_jpeg(striped_photo(n)))
          .or_throw();
    }
    LabellingLife life(real_fs(), files_.path(), model_);
    life.play(expected_);
    ASSERT_EQ(expected_.size(), kLabelled) << life.refused();
  }

  void begin(Fs&) override {
    std::filesystem::remove_all(files_.at("state"));
    kept_.clear();
  }

  void live(Fs& fs) override {
    std::optional<LabellingLife> life;
    try {
      life.emplace(fs, files_.path(), model_);
      life->play(kept_);
    } catch (...) {
      rest();  // its destructor syncs the cache
      throw;
    }
    rest();
  }

  void go_on(Fs& disk) override {
    expect_right_labels();
    LabellingLife life(disk, files_.path(), model_);
    life.play(kept_);
    EXPECT_TRUE(life.done() || kept_.size() == kLabelled) << life.refused();
    EXPECT_EQ(kept_.size(), kLabelled) << "a photo is lost";
    expect_right_labels();
  }

 private:
  void expect_right_labels() const {
    for (const auto& [photo, row] : kept_) EXPECT_EQ(row, expected_.at(photo)) << to_hex(photo);
  }

  const support::TemporaryDirectory files_;
  const std::string model_ =
      export_model(build_model("tinynet", {.classes = kBest, .img_size = 16}));
  LabelRows expected_, kept_;
};

TEST_P(FaultyLabelling, LosesNoPhotoAndGivesNoOtherLabel) { sweep(2); }

INSTANTIATE_TEST_SUITE_P(Of, FaultyLabelling, ::testing::ValuesIn(kFaults), fault_name);

}  // namespace
}  // namespace ndtrain::faults
