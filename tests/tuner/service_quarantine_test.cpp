// Photos that nobody could read, of a job that outlives its Tuner.
#include <gmock/gmock.h>

#include <set>

#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Quarantine : public testing::ServiceTest {
 protected:
  static constexpr int kPhotos = 40;

  Quarantine() { works_.runs = 2; }

  // The store has so many photos, in byte order.
  void inventory(TunerService& tuner, uint64_t term, uint64_t serial) {
    wire::FromStore m;
    m.set_term(term);
    m.set_answers(serial);
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(1);
    std::set<Digest> photos;
    for (int n = 0; n < kPhotos; ++n) photos.insert(sha256(std::to_string(n)));
    for (const Digest& photo : photos) {
      i.mutable_digests()->append(bytes_of(photo));
      i.add_labels(1);
    }
    i.add_names("cat");
    i.set_sources(std::string(kPhotos, '\2'));
    i.set_last(true);
    tuner.handle({1, m});
    lanes_.run();
  }
  // What was asked for of these runs; of each the first photo is bad, or none.
  void deliver(TunerService& tuner, uint64_t term, uint32_t below_run, bool bad) {
    const auto sent = std::exchange(links_.sent, {});
    for (const auto& [to, message] : sent) {
      if (!message.has_wanted()) continue;
      if (message.wanted().run() >= below_run) {
        links_.sent.emplace_back(to, message);  // later
        continue;
      }
      const auto numbers =
          unpack_numbers(message.wanted().numbers(), UINT64_MAX, kPhotos).or_throw();
      wire::FromStore m;
      m.set_term(term);
      wire::Rows& rows = *m.mutable_rows();
      rows.set_job(1);
      rows.set_run(message.wanted().run());
      rows.set_numbers(message.wanted().numbers());
      if (bad) {
        wire::Unreadable& u = *rows.add_unreadable();
        u.set_number(numbers[0]);
        u.set_path("bad" + std::to_string(rows.run()) + ".jpg");
        u.set_reason("premature end");
      }
      rows.set_rows(std::string(4 * (numbers.size() - bad), 'x'));
      rows.set_checksum(xxh3(rows.rows().data(), rows.rows().size()));
      tuner.handle({1, m});
      lanes_.run();
    }
    tuner.tick();
    lanes_.run();
  }
  std::vector<std::string> listed() {
    std::vector<std::string> paths;
    for (const UnreadablePhoto& p : JobFiles(fs_, "state/jobs/1").load_quarantine().or_throw()) {
      paths.push_back(p.path);
    }
    return paths;
  }
};

TEST_F(Quarantine, HasWhatWasFoundBeforeARestartOfTheTunerInTheMiddleOfTheJob) {
  greet(1, "a");
  submit();
  lanes_.run();
  inventory(service_, me_.term, 1);
  deliver(service_, me_.term, 2, true);
  EXPECT_THAT(listed(), ElementsAre("bad0.jpg", "bad1.jpg")) << "of runs that are complete";
  service_.stop();
  lanes_.run();

  const TunerIdentity again = state_.next_term(2).or_throw();
  TunerService next({fs_, clock_, state_, links_, lanes_, works_, models_, versions_}, again);
  lanes_.run();
  next.handle({1, LinkOpened{"a host", ""}});
  wire::FromStore hello;
  hello.mutable_hello()->add_protocols(kProtocols[0]);
  hello.mutable_hello()->set_store("a");
  next.handle({1, hello});
  inventory(next, again.term, 1);
  deliver(next, again.term, 3, false);
  ASSERT_EQ(next.job(1).state, JobState::kDone) << next.job(1).message;
  EXPECT_THAT(listed(), ElementsAre("bad0.jpg", "bad1.jpg"));
}

TEST_F(Quarantine, HasNothingOfPhotosInTheTrash) {
  greet(1, "a");
  submit();
  lanes_.run();
  inventory(service_, me_.term, 1);
  deliver(service_, me_.term, 1, true);
  ASSERT_THAT(listed(), ElementsAre("bad0.jpg"));
  const auto bad = JobFiles(fs_, "state/jobs/1").load_quarantine().or_throw();
  (void)service_.trash_photos({{.photo = bad[0].photo.value(), .until = INT64_MAX}});
  deliver(service_, me_.term, 3, false);
  EXPECT_THAT(listed(), IsEmpty());
}

}  // namespace
}  // namespace ndtrain::tuner
