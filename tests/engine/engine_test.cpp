#include "ndp/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include "framework/core/clock.h"
#include "framework/passes/inference.h"
#include "framework/testing/memory_fs.h"
#include "ndp/engine/crops.h"
#include "ndp/engine/packed_crop.h"
#include "tests/graph/model_builder.h"
#include "tests/photos/photo_factory.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain::ndp {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::jpeg_of;
using testing::png_of;
using testing::test_pattern;
using testing::without_last;

constexpr int kSide = 16;
const Preprocess kPreprocess{.img_size = kSide, .resize = 20};

BatchPlans extractor(int64_t max_batch, Layout layout = Layout::kNchw) {
  return BatchPlans(
      [layout](int64_t batch) {
        Model m;
        const std::vector<int64_t> nchw = {kBatch, 3, kSide, kSide},
                                   nhwc = {kBatch, kSide, kSide, 3};
        m.inputs = {{"x", DType::kF32, layout == Layout::kNchw ? nchw : nhwc}};
        m.outputs = {"features"};
        testing::add_weight(m, "w", {8, 3, 3, 3});
        std::string x = "x";
        if (layout == Layout::kNhwc) {
          m.nodes.push_back({"Transpose", {"x"}, {"t"}, {{"perm", Ints{0, 3, 1, 2}}}});
          x = "t";
        }
        m.nodes.push_back({"Conv", {x, "w"}, {"c"}, {{"strides", Ints{2, 2}}}});
        m.nodes.push_back({"Relu", {"c"}, {"r"}, {}});
        m.nodes.push_back({"GlobalAveragePool", {"r"}, {"p"}, {}});
        m.nodes.push_back({"Flatten", {"p"}, {"features"}, {}});
        return inference_graph(m, batch);
      },
      testing::cpu(), max_batch);
}

struct File {
  std::string name, bytes;
};

// JPEG and PNG photos of many sizes.
std::vector<File> photos(int n) {
  std::vector<File> files;
  for (int i = 0; i < n; ++i) {
    const Image image = test_pattern(20 + 7 * (i % 5), 24 + 5 * (i % 7) + i);
    const std::string number = std::to_string(i);
    files.push_back(i % 3 == 0 ? File{number + ".png", png_of(image)}
                               : File{number + ".jpg", jpeg_of(image)});
  }
  return files;
}

std::vector<size_t> all_of(const std::vector<File>& files) {
  std::vector<size_t> items(files.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = i;
  return items;
}

struct Outcome {
  std::vector<size_t> items;  // that came out, in order
  std::map<size_t, std::vector<float>> rows;
  std::map<size_t, Code> bad;
  std::vector<size_t> batches;  // photos of each, good and bad
  EngineStats stats;
};

Outcome run(const std::vector<File>& files, const std::vector<size_t>& items,
            EngineOptions options = {.batch = 8}, const Preprocess& preprocess = kPreprocess,
            const Engine::Crops* crops = nullptr) {
  BatchPlans plans = extractor(options.batch, preprocess.layout);
  Engine engine(plans, preprocess, options);
  Outcome o;
  o.stats = engine.run(
      items, [&](size_t i) { return files[i].name; },
      [&](size_t i) -> Result<std::string> {
        if (files[i].bytes == "gone") return Status(Code::kNotFound, "it is gone");
        return files[i].bytes;
      },
      [&](const Engine::Batch& b) {
        for (size_t k = 0; k < b.items.size(); ++k) {
          o.items.push_back(b.items[k]);
          const Tensor& t = b.outputs.at(0);
          const auto width = static_cast<size_t>(t.shape()[1]);
          const auto row = t.as<float>().subspan(k * width, width);
          o.rows[b.items[k]].assign(row.begin(), row.end());
        }
        for (const BadPhoto& bad : b.bad) o.bad[bad.item] = bad.reason.code();
        o.batches.push_back(b.items.size() + b.bad.size());
        return true;
      },
      crops);
  return o;
}

TEST(Engine, PhotosComeOutInTheOrderAskedFor) {
  const std::vector<File> files = photos(37);
  std::vector<size_t> items = {36, 3, 12};
  for (size_t i = 20; i > 4; --i) items.push_back(i);
  for (int ring : {1, 2, 3, 5}) {
    const Outcome o = run(files, items, {.batch = 4, .ring = ring});
    EXPECT_EQ(o.items, items) << "ring of " << ring;
    EXPECT_EQ(o.batches, (std::vector<size_t>{4, 4, 4, 4, 3}));
    EXPECT_EQ(o.stats.photos, 19);
  }
}

TEST(Engine, SaysHowFullItsRingIs) {
  const std::vector<File> files = photos(20);
  BatchPlans plans = extractor(4);
  RingLevels levels;
  Engine engine(plans, kPreprocess, {.batch = 4, .ring = 3, .levels = &levels});
  size_t most = 0;
  const auto run = [&](bool to_the_end) {
    engine.run(
        all_of(files), [&](size_t i) { return files[i].name; },
        [&](size_t i) -> Result<std::string> { return files[i].bytes; },
        [&](const Engine::Batch&) {
          // This one has a buffer; the other two fill meanwhile, but for one that may be computed.
          const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
          while (most == 0 && std::chrono::steady_clock::now() < until) most = levels.ready;
          return to_the_end;
        });
  };
  for (const bool to_the_end : {true, false}) {
    most = 0;
    run(to_the_end);
    EXPECT_THAT(most, ::testing::AllOf(::testing::Ge(1U), ::testing::Le(2U)));
    EXPECT_EQ(levels.loaded, 0U);
    EXPECT_EQ(levels.ready, 0U);
  }
}

TEST(Engine, AFeatureDependsOnItsPhotoAlone) {
  const std::vector<File> files = photos(21);
  const Outcome together = run(files, all_of(files));
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(run(files, {i}, {.batch = 1}).rows,
              (decltype(together.rows){{i, together.rows.at(i)}}))
        << files[i].name;
  }
}

class KeptCrops : public ::testing::Test {
 protected:
  explicit KeptCrops() {
    for (const File& f : files_) digests_.push_back(sha256(f.bytes));
  }
  std::unique_ptr<SegmentStore> store(int64_t budget) {
    return SegmentStore::open(fs_, clock_, "cache", {.budget_bytes = budget}).or_throw();
  }
  Outcome run_with(SegmentStore& store, const std::vector<File>& files, bool pack = false) {
    CropCache cache(store, kPreprocess, pack);
    const std::function<const Digest&(size_t)> digest = [&](size_t i) -> const Digest& {
      return digests_[i];
    };
    const Engine::Crops crops = cache.with(digest);
    return run(files, all_of(files), {.batch = 8}, kPreprocess, &crops);
  }

  // The photos, of which only some can still be read.
  std::vector<File> gone_but(std::set<size_t> there) const {
    std::vector<File> files = files_;
    for (size_t i = 0; i < files.size(); ++i) {
      if (!there.contains(i)) files[i].bytes = "gone";
    }
    return files;
  }
  CropCodec codec(SegmentStore& store, size_t i) {
    return static_cast<CropCodec>(
        store.find(crop_group(kPreprocess), digests_[i]).or_throw().meta.codec);
  }

  MemoryFs fs_;
  ManualClock clock_;
  const std::vector<File> files_ = photos(19);
  std::vector<Digest> digests_;
};

TEST_F(KeptCrops, GiveTheSameFeaturesWithoutTheFiles) {
  const auto cache = store(int64_t{1} << 30);
  const Outcome first = run_with(*cache, files_);
  EXPECT_EQ(first.stats.crops, 0);
  ASSERT_TRUE(cache->remove(crop_group(kPreprocess), digests_[7]).ok());
  const Outcome second = run_with(*cache, gone_but({7}));
  EXPECT_EQ(second.stats.crops, 18);
  EXPECT_EQ(second.rows, first.rows);
  EXPECT_EQ(second.rows, run(files_, all_of(files_)).rows);
}

TEST_F(KeptCrops, PackedOnesGiveTheSameFeaturesBesideOthers) {
  const auto cache = store(int64_t{1} << 30);
  const Outcome want = run_with(*cache, files_);
  const auto pixels = cache->disk_bytes();
  for (const size_t i : {2, 9}) cache->remove(crop_group(kPreprocess), digests_[i]).or_throw();
  (void)run_with(*cache, gone_but({2, 9}), true);
  EXPECT_EQ(codec(*cache, 2), CropCodec::kPacked);
  EXPECT_EQ(codec(*cache, 3), CropCodec::kPixels);
  for (const bool pack : {false, true}) {
    const Outcome kept = run_with(*cache, gone_but({}), pack);
    EXPECT_EQ(kept.stats.crops, 19);
    EXPECT_EQ(kept.rows, want.rows);
  }
  cache->remove_group(crop_group(kPreprocess)).or_throw();
  EXPECT_EQ(run_with(*cache, files_, true).rows, want.rows);
  EXPECT_LT(cache->disk_bytes(), pixels);
}

TEST_F(KeptCrops, APackedOneThatIsDamagedOnDiskIsMadeAgain) {
  const Outcome want = run(files_, all_of(files_));
  auto cache = store(int64_t{1} << 30);
  (void)run_with(*cache, gone_but({2}), true);
  ASSERT_EQ(codec(*cache, 2), CropCodec::kPacked);
  cache->close().or_throw();
  cache.reset();
  const std::string segment = "cache/0000000001.seg";
  std::string file = fs_.read(segment).or_throw();
  file[file.size() - 16] ^= 1;
  support::write_file(fs_, segment, file);
  cache = store(int64_t{1} << 30);
  const Outcome again = run_with(*cache, files_, true);
  EXPECT_EQ(again.stats.crops, 0);
  EXPECT_EQ(again.rows, want.rows);
  EXPECT_EQ(run_with(*cache, gone_but({}), true).rows, want.rows);
}

// Whatever wrote them: their checksums are right.
TEST_F(KeptCrops, ThoseThatAreNoCropsAreMadeAgain) {
  const auto cache = store(int64_t{1} << 30);
  const auto put = [&](size_t i, CropCodec codec, std::string_view bytes) {
    const RecordMeta meta{.codec = static_cast<uint8_t>(codec)};
    cache->put(crop_group(kPreprocess), digests_[i], meta, std::as_bytes(std::span(bytes)))
        .or_throw();
  };
  put(0, CropCodec::kPacked, "");
  put(1, CropCodec::kPacked, "no frame of zstd");
  const auto larger = pack_crop(testing::flat(2 * kSide, 2 * kSide, 1, 2, 3));
  put(2, CropCodec::kPacked, {reinterpret_cast<const char*>(larger.data()), larger.size()});
  put(3, CropCodec::kPacked, std::string(4 * kPreprocess.values(), 'x'));
  put(4, CropCodec::kPixels, std::string(kPreprocess.values() - 1, 'x'));
  put(5, CropCodec{99}, std::string(kPreprocess.values(), 'x'));
  const Outcome o = run_with(*cache, files_);
  EXPECT_EQ(o.stats.crops, 0);
  int64_t read = 0;
  for (const File& f : files_) read += static_cast<int64_t>(f.bytes.size());
  EXPECT_EQ(o.stats.bytes, read);
  EXPECT_EQ(o.rows, run(files_, all_of(files_)).rows);
  EXPECT_EQ(run_with(*cache, gone_but({})).rows, o.rows);
}

TEST_F(KeptCrops, NeverPushOutWhatElseIsInTheStore) {
  constexpr int64_t kBudget = 64 << 10;
  const auto cache = store(kBudget);
  const std::vector<std::byte> feature(40 << 10);
  const Digest extractor = sha256("extractor");
  ASSERT_TRUE(cache->put(extractor, digests_[0], {}, feature).ok());
  (void)run_with(*cache, files_);
  EXPECT_TRUE(cache->contains(extractor, digests_[0]));
  EXPECT_LE(cache->disk_bytes(), kBudget);
}

TEST(Engine, FeaturesAreThoseOfThePreprocessedPhoto) {
  const std::vector<File> files = photos(3);
  for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    Preprocess p = kPreprocess;
    p.layout = layout;
    const Outcome o = run(files, all_of(files), {}, p);
    for (size_t i = 0; i < files.size(); ++i) {
      const Shape s =
          layout == Layout::kNchw ? Shape{1, 3, kSide, kSide} : Shape{1, kSide, kSide, 3};
      Tensor input({DType::kF32, s});
      PhotoCost cost;
      preprocess_photo(files[i].name, files[i].bytes, p, input.mutable_as<float>().data(), cost)
          .or_throw();
      const auto want = extractor(1, layout).run({&input, 1})[0];
      const auto row = want.as<float>();
      EXPECT_EQ(o.rows.at(i), std::vector<float>(row.begin(), row.end()));
    }
  }
}

TEST(Engine, SeesOfAPhotoWhatItIsTold) {
  const std::vector<File> files = photos(9);
  const Outcome plain = run(files, all_of(files));
  const auto crop = [&](size_t item, const std::string& name, std::string_view file,
                        PhotoCost& cost) -> Result<Image> {
    EXPECT_EQ(file, files[item].bytes);
    if (item == 4) return Status(Code::kCorrupt, "not this one");
    if (item < 4) return crop_photo(name, file, kPreprocess, cost);
    return crop_photo(files[0].name, files[0].bytes, kPreprocess, cost);
  };
  const Outcome o = run(files, all_of(files), {.batch = 4, .crop = crop});
  EXPECT_EQ(o.bad, (std::map<size_t, Code>{{4, Code::kCorrupt}}));
  for (size_t i = 0; i < files.size(); ++i) {
    if (i != 4) {
      EXPECT_EQ(o.rows.at(i), plain.rows.at(i < 4 ? i : 0)) << i;
    }
  }
  const Engine::Crops kept = {};
  EXPECT_NE(error_of([&] { run(files, all_of(files), {.crop = crop}, kPreprocess, &kept); }),
            "no error");
}

TEST(Engine, BadPhotosAreReportedAndOthersUnaffected) {
  const std::vector<File> good = photos(24);
  std::vector<File> files = good;
  files[0].bytes = without_last(good[0].bytes, 10);
  files[4].bytes = without_last(good[4].bytes, good[4].bytes.size() / 2);
  files[7].name = "7.png";  // a JPEG
  files[8].bytes = "";
  files[10].bytes = "gone";
  files[11].bytes = testing::jpeg_declaring(good[11].bytes, 60000, 60000);
  files[13] = {"13.bmp", std::string("BM\x24\0\0\0\0\0\0\0", 10) + std::string(28, 'x')};
  for (size_t i = 16; i < 24; ++i) files[i].bytes = "no photo at all";  // a whole batch
  const Outcome want = run(good, all_of(good)), o = run(files, all_of(files));
  EXPECT_EQ(o.bad.size(), 15U);
  EXPECT_EQ(o.bad.at(13), Code::kUnsupported);
  EXPECT_EQ(o.bad.at(10), Code::kNotFound);
  EXPECT_EQ(o.stats.skipped, 1);
  EXPECT_EQ(o.stats.quarantined, 14);
  EXPECT_EQ(o.stats.photos, 9);
  EXPECT_EQ(o.items, (std::vector<size_t>{1, 2, 3, 5, 6, 9, 12, 14, 15}));
  for (size_t i : o.items) EXPECT_EQ(o.rows.at(i), want.rows.at(i)) << i;
}

TEST(Engine, PhotosOfExtremeShapesComeOut) {
  const std::vector<File> files = {{"a.jpg", jpeg_of(test_pattern(1, 20000))},
                                   {"b.png", png_of(test_pattern(20000, 1))},
                                   {"c.png", png_of(test_pattern(1, 1))}};
  const Outcome o = run(files, all_of(files));
  EXPECT_EQ(o.items, all_of(files));
}

TEST(Engine, CountsBytesAndHarmlessWarnings) {
  std::vector<File> files = photos(4);
  files[1].bytes.insert(files[1].bytes.size() - 2, "extraneous");
  int64_t bytes = 0;
  for (const File& f : files) bytes += static_cast<int64_t>(f.bytes.size());
  const Outcome o = run(files, all_of(files));
  EXPECT_EQ(o.stats.photos, 4);
  EXPECT_EQ(o.stats.bytes, bytes);
  EXPECT_GE(o.stats.warnings, 1);
  EXPECT_GT(o.stats.wall_s, 0);
}

TEST(Engine, NothingToDoIsDoneAtOnce) {
  const Outcome o = run({}, {});
  EXPECT_TRUE(o.batches.empty());
  EXPECT_EQ(o.stats.photos, 0);
}

// What a run does when a stage misbehaves.
struct Interrupted {
  int batches = 0;
  std::atomic<size_t> opened{0};
  std::string error;
  Interrupted(size_t throw_in_open, int stop_after, bool throw_in_batch) {
    const std::vector<File> files = photos(1);
    const std::vector<size_t> items(200, 0);
    BatchPlans plans = extractor(4);
    Engine engine(plans, kPreprocess, {.batch = 4});
    error = error_of([&] {
      engine.run(
          items, [&](size_t) { return files[0].name; },
          [&](size_t) -> Result<std::string> {
            if (++opened == throw_in_open) throw Error("the cable came out");
            return files[0].bytes;
          },
          [&](const Engine::Batch&) {
            ++batches;
            if (batches < stop_after) return true;
            if (throw_in_batch) throw Error("the disk is full");
            return false;
          });
    });
  }
};

TEST(Engine, TheCallerCanStopARun) {
  const Interrupted i(0, 3, false);
  EXPECT_EQ(i.error, "no error");
  EXPECT_EQ(i.batches, 3);
  EXPECT_LE(i.opened, 4U * (3 + 2));  // a ring of 3 holds two more
}

TEST(Engine, AnExceptionOfTheSourceSurfaces) {
  const Interrupted i(21, 1000, false);
  EXPECT_THAT(i.error, HasSubstr("the cable came out"));
  EXPECT_EQ(i.batches, 5);  // what was whole before it
}

TEST(Engine, AnExceptionOfTheCallerSurfaces) {
  const Interrupted i(0, 2, true);
  EXPECT_THAT(i.error, HasSubstr("the disk is full"));
  EXPECT_EQ(i.batches, 2);
}

TEST(Engine, AnExceptionOfTheExtractorSurfaces) {
  BatchPlans plans([](int64_t) -> Graph { throw Error("no such kernel"); }, testing::cpu(), 4);
  Engine engine(plans, kPreprocess, {.batch = 4});
  const std::vector<File> files = photos(9);
  EXPECT_THAT(error_of([&] {
                engine.run(
                    all_of(files), [&](size_t i) { return files[i].name; },
                    [&](size_t i) -> Result<std::string> { return files[i].bytes; },
                    [](const Engine::Batch&) { return true; });
              }),
              HasSubstr("no such kernel"));
}

TEST(Engine, OptionsAreChecked) {
  BatchPlans plans = extractor(4);
  EXPECT_NE(error_of([&] { Engine(plans, kPreprocess, {.batch = 0}); }), "no error");
  EXPECT_NE(error_of([&] { Engine(plans, kPreprocess, {.ring = 0}); }), "no error");
  Preprocess p = kPreprocess;
  p.img_size = 0;
  EXPECT_NE(error_of([&] { Engine(plans, p); }), "no error");
}

}  // namespace
}  // namespace ndtrain::ndp
