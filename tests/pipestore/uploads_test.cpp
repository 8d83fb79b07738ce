#include "ndp/pipestore/uploads.h"

#include <gmock/gmock.h>

#include "framework/testing/fsync_throws.h"
#include "ndp/engine/crops.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using testing::expect_label;
using ::testing::HasSubstr;
using testing::labels_of;
using testing::model_of;
using testing::photo_file;
using testing::UploadsTest;

TEST_F(UploadsTest, LabelsAPhotoAsAJobDoesToTheLastBit) {
  open();
  version(1);
  std::vector<std::string> files;
  std::vector<std::thread> clients;
  std::vector<UploadLog::Known> known(20);
  for (int i = 0; i < 20; ++i) files.push_back(photo_file(i));
  for (size_t i = 0; i < files.size(); ++i) {
    clients.emplace_back([&, i] { known[i] = uploads_->add(files[i]).or_throw().known; });
  }
  for (std::thread& c : clients) c.join();
  const auto model = model_of(1);
  const auto expected = labels_of(*model, files);
  for (size_t i = 0; i < files.size(); ++i) {
    expect_label(known[i], expected[i]);
    EXPECT_EQ(known[i].version, 1U);
  }
  EXPECT_LT(uploads_->counts().online.batches, 20);
}

TEST_F(UploadsTest, KeepsThePhotoUnderItsDigestAndItsCropAndFeatureForJobs) {
  open();
  version(1);
  const std::string file = photo_file(0);
  const Uploads::Photo photo = uploads_->add(file).or_throw();
  const std::string hex = to_hex(sha256(file));
  EXPECT_EQ(photo.known.path, "uploads/" + hex.substr(0, 2) + "/" + hex + ".jpg");
  EXPECT_EQ(fs_.read("state/" + photo.known.path).or_throw(), file);
  EXPECT_EQ(fs_.list("photos").or_throw().size(), 0U) << "a folder there is a class";
  EXPECT_EQ(uploads_->read(photo.id).or_throw(), file);
  close();  // what is written behind is written
  const auto model = model_of(1);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(cache_->get(model->network->id(), photo.id, bytes).ok());
  const std::string feature(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  expect_label(photo.known, model->network->classify({&feature, 1}, 5).at(0));
  const Preprocess& p = model->network->preprocess();
  ASSERT_TRUE(cache_->get(crop_group(p), photo.id, bytes).ok());
  const std::string_view crop(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto rows = model->network->rows(infer_crops(model->network->plans(), p, {&crop, 1}), 1);
  EXPECT_EQ(rows.at(0), feature);
}

TEST_F(UploadsTest, KeepsTheSameCropCompressedWhenAsked) {
  const std::string file = photo_file(0);
  const Preprocess p = model_of(1)->network->preprocess();
  std::vector<Image> crops;
  for (const bool compress : {false, true}) {
    open_cache();
    cache_->remove_group(crop_group(p)).or_throw();
    photos_ = compress ? "photos2" : "photos";
    state_ = compress ? "state2" : "state";
    open({.compress_crops = compress});
    version(1);
    const Uploads::Photo photo = uploads_->add(file).or_throw();
    close();
    const Found kept = cache_->find(crop_group(p), photo.id).or_throw();
    EXPECT_EQ(kept.meta.codec, compress ? 1 : 0);
    EXPECT_EQ(kept.bytes < p.values(), compress);
    crops.push_back(CropCache(*cache_, p, compress).get(photo.id).value());
  }
  EXPECT_EQ(crops[0].rgb, crops[1].rgb);
}

TEST_F(UploadsTest, TheSameBytesAreTheSamePhoto) {
  open();
  version(1);
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] { uploads_->add(photo_file(1)).or_throw(); });
  }
  for (std::thread& c : clients) c.join();
  EXPECT_EQ(uploads_->counts().online.photos, 1);
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 1U);
  // A newer version says what it thinks; then that is what is known.
  version(2);
  EXPECT_EQ(uploads_->add(photo_file(1)).or_throw().known.version, 2U);
  EXPECT_EQ(uploads_->add(photo_file(1)).or_throw().known.version, 2U);
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 2U);
}

TEST_F(UploadsTest, WhatIsNoPhotoIsRefusedAndNotKept) {
  open();
  version(1);
  const std::string cut = testing::without_last(photo_file(2), 40);
  const Status s = uploads_->add(cut).status();
  EXPECT_EQ(s.code(), Code::kCorrupt) << s.message();
  EXPECT_EQ(uploads_->add("no photo at all").status().code(), Code::kCorrupt);
  EXPECT_THAT(fs_.list("state/uploads").or_throw(), ::testing::ElementsAre("log"));
  EXPECT_EQ(log_->counts().photos, 0);
  EXPECT_EQ(uploads_->counts().unreadable, 2);
}

TEST_F(UploadsTest, WithoutAVersionAPhotoIsKeptAndLabelledOnceThereIsOne) {
  open();
  std::vector<std::string> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(photo_file(i));
    EXPECT_EQ(uploads_->add(files.back()).or_throw().known.version, 0U);
  }
  EXPECT_EQ(uploads_->add("no photo").status().code(), Code::kCorrupt);
  open();  // also over a restart
  version(1);
  await([&] { return log_->counts().unlabelled == 0; });
  const auto model = model_of(1);
  const auto expected = labels_of(*model, files);
  for (size_t i = 0; i < files.size(); ++i) {
    expect_label(uploads_->find(sha256(files[i])).or_throw().known, expected[i]);
  }
}

TEST_F(UploadsTest, EachPhotoIsLabelledByOneVersionAsAWholeWhileVersionsChange) {
  open();
  version(1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  std::vector<std::vector<std::pair<int, UploadLog::Known>>> seen(4);
  for (size_t c = 0; c < seen.size(); ++c) {
    clients.emplace_back([&, c] {
      for (int i = static_cast<int>(c); !stop; i += 4) {
        seen[c].emplace_back(i % 200, uploads_->add(photo_file(i % 200)).or_throw().known);
      }
    });
  }
  for (uint64_t v = 2; v <= 5; ++v) version(v);
  stop = true;
  for (std::thread& c : clients) c.join();
  std::vector<std::string> files;
  for (int i = 0; i < 200; ++i) files.push_back(photo_file(i));
  std::map<uint64_t, std::vector<std::vector<ClassScore>>> expected;
  for (const auto& client : seen) {
    for (const auto& [i, known] : client) {
      if (!expected.contains(known.version)) {
        expected[known.version] = labels_of(*model_of(known.version), files);
      }
      expect_label(known, expected[known.version][static_cast<size_t>(i)]);
    }
  }
  EXPECT_GT(expected.size(), 1U);
}

TEST_F(UploadsTest, AVersionThatCannotRunLeavesTheOneBefore) {
  open();
  version(1);
  std::atomic<bool> tried = false;
  uploads_->put_in_force("default", [&]() -> std::shared_ptr<OnlineModel> {
    tried = true;
    throw Error("no kernel");
  });
  await([&] { return tried.load(); });
  EXPECT_EQ(uploads_->add(photo_file(1)).or_throw().known.version, 1U);
  EXPECT_EQ(uploads_->version(), 1U);
}

TEST_F(UploadsTest, TakesOnlySoManyAtATimeAndOfOneClient) {
  open({.queue = 2, .quota = 1});
  auto one = uploads_->admit(1000), two = uploads_->admit(1000);
  EXPECT_TRUE(one && two);
  EXPECT_FALSE(uploads_->admit(1000));
  one.reset();
  EXPECT_TRUE(uploads_->admit(1000));
  two.reset();
  one = uploads_->admit(200 << 20);
  EXPECT_FALSE(uploads_->admit(100 << 20));
  one.reset();
  EXPECT_TRUE(uploads_->admit(100 << 20));
  EXPECT_TRUE(uploads_->within_quota("10.0.0.1"));
  EXPECT_FALSE(uploads_->within_quota("10.0.0.1"));
  EXPECT_EQ(uploads_->counts().refused, 3);
}

TEST_F(UploadsTest, AFullDiskRefusesAndPromisesNothing) {
  open();
  version(1);
  fs_.set_capacity(100);
  EXPECT_EQ(uploads_->add(photo_file(1)).status().code(), Code::kNoSpace);
  EXPECT_EQ(uploads_->find(sha256(photo_file(1))).status().code(), Code::kNotFound);
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 0U);
}

TEST_F(UploadsTest, APersonsWordIsKeptBesideTheModels) {
  open();
  version(1);
  const Digest id = uploads_->add(photo_file(1)).or_throw().id;
  EXPECT_EQ(uploads_->say(id, "peony").or_throw().known.truth, "peony");
  version(2);
  open();
  const UploadLog::Known known = uploads_->find(id).or_throw().known;
  EXPECT_EQ(known.truth, "peony");
  EXPECT_EQ(known.version, 1U);
  EXPECT_EQ(uploads_->say(sha256("another"), "peony").status().code(), Code::kNotFound);
}

TEST_F(UploadsTest, APersonsLastWordIsHerNewestThoughTheClockWasSetBack) {
  open();
  version(1);
  const Digest id = uploads_->add(photo_file(1)).or_throw().id;
  const auto said_after = [&](std::chrono::minutes passed, const char* truth) {
    close();  // nobody looks at the clock meanwhile
    clock_.advance(passed);
    open();
    return uploads_->say(id, truth).or_throw().known.said;
  };
  const int64_t first = said_after(std::chrono::minutes(60), "peony");
  EXPECT_EQ(first, clock_.unix_seconds());
  EXPECT_EQ(said_after(std::chrono::minutes(-50), "rose"), first + 1);
  EXPECT_EQ(said_after(std::chrono::minutes(0), "peony"), first + 2);
  const int64_t last = said_after(std::chrono::minutes(90), "rose");
  EXPECT_EQ(last, clock_.unix_seconds());
}

TEST_F(UploadsTest, OfADeletedPhotoNothingIsFoundOnAnyDisk) {
  open();
  version(1);
  const std::string file = photo_file(1);
  const Digest id = uploads_->add(file).or_throw().id,
               other = uploads_->add(photo_file(2)).or_throw().id;
  uploads_->say(id, "peony").or_throw();
  await([&] {
    return cache_->groups().size() == 2 && cache_->groups()[0].records == 2 &&
           cache_->groups()[1].records == 2;
  });
  const auto model = model_of(1);
  std::vector<std::byte> feature;
  cache_->get(model->network->id(), id, feature).or_throw();
  uploads_->remove(id).or_throw();
  EXPECT_EQ(uploads_->read(id).status().code(), Code::kNotFound);
  EXPECT_EQ(uploads_->remove(id).code(), Code::kNotFound);
  const Status again = uploads_->add(file).status();
  EXPECT_EQ(again.code(), Code::kExists);
  EXPECT_THAT(again.message(), HasSubstr("was deleted"));
  log_->acknowledged(log_->after(0, 1 << 20).back().sequence);
  close();
  clock_.advance(std::chrono::hours(1));
  open();  // it is tidied up; of photos deleted before a crash, too
  const std::string hex = to_hex(id);
  const std::string needle(reinterpret_cast<const char*>(feature.data()), feature.size());
  await([&] {
    std::string all = fs_.read("state/uploads/log").or_throw();
    for (const std::string& name : cache_fs_.list("cache").or_throw()) {
      all += cache_fs_.read("cache/" + name).or_throw();
    }
    return all.find(hex) == std::string::npos && all.find("peony") == std::string::npos &&
           all.find(needle) == std::string::npos;
  });
  EXPECT_FALSE(fs_.exists("state/uploads/" + hex.substr(0, 2) + "/" + hex + ".jpg"));
  EXPECT_TRUE(uploads_->find(other).ok());
  EXPECT_EQ(uploads_->add(file).status().code(), Code::kExists);
}

TEST_F(UploadsTest, WhatWasDeletedElsewhereGoesAndIsNotTakenInAgain) {
  open();
  version(1);
  const Digest here = uploads_->add(photo_file(1)).or_throw().id, never = sha256(photo_file(2)),
               other = uploads_->add(photo_file(3)).or_throw().id;
  const std::string path = "state/" + log_->find(here)->path;
  const std::vector<Digest> gone = {here, never};
  uploads_->forget(gone).or_throw();
  const int64_t lines = log_->counts().unacknowledged;
  uploads_->forget(gone).or_throw();
  EXPECT_EQ(log_->counts().unacknowledged, lines) << "said twice";
  EXPECT_FALSE(fs_.exists(path));
  open();
  for (const int i : {1, 2}) {
    EXPECT_EQ(uploads_->add(photo_file(i)).status().code(), Code::kExists);
  }
  EXPECT_TRUE(uploads_->find(other).ok());
}

// It is named by its digest: no other photo's can be there.
TEST_F(UploadsTest, TheFileOfADeletedOneGoesWhateverItHoldsByNow) {
  open();
  version(1);
  const Uploads::Photo photo = uploads_->add(photo_file(1)).or_throw();
  uploads_->remove(photo.id).or_throw();
  publish(fs_, "state/" + photo.known.path, photo_file(2)).or_throw();
  open();
  EXPECT_FALSE(fs_.exists("state/" + photo.known.path));
}

TEST_F(UploadsTest, ThatAnOlderVersionKeptAmongThePhotosAreFoundAndDeletedThere) {
  open();
  version(1);
  const Uploads::Photo photo = uploads_->add(photo_file(1)).or_throw();
  close();
  const std::string now = "state/" + photo.known.path, then = "photos/" + photo.known.path;
  fs_.make_directories(parent_of(then)).or_throw();
  fs_.rename(now, then).or_throw();
  open();
  version(1);
  EXPECT_EQ(uploads_->read(photo.id).or_throw(), photo_file(1));
  EXPECT_EQ(uploads_->add(photo_file(1)).or_throw().known.path, photo.known.path);
  EXPECT_FALSE(fs_.exists(now)) << "it was there";
  uploads_->remove(photo.id).or_throw();
  EXPECT_FALSE(fs_.exists(then));
  EXPECT_EQ(uploads_->find(photo.id).status().code(), Code::kNotFound);
}

// A power cut in each call to the disk, while photos are taken, corrected and deleted.
TEST_F(UploadsTest, KeepsWhatItAnsweredWhereverThePowerFails) {
  const FsyncThrows throws;
  bool ended = false;
  for (int64_t n = 1; !ended; ++n) {
    std::set<int> kept, deleted;
    bool said = false;
    photos_ = "photos" + std::to_string(n);
    state_ = "state" + std::to_string(n);
    try {
      open();
      version(1);
      fs_.die_in_call(n);
      for (int i = 0; i < 4; ++i) {
        uploads_->add(photo_file(i)).or_throw();
        kept.insert(i);
      }
      uploads_->say(sha256(photo_file(1)), "peony").or_throw();
      said = true;
      kept.erase(0);
      uploads_->remove(sha256(photo_file(0))).or_throw();
      deleted.insert(0);
      ended = true;
    } catch (const FsyncFailed&) {
    } catch (const Error&) {
    }
    close();
    Rng rng(static_cast<uint64_t>(n), "crash");
    n % 2 == 0 ? fs_.crash() : fs_.crash(rng);
    open();
    for (const int i : kept) {
      const auto photo = uploads_->find(sha256(photo_file(i)));
      ASSERT_TRUE(photo.ok()) << "photo " << i << ", call " << n;
      EXPECT_EQ(photo->known.version, 1U);
      EXPECT_EQ(uploads_->read(photo->id).or_throw(), photo_file(i));
    }
    for (const int i : deleted) {
      EXPECT_EQ(uploads_->find(sha256(photo_file(i))).status().code(), Code::kNotFound);
    }
    if (said) {
      EXPECT_EQ(uploads_->find(sha256(photo_file(1))).or_throw().known.truth, "peony");
    }
    std::set<std::pair<std::string, uint64_t>> labelled;
    for (const UploadLog::Line& l : log_->after(0, 1 << 20)) {
      wire::Upload line;
      ASSERT_TRUE(line.ParseFromString(l.bytes));
      if (line.version() == 0) continue;
      EXPECT_TRUE(labelled.emplace(line.digest(), line.version()).second) << "call " << n;
    }
    ASSERT_LT(n, 200);
  }
}

class FoundPhotos : public UploadsTest {
 protected:
  FoundPhoto put(const std::string& path, const std::string& bytes) {
    support::write_file(fs_, photos_ + "/" + path, bytes);
    return {.id = sha256(bytes), .path = path, .is_new = true};
  }
  FoundPhoto put(const std::string& path, int i) { return put(path, photo_file(i)); }
  void wait_until_labelled() {
    await([&] { return log_->counts().unlabelled == 0; });
  }
};

TEST_F(FoundPhotos, AreLabelledWhereTheyAreAsAJobDoesToTheLastBit) {
  open();
  version(1);
  std::vector<std::string> all;
  std::vector<FoundPhoto> found;
  for (int i = 0; i < 100; ++i) {
    all.push_back(photo_file(i));
    found.push_back(put("c/" + std::to_string(i) + ".jpg", i));
  }
  uploads_->take_in(found).or_throw();
  uploads_->take_in(found).or_throw();
  wait_until_labelled();
  const auto model = model_of(1);
  const auto expected = labels_of(*model, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Uploads::Photo photo = uploads_->find(found[i].id).or_throw();
    EXPECT_EQ(photo.known.path, found[i].path);
    EXPECT_EQ(photo.known.version, 1U);
    expect_label(photo.known, expected[i]);
  }
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 200U) << "one line each, and one with a label";
  EXPECT_EQ(uploads_->counts().found, 100);
  EXPECT_EQ(uploads_->counts().waited, 100);
  EXPECT_FALSE(fs_.exists("state/uploads/" + to_hex(found[0].id).substr(0, 2)));
}

TEST_F(FoundPhotos, WaitForAVersionAlsoOverARestart) {
  open();
  const FoundPhoto found = put("a.jpg", 1);
  uploads_->take_in({&found, 1}).or_throw();
  EXPECT_EQ(log_->counts().unlabelled, 1);
  open();
  version(2);
  wait_until_labelled();
  EXPECT_EQ(uploads_->find(found.id).or_throw().known.version, 2U);
}

TEST_F(FoundPhotos, KeepTheirLabelWhenTheyAreMovedAndSayWhereTheyAre) {
  open();
  version(1);
  FoundPhoto photo = put("a.jpg", 1);
  uploads_->take_in({&photo, 1}).or_throw();
  wait_until_labelled();
  const UploadLog::Known before = uploads_->find(photo.id).or_throw().known;
  const FoundPhoto copy = put("copy.jpg", 1);
  uploads_->take_in({&copy, 1}).or_throw();
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 2U) << "the first is there still";
  fs_.remove("photos/a.jpg").or_throw();
  uploads_->take_in({&copy, 1}).or_throw();
  const UploadLog::Known after = uploads_->find(photo.id).or_throw().known;
  EXPECT_EQ(after.path, "copy.jpg");
  EXPECT_EQ(after.version, before.version);
  EXPECT_EQ(after.files, before.files);
  EXPECT_EQ(after.time, before.time);
  EXPECT_EQ(after.top.at(0).name(), before.top.at(0).name());
  EXPECT_EQ(uploads_->counts().online.photos + uploads_->counts().waited, 1);
}

TEST_F(FoundPhotos, ThatAreBadGoneOrOthersByNowAreNotLabelled) {
  open();
  version(1);
  const std::string whole = photo_file(1);
  const FoundPhoto found[] = {put("bad.jpg", testing::without_last(whole, 40)), put("gone.jpg", 2),
                              put("other.jpg", 3), put("good.jpg", 4)};
  fs_.remove("photos/gone.jpg").or_throw();
  put("other.jpg", 5);
  uploads_->take_in(found).or_throw();
  await([&] { return log_->counts().unlabelled == 3; });
  EXPECT_EQ(uploads_->find(found[3].id).or_throw().known.version, 1U);
  put("other.jpg", 3);
  const FoundPhoto next = put("next.jpg", 6);
  uploads_->take_in({&next, 1}).or_throw();
  await([&] { return log_->counts().unlabelled == 2; });
}

TEST_F(FoundPhotos, AreNotTakenInWhenTheyWereDeletedAndMeetUploadsOfTheSameBytes) {
  open();
  version(1);
  const Uploads::Photo photo = uploads_->add(photo_file(1)).or_throw();
  const FoundPhoto same = put("same.jpg", 1);
  uploads_->take_in({&same, 1}).or_throw();
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 1U);
  uploads_->remove(photo.id).or_throw();
  uploads_->take_in({&same, 1}).or_throw();
  EXPECT_TRUE(log_->find(photo.id)->removed);
}

// A crash after any call leaves a photo that a scan finds again, or one that a start labels.
TEST_F(FoundPhotos, AreLabelledOnceWhereverACrashStrikes) {
  for (int64_t call = 1; call < 6; ++call) {
    state_ = "state" + std::to_string(call);
    open();
    const FoundPhoto found = put("a.jpg", 1);
    fs_.sync_directory("photos");
    fs_.die_in_call(call);
    bool died = false;
    try {
      const FsyncThrows throws;
      died = !uploads_->take_in({&found, 1}).ok();
    } catch (const FsyncFailed&) {
      died = true;
    }
    close();
    fs_.crash(MemoryFs::Survives::kNames);
    support::write_file(fs_, "photos/a.jpg", photo_file(1));
    open();
    uploads_->take_in({&found, 1}).or_throw();
    version(1);
    wait_until_labelled();
    EXPECT_EQ(log_->after(0, 1 << 20).size(), 2U) << call;
    if (!died) break;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
