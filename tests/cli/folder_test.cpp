// A store's folder is followed, by programs, one of which is killed.
#include "framework/core/hash.h"
#include "ndp/labels/label_db.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class FolderVerbs : public testing_cli::SiteTest {
 protected:
  void TearDown() override {
    end();
    SiteTest::TearDown();
  }
  void end() {
    if (store_ == 0) return;
    kill(store_, SIGKILL);
    waitpid(std::exchange(store_, 0), nullptr, 0);
  }
  // In place of the one that `up` began.
  void begin(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "pipestore",       "serve",
        "--name=store1",   "--tuner=" + site_.at("listen").get<std::string>(),
        "--photos=photos", "--state=site/store1/state",
        "--labels=folder"};
    words.insert(words.end(), more.begin(), more.end());
    store_ = start_as("store", words);
  }
  void put(int i) const {
    const Image photo =
        cli::draw_demo_photo(i % 2, cli::Look::kDay, 500 + static_cast<uint64_t>(i));
    publish(real_fs(), file(i), encode_jpeg(photo)).or_throw();
  }
  std::string file(int i) const { return at("photos/c0/new" + std::to_string(i) + ".jpg"); }
  bool is_labelled(int i) const {
    const Outcome o =
        run({"labels", "query", "--db", "sqlite:" + at("site/tuner/labels.db"), "--limit", "0"});
    return o.out.find("new" + std::to_string(i) + ".jpg,") != std::string::npos;
  }

  nlohmann::json site_;
  pid_t store_ = 0;
};

TEST_F(FolderVerbs, APhotoIsLabelledOnceThoughTheStoreIsKilledAndNotWithoutAWatch) {
  draw_photos(12);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  site_ = up_json(1);
  const int job = ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1"}).at("job");
  ASSERT_EQ(run({"job", "show", std::to_string(job), "--follow", "--http",
                 site_.at("http").get<std::string>()})
                .code,
            0);
  put(1);
  EXPECT_TRUE(comes([&] { return is_labelled(1); }));
  kill_member("store1");
  // Killed at some moment behind the copy, until it was not too early.
  for (int i = 2; i < 6; ++i) {
    begin({"--rescan", "1"});
    put(i);
    std::this_thread::sleep_for(std::chrono::milliseconds(i * 250));
    end();
  }
  begin({"--no-watch"});
  put(6);
  EXPECT_TRUE(
      comes([&] { return said_by("store").find("session with the Tuner") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_FALSE(is_labelled(6));
  end();
  begin({"--rescan", "0", "--scrub", "12h"});
  for (int i = 2; i < 7; ++i) EXPECT_TRUE(comes([&] { return is_labelled(i); })) << i;
  for (int i = 1; i < 7; ++i) {
    const Outcome o = run({"labels", "history", "store1/c0/new" + std::to_string(i) + ".jpg",
                           "--db", "sqlite:" + at("site/tuner/labels.db")});
    EXPECT_EQ(std::ranges::count(o.out, '\n'), 2) << "a heading and a label: " << o.out;
  }
  for (const std::string wrong : {"-1", "nan", "1e300"}) {
    const Outcome o =
        run({"pipestore", "serve", "--photos", "photos", "--state", "s", "--rescan=" + wrong});
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, HasSubstr("--rescan " + wrong + ": from 0 to 1e9 seconds"));
  }
  for (const std::string wrong : {"", "x", "0,", "0,,1", "-1", "1 2"}) {
    const Outcome o =
        run({"pipestore", "serve", "--photos", "photos", "--state", "s", "--rados-osds=" + wrong});
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, HasSubstr("--rados-osds " + wrong + ": numbers of OSDs, as 0,1"));
  }
  const Outcome ignored =
      run({"pipestore", "serve", "--photos", "photos", "--state", "s", "--rados-osds=0,1"});
  EXPECT_EQ(ignored.code, 2);
  EXPECT_THAT(ignored.err, HasSubstr("--rados-osds: no --photos is in RADOS"));
  const Outcome unlabelled =
      run({"pipestore", "serve", "--photos", "photos", "--state", "s", "--rados-labels"});
  EXPECT_EQ(unlabelled.code, 2);
  EXPECT_THAT(unlabelled.err, HasSubstr("--rados-labels: no --photos is in RADOS"));
  for (const auto& [wrong, why] :
       {std::pair("-1", "a number of hours, days or weeks"), {"3651d", "at most 3650d"}}) {
    for (const char* const role : {"pipestore", "tuner"}) {
      std::vector<std::string> args{role, "serve", "--state=s", std::string("--scrub=") + wrong};
      if (role == std::string("pipestore")) args.emplace_back("--photos=photos");
      const Outcome o = run(args);
      EXPECT_EQ(o.code, 2) << role;
      EXPECT_THAT(o.err, HasSubstr(std::string("--scrub ") + wrong + ": " + why));
    }
  }
}

}  // namespace
}  // namespace ndtrain
