// A store that means ill in the middle of a job: what it delivers is refused with the session that
// it came in, and the job is done by the others.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "tests/roles/hostile_store_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::Hostile;
using testing::RunningStore;

class HostileRows : public testing::HostileStoreTest {
 protected:
  // As inventory(), with two photos that it alone has: the job does not end without them.
  wire::FromStore inventory_with_own(uint64_t job) const {
    wire::FromStore m = inventory(job);
    wire::Inventory& i = *m.mutable_inventory();
    for (const Digest& photo : own_) {
      const size_t place = place_of(photo, i);
      i.mutable_digests()->insert(place * sizeof(Digest), bytes_of(photo));
      i.mutable_sources()->push_back(static_cast<char>(LabelSource::kFolder));
      i.add_labels(1);
      std::rotate(i.mutable_labels()->begin() + static_cast<int64_t>(place),
                  i.mutable_labels()->end() - 1, i.mutable_labels()->end());
    }
    return m;
  }
  static size_t place_of(const Digest& photo, const wire::Inventory& i) {
    size_t place = 0;
    const auto at = [&] { return i.digests().substr(place * sizeof(Digest), sizeof(Digest)); };
    while (place * sizeof(Digest) < i.digests().size() && at() < bytes_of(photo)) ++place;
    return place;
  }
  // A session in which it is asked for the row of a photo that it alone has.
  struct Asked {
    wire::Job job;
    wire::Wanted wanted;
    uint64_t number = 0;  // of that photo
  };
  Asked begin(Hostile& evil) {
    (void)evil.greet(hello());
    const wire::Job job = evil.await([](const auto& m) { return m.has_job(); }).job();
    wire::FromStore photos = inventory_with_own(job.job());
    photos.set_answers(job.serial());
    const size_t own = place_of(own_[0], photos.inventory());
    evil.send(photos);
    for (;;) {
      const wire::Wanted w = evil.await([](const auto& m) { return m.has_wanted(); }).wanted();
      const auto numbers = numbers_in(w.numbers()), places = numbers_in(w.places());
      const auto at = std::ranges::find(places, own);
      if (at != places.end()) return {job, w, numbers[static_cast<size_t>(at - places.begin())]};
    }
  }
  static std::vector<uint64_t> numbers_in(const std::string& packed) {
    return unpack_numbers(packed, UINT64_MAX, 1000).or_throw();
  }
  // None of the photos that it is asked for can be read, it says.
  static wire::FromStore unreadable(const Asked& asked) {
    wire::FromStore m;
    m.set_answers(asked.job.serial());
    wire::Rows& rows = *m.mutable_rows();
    rows.set_job(asked.job.job());
    rows.set_run(asked.wanted.run());
    rows.set_chunk(asked.wanted.run() + 1);
    rows.set_numbers(asked.wanted.numbers());
    for (const uint64_t number : numbers_in(asked.wanted.numbers())) {
      rows.add_unreadable()->set_number(number);
    }
    rows.set_checksum(xxh3("", 0));
    return m;
  }
  void misdeliver(Hostile& evil, Answers& told) {
    const auto refusal = [&](const std::function<void(const Asked&, wire::FromStore&)>& change) {
      const Asked asked = begin(evil);
      wire::FromStore m = unreadable(asked);
      change(asked, m);
      return evil.refusal_of(m);
    };
    told["a row of another width"] = refusal([](const Asked&, wire::FromStore& m) {
      m.mutable_rows()->mutable_unreadable()->RemoveLast();
      m.mutable_rows()->set_rows("short");
      m.mutable_rows()->set_checksum(xxh3("short", 5));
    });
    told["a photo that it was not asked for"] = refusal([](const Asked& asked, wire::FromStore& m) {
      auto numbers = numbers_in(asked.wanted.numbers());
      numbers.push_back(numbers.back() + 1000);
      m.mutable_rows()->set_numbers(pack_numbers(numbers));
    });
    told["another run"] = refusal(
        [](const Asked&, wire::FromStore& m) { m.mutable_rows()->set_run(m.rows().run() + 1); });
    told["a wrong checksum"] =
        refusal([](const Asked&, wire::FromStore& m) { m.mutable_rows()->set_checksum(1); });
    told["more photos than it has sent"] = refusal([](const Asked& asked, wire::FromStore& m) {
      m.mutable_run_done()->set_job(asked.job.job());
      m.mutable_run_done()->set_run(asked.wanted.run());
      m.mutable_run_done()->set_photos(1'000'000);
    });
    told["a second list of photos"] = refusal([&](const Asked& asked, wire::FromStore& m) {
      m = inventory_with_own(asked.job.job());
      m.set_answers(asked.job.serial());
    });
  }
  Answers mean_ill() {
    Answers told;
    Hostile evil(address());
    misdeliver(evil, told);
    // Of another job, of an older term, and then one of its own twice.
    Asked asked = begin(evil);
    wire::FromStore other = unreadable(asked);
    other.mutable_rows()->set_job(asked.job.job() + 1);
    evil.send(other);
    evil.send_of_term(unreadable(asked), 0);
    asked.wanted.set_numbers(pack_numbers(std::vector{asked.number}));
    evil.send(unreadable(asked));
    told["the same row twice"] = evil.refusal_of(unreadable(asked));
    finish(evil);
    return told;
  }
  // What it is asked for from now on cannot be read, and so the job ends.
  void finish(Hostile& evil) {
    (void)evil.greet(hello());
    wire::Job job;
    for (;;) {
      const wire::ToStore m = evil.await(
          [](const auto& a) { return a.has_job() || a.has_wanted() || a.has_job_end(); });
      if (m.has_job_end()) return;
      if (m.has_wanted()) {
        evil.send(unreadable({job, m.wanted()}));
        continue;
      }
      job = m.job();
      wire::FromStore photos = inventory_with_own(job.job());
      photos.set_answers(job.serial());
      evil.send(photos);
    }
  }
  const Digest own_[2] = {sha256("a photo that nobody else has"),
                          sha256("another that nobody else has")};
};

TEST_F(HostileRows, AreRefusedWithTheSessionTheyCameInAndTheJobIsDoneByTheOthers) {
  const std::string lines = at("log.txt");
  log::to_file(lines);
  TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
  RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  JobSpec spec = fine_tuning(3);
  spec.model = to_hex(daemon.add_model(at("base.onnx")));
  auto [done, told] = outcome_beside(daemon, spec, [&] { return mean_ill(); });
  log::to_file("");
  const std::map<std::string, std::string> expected = {
      {"a row of another width", "rows that were not asked for, or of another size"},
      {"a photo that it was not asked for", "rows that were not asked for, or of another size"},
      {"another run", "rows that were not asked for, or of another size"},
      {"a wrong checksum", "rows with a wrong checksum"},
      {"more photos than it has sent", "the store has sent 1000000 photos, 0 came"},
      {"a second list of photos", "an inventory whose parts do not fit"},
      {"the same row twice", "rows that were not asked for, or of another size"}};
  const std::string said = real_fs().read(lines).or_throw();
  for (const auto& [what, why] : expected) {
    EXPECT_THAT(told[what], HasSubstr(why)) << what;
    EXPECT_THAT(said, HasSubstr("store evil has left: " + told[what]));
  }
  EXPECT_EQ(done.at("train_photos").get<int>() + done.at("val_photos").get<int>(), kPhotos);
}

}  // namespace
}  // namespace ndtrain::tuner
