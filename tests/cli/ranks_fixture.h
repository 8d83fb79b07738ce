// Trainings by several ranks, of the program.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/json.h"
#include "framework/core/net.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain::testing_cli {

class RanksTest : public ProgramTest {
 protected:
  using Words = std::vector<std::string>;

  void SetUp() override {
    draw_photos(40);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }

  static Words train(const std::string& run_directory, const Words& more) {
    Words words = {"train", "photos",   "-m",   "m.onnx",  "-o",    run_directory, "-b",
                   "12",    "--freeze", "none", "--cache", "cache", "-j",          "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string model(const std::string& run_directory) const {
    return real_fs().read(at(run_directory + "/model.onnx")).or_throw();
  }
  static std::string free_address() {
    return real_net().listen("127.0.0.1:0").or_throw()->address();
  }
  // `words` for a rank that is started apart.
  static Words at_place(Words words, int rank, int ranks, const std::string& rendezvous) {
    for (const std::string& word :
         {std::string("--ranks"), std::to_string(ranks), std::string("--rank"),
          std::to_string(rank), std::string("--rendezvous"), rendezvous}) {
      words.push_back(word);
    }
    return words;
  }
  // Two ranks that the test starts itself.
  struct Pair {
    pid_t first, second;
  };
  Pair start_apart(const Words& more, const Words& more_of_second = {}) const {
    const std::string rendezvous = free_address();
    Words second = at_place(train("run1", more), 1, 2, rendezvous);
    second.insert(second.end(), more_of_second.begin(), more_of_second.end());
    return {start_as("rank0", at_place(train("run", more), 0, 2, rendezvous)),
            start_as("rank1", second)};
  }

  // Two ranks that train so, each in a directory of its own as on machines of their own: where one
  // is killed, both go on with --resume to the bytes of a run that was not.
  void expect_the_same_where_one_is_killed(Words how) const {
    how.insert(how.end(), {"-e", "30", "--rank-timeout", "5"});
    Words whole = train("whole", how);
    whole.insert(whole.end(), {"--ranks", "2"});
    ASSERT_EQ(run(whole).code, 0);
    const Pair pair = start_apart(how);
    wait_for("run/last.safetensors");
    kill(pair.second, SIGKILL);
    end_of(pair.second, "rank1");
    const Outcome o = end_of(pair.first, "rank0");
    EXPECT_EQ(o.code, 4) << o.err;
    EXPECT_THAT(o.err, ::testing::HasSubstr("rank 1"));
    EXPECT_THAT(o.err, ::testing::HasSubstr("--resume goes on"));
    how.emplace_back("--resume");
    const Pair again = start_apart(how);
    const Outcome second = end_of(again.second, "rank1"), first = end_of(again.first, "rank0");
    ASSERT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(second.code, 0) << second.err;
    EXPECT_THAT(first.err, ::testing::Not(::testing::HasSubstr("had not sent")));
    EXPECT_TRUE(model("run") == model("whole"));
  }
  // Three of them, with eight shards.
  std::vector<pid_t> start_three(const Words& more) const {
    const std::string rendezvous = free_address();
    std::vector<pid_t> ranks;
    for (const int rank : {0, 1, 2}) {
      const std::string number = std::to_string(rank);
      Words words = train("run" + (rank == 0 ? "" : number), kThirtyEpochs);
      words.insert(words.end(), more.begin(), more.end());
      ranks.push_back(start_as("rank" + number, at_place(words, rank, 3, rendezvous)));
    }
    return ranks;
  }
  // A Chrome trace that has what both of two ranks computed and sent.
  void expect_a_trace_of_two(const std::string& file) const {
    const Json trace = parse_json(real_fs().read(at(file)).or_throw());
    std::map<int, std::string> rows;
    std::map<std::string, int> spans;
    for (const Json& e : trace.at("traceEvents")) {
      if (e["name"] == "thread_name") rows[e["tid"]] = e["args"]["name"];
    }
    for (const Json& e : trace.at("traceEvents")) {
      if (e["ph"] == "X") ++spans[rows[e["tid"]]];
    }
    for (const char* row : {"rank 0 computing", "rank 0 link", "rank 1 computing", "rank 1 link"}) {
      EXPECT_GT(spans[row], 6) << row << ": a span a step, at least";
    }
  }
  void wait_for(const std::string& file) const {
    for (int i = 0; i < 100'000 && !real_fs().exists(at(file)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // One of three is killed as soon as there is that file: what rank 0 says, which ends up with the
  // model of an undisturbed run, as the third one does.
  Outcome after_a_kill(size_t victim, const std::string& file, Words more) const {
    more.insert(more.end(), {"--rank-timeout", "5"});
    const std::vector<pid_t> ranks = start_three(more);
    wait_for(file);
    kill(ranks[victim], SIGKILL);
    std::vector<Outcome> all;
    for (size_t r = 0; r < ranks.size(); ++r) {
      all.push_back(end_of(ranks[r], "rank" + std::to_string(r)));
      if (r == victim) continue;
      EXPECT_EQ(all[r].code, 0) << all[r].err;
    }
    EXPECT_TRUE(model("run") == model("whole"));
    return all[0];
  }
  static inline const Words kThirtyEpochs = {"-e", "30", "--shards", "8"};
};

}  // namespace ndtrain::testing_cli
