// A Tuner and PipeStores as real processes, started by `up` in the test's directory.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/process.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain::testing_cli {
using namespace ndp;

class SiteTest : public ProgramTest {
 protected:
  using Json = nlohmann::json;

  void TearDown() override {
    run({"down", "site"});
    ProgramTest::TearDown();
  }

  Outcome up(int stores,
             std::vector<std::string> more = {"--photos", "photos", "--labels", "folder"}) const {
    std::vector<std::string> words = {"up",     "site", "--stores", std::to_string(stores),
                                      "--port", "0",    "--http",   "127.0.0.1:0",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Json up_json(int stores) const {
    const Outcome o = up(stores);
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out, nullptr, false);
  }

  // With --http and --json; the answer.
  Json ask(const Json& site, std::vector<std::string> words) const {
    for (const std::string& w :
         {std::string("--json"), std::string("--http"), site.at("http").get<std::string>()}) {
      words.push_back(w);
    }
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err << o.out;
    return Json::parse(o.out, nullptr, false);
  }

  cli::ProcessId process(const std::string& name) const {
    const Json json = Json::parse(real_fs().read(at("site/up.json")).or_throw());
    for (const Json& m : json.at("members")) {
      if (m.at("name") == name) return {m.at("pid"), m.at("began")};
    }
    throw Error("no ", name);
  }

  void kill_member(const std::string& name) const {
    const cli::ProcessId member = process(name);
    kill(member.pid, SIGKILL);
    while (cli::is_running(member)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  static bool comes(const std::function<bool()>& true_soon,
                    std::chrono::minutes patience = std::chrono::minutes(1)) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!true_soon()) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }
};

}  // namespace ndtrain::testing_cli
