// A Tuner that means ill, at the store's state machine: what no Tuner would say ends the session
// with a reason, costs no more than the message, and the next Tuner finds the store as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/limits.h"
#include "framework/testing/memory_fs.h"
#include "ndp/pipestore/trash_follower.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/numbers.h"
#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kTwentyPhotos = 20;

wire::ToStore of_the_term() {
  wire::ToStore m;
  m.set_term(1);
  return m;
}

wire::ToStore job_of(uint64_t id) {
  wire::ToStore m = of_the_term();
  m.mutable_job()->set_job(id);
  return m;
}

wire::ToStore wanted_of(uint64_t job, std::vector<uint64_t> numbers, std::vector<uint64_t> places,
                        uint32_t run = 1) {
  wire::ToStore m = of_the_term();
  m.mutable_wanted()->set_job(job);
  m.mutable_wanted()->set_run(run);
  m.mutable_wanted()->set_numbers(pack_numbers(numbers));
  m.mutable_wanted()->set_places(pack_numbers(places));
  return m;
}

std::vector<uint64_t> from_to(uint64_t from, uint64_t to) {
  std::vector<uint64_t> all(to - from);
  std::iota(all.begin(), all.end(), from);
  return all;
}

wire::ToStore publishes(uint64_t version, const std::string& task, bool with_extractor = true) {
  wire::ToStore m = of_the_term();
  m.mutable_publish()->set_version(version);
  m.mutable_publish()->set_task(task);
  if (with_extractor) m.mutable_publish()->set_extractor(bytes_of(sha256("extractor")));
  return m;
}

// Of twenty photos; rows of eight bytes, or as large as it is told.
struct TwentyPhotos final : RowProducer {
  struct Rows final : JobRows {
    explicit Rows(size_t n) : bytes(n) {}
    RowDelivery::RowSize row() const override { return {.bytes = bytes}; }
    Result<Made> make(std::span<const size_t> places) override {
      Made made;
      made.rows.assign(places.size(), std::string(bytes, 'r'));
      return made;
    }
    size_t bytes;
  };
  uint64_t photos() const override { return kTwentyPhotos; }
  Result<StoreInventory> scan() override {
    StoreInventory all;
    for (uint64_t i = 0; i < kTwentyPhotos; ++i) {
      all.photos.push_back({.digest = sha256(std::to_string(i)), .path = std::to_string(i)});
    }
    return all;
  }
  Result<std::unique_ptr<JobRows>> open(const wire::Job&, std::shared_ptr<const StoreInventory>,
                                        const std::string&, const std::string&) override {
    return std::unique_ptr<JobRows>(std::make_unique<Rows>(row_bytes));
  }
  size_t row_bytes = 8;
};

// A link whose other end reads as much as it is told to.
class SlowLink final : public LinkClient {
 public:
  SlowLink(testing::Sent& sent, const size_t& waiting) : sent_(sent), waiting_(waiting) {}
  void send(wire::FromStore message) override { sent_.push_back(std::move(message)); }
  size_t waiting() const override { return waiting_; }
  void close() override {}

 private:
  testing::Sent& sent_;
  const size_t& waiting_;
};

class HostileTuner : public ::testing::Test {
 protected:
  // A session of the next term.
  void connect() {
    while (link_ == connected_) {
      clock_.advance(std::chrono::seconds(1));
      service_.tick();
    }
    connected_ = link_;
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    service_.handle({link_, testing::WelcomedStore::welcome()});
    service_.tick();
    sent_.clear();
  }
  void hear(const wire::ToStore& message) {
    service_.handle({link_, message});
    lanes_.run();
  }
  // What the store says of the Tuner that says this, after which there is no session.
  std::string refusal_of(const std::function<void()>& say) {
    connect();
    ::testing::internal::CaptureStderr();
    say();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_FALSE(service_.connected()) << said;
    EXPECT_THAT(said, HasSubstr("the Tuner is refused"));
    lanes_.run();
    return said;
  }
  // A Tuner that asks for a row of every photo gets them.
  void expect_undisturbed() {
    connect();
    hear(job_of(1));
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().inventory().digests().size(), kTwentyPhotos * sizeof(Digest));
    const std::vector<uint64_t> all = from_to(0, kTwentyPhotos);
    hear(wanted_of(1, all, all));
    EXPECT_EQ(sent_.back().run_done().photos(), kTwentyPhotos);
    EXPECT_TRUE(service_.connected());
  }

  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "pipestore").or_throw();
  support::WaitingLanes lanes_;
  TwentyPhotos producer_;
  testing::Sent sent_;
  size_t waiting_ = 0;
  LinkId link_ = 0, connected_ = 0;
  std::unique_ptr<UploadLog> log_ = UploadLog::open(fs_, "uploads").or_throw();
  StoreTrash trash_{fs_, state_.file("trash.bin")};
  PipeStoreService service_{{.fs = fs_,
                             .clock = clock_,
                             .state = state_,
                             .lanes = lanes_,
                             .producer = producer_,
                             .dial =
                                 [this](LinkId id) {
                                   link_ = id;
                                   return std::make_unique<SlowLink>(sent_, waiting_);
                                 },
                             .uploads = log_.get(),
                             .trash = &trash_},
                            {},
                            1};
};

TEST_F(HostileTuner, ThatWantsMorePhotosThanThereAreIsRefused) {
  const std::vector<uint64_t> all = from_to(0, kTwentyPhotos);
  const auto flood = [&] {
    service_.handle({link_, job_of(1)});
    lanes_.run();
    for (uint32_t run = 1; run <= 3; ++run) service_.handle({link_, wanted_of(1, all, all, run)});
  };
  EXPECT_THAT(refusal_of(flood), HasSubstr("job 1: 40 photos are wanted at once, of 20"));
  expect_undisturbed();
}

TEST_F(HostileTuner, ThatWantsPhotosThatThereAreNotIsRefused) {
  const auto wants = [&](std::vector<uint64_t> numbers, std::vector<uint64_t> places) {
    return refusal_of([&, numbers, places] {
      hear(job_of(1));
      hear(wanted_of(1, numbers, places));
    });
  };
  EXPECT_THAT(wants({0}, {kTwentyPhotos}), HasSubstr("job 1: "));
  EXPECT_THAT(wants({0, 1, 2}, {0}), HasSubstr("job 1: 3 photos are wanted, at 1 places"));
  expect_undisturbed();
}

TEST_F(HostileTuner, ThatWantsPhotosBeforeItWasToldOfAnyIsRefused) {
  const auto early = [&] {
    service_.handle({link_, job_of(1)});
    service_.handle({link_, wanted_of(1, {0}, {0})});
  };
  EXPECT_THAT(refusal_of(early), HasSubstr("photos of job 1 are wanted before it was told of any"));
  expect_undisturbed();
}

TEST_F(HostileTuner, ThatFloodsWithJobsIsRefused) {
  const auto flood = [&] {
    for (size_t i = 0; i <= RowJobs::kMostLists; ++i) service_.handle({link_, job_of(1)});
  };
  EXPECT_THAT(refusal_of(flood), HasSubstr("job 1 is asked for while 64 lists of photos are made"));
  EXPECT_THAT(lanes_.tasks, IsEmpty());
  expect_undisturbed();
}

TEST_F(HostileTuner, WhoseRowsHaveNoBytesOrTooManyIsToldThatTheJobCannotBeDone) {
  for (const size_t bytes : {size_t{0}, static_cast<size_t>(limits::kPhotoFile) + 1}) {
    connect();
    producer_.row_bytes = bytes;
    hear(job_of(1));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_THAT(sent_[0].refused().reason(), HasSubstr("a row of it would have "));
    EXPECT_TRUE(service_.connected());
    EXPECT_EQ(service_.jobs(), 0U);
    service_.handle({link_, LinkClosed{"gone"}});
  }
  producer_.row_bytes = 8;
  expect_undisturbed();
}

TEST_F(HostileTuner, ThatKeepsUploadsWhichItWasNotSentIsRefusedAndTheyAreSentAgain) {
  wire::Upload line;
  line.set_digest(bytes_of(sha256("a photo")));
  line.set_path("a.jpg");
  log_->commit({line}).or_throw();
  const auto lie = [&] {
    wire::ToStore m = of_the_term();
    m.mutable_uploads_kept()->set_sequence(static_cast<uint64_t>(wire::kLargestNumber));
    service_.handle({link_, m});
  };
  EXPECT_THAT(refusal_of(lie), HasSubstr("of which 1 is the last that was sent to it"));
  connect();
  EXPECT_EQ(log_->after(0, 1 << 20).size(), 1U) << "nothing was acknowledged";
}

TEST_F(HostileTuner, ThatAsksForMoreThanItTakesIsRefused) {
  const auto probe = [&] {
    wire::ToStore m = of_the_term();
    m.mutable_probe()->set_number(1);
    m.mutable_probe()->set_answer_bytes(1000);
    waiting_ = kMostWaiting;
    service_.handle({link_, m});
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].probe().payload().size(), 1000U);
    waiting_ = kMostWaiting + 1;
    service_.handle({link_, m});
    EXPECT_EQ(sent_.size(), 1U);
  };
  EXPECT_THAT(refusal_of(probe), HasSubstr("it asks for more than it takes: 67108865 bytes wait"));
  waiting_ = 0;
  expect_undisturbed();
}

TEST_F(HostileTuner, WhoseVersionsHaveNoExtractorOrTooManyTasksIsRefused) {
  EXPECT_THAT(refusal_of([&] { hear(publishes(5, "", false)); }),
              HasSubstr("version 5 has no extractor"));
  const auto head_alone = [&] {
    wire::ToStore m = publishes(0, "", false);
    m.mutable_publish()->set_head(bytes_of(sha256("head")));
    hear(m);
  };
  EXPECT_THAT(refusal_of(head_alone), HasSubstr("version 0 has no extractor"));
  const auto flood = [&] {
    for (int i = 0; i <= wire::kMostTasks; ++i) hear(publishes(1, "task " + std::to_string(i)));
  };
  EXPECT_THAT(refusal_of(flood), HasSubstr("versions of 65 tasks besides the default one"));
  EXPECT_EQ(service_.in_force().size(), 1U) << "none of them is in force";
  expect_undisturbed();
}

TEST_F(HostileTuner, WhoseNumbersAndNamesAreOutOfTheirRangesIsRefused) {
  const auto refuses = [&](const wire::ToStore& m, const std::string& why) {
    EXPECT_THAT(refusal_of([&] { hear(m); }), HasSubstr(why));
  };
  wire::ToStore m = job_of(1);
  m.mutable_job()->set_top_k(std::numeric_limits<uint32_t>::max());
  refuses(m, "Job.top_k is 4294967295");
  m = job_of(1);
  m.mutable_job()->mutable_views()->set_changes("flip");
  m.mutable_job()->mutable_views()->set_count(uint32_t{1} << 31);
  refuses(m, "Job.Views.count is 2147483648");
  m = job_of(1);
  m.mutable_job()->set_extractor("../../etc/passwd");
  refuses(m, "Job.extractor has 16 bytes");
  refuses(publishes(1, "a\nwarning: the disk is full"), "Publish.task is 'a\\nwarning");
  refuses(publishes(1, std::string(wire::kSetNameBytes + 1, 'x')), "Publish.task has 257 bytes");
  m = of_the_term();
  m.mutable_deletions()->set_photos("half a digest");
  refuses(m, "Deletions.photos has 13 bytes");
  m = of_the_term();
  m.mutable_model_part()->set_sha256(bytes_of(sha256("model")));
  m.mutable_model_part()->set_total(uint64_t{1} << 62);
  refuses(m, "ModelPart.total is 4611686018427387904");
  expect_undisturbed();
}

TEST_F(HostileTuner, ThatGreetsTwiceWithAWindowOfAGigabyteOrWithAnOlderTermGetsNoSession) {
  connect();
  wire::ToStore newer = testing::WelcomedStore::welcome();
  ::testing::internal::CaptureStderr();
  service_.handle({link_, newer});
  EXPECT_FALSE(service_.connected());
  const auto greeted = [&](const wire::ToStore& welcome) {
    connect();
    service_.handle({link_, LinkClosed{"gone"}});
    while (link_ == connected_) {
      clock_.advance(std::chrono::seconds(1));
      service_.tick();
    }
    connected_ = link_;
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    service_.handle({link_, welcome});
    EXPECT_FALSE(service_.connected());
  };
  wire::ToStore wide = newer, old = newer;
  wide.mutable_welcome()->set_window(uint64_t{1} << 30);
  greeted(wide);
  old.set_term(0);
  greeted(old);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the Tuner greets a second time"));
  EXPECT_THAT(said, HasSubstr("Welcome.window is 1073741824"));
  EXPECT_THAT(said, HasSubstr("an old Tuner answers: its term is 0, 1 has been seen"));
  expect_undisturbed();
}

// Who hears nothing of a session.
struct Nobody final : TunerEvents {
  void message(const wire::ToStore&) override {}
  void session_over() override {}
};

TEST(HostileTrash, ThatDoesNotEndIsRefused) {
  MemoryFs fs;
  ManualClock clock;
  StateDirectory state = StateDirectory::open(fs, "state", "pipestore").or_throw();
  StoreTrash trash(fs, state.file("trash.bin"));
  support::WaitingLanes lanes;
  testing::Sent sent;
  Nobody nobody;
  LinkId link = 0;
  TunerConnection tuner({.clock = clock,
                         .state = state,
                         .dial =
                             [&](LinkId id) {
                               link = id;
                               return std::make_unique<testing::Link>(sent);
                             }},
                        {}, 1, nobody);
  tuner.tick();
  tuner.handle({link, LinkOpened{"the Tuner", ""}});
  tuner.handle({link, testing::WelcomedStore::welcome()});
  ASSERT_TRUE(tuner.open());
  TrashFollower follower({.lanes = lanes, .tuner = tuner, .trash = &trash, .most = 10});
  wire::Trash part;
  for (int i = 0; i < 5; ++i) part.mutable_photos()->append(bytes_of(sha256(std::to_string(i))));
  part.set_restored(part.photos());
  follower.take(part);
  EXPECT_TRUE(tuner.open());
  part.clear_photos();
  part.set_restored(bytes_of(sha256("one more")));
  follower.take(part);
  EXPECT_FALSE(tuner.open());
  EXPECT_TRUE(lanes.tasks.empty());
}

}  // namespace
}  // namespace ndtrain::ndp
