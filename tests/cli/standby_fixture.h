// Two Tuners that share a state in a database, as real processes.
#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>
#include <map>

#include "framework/core/net.h"
#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"
#include "tests/support/postgres_server.h"

namespace ndtrain::testing_cli {

class StandbyTest : public SiteTest {
 protected:
  void SetUp() override {
    if (!support::PostgresServer::lacking().empty()) {
      GTEST_SKIP() << support::PostgresServer::lacking();
    }
    url_ = support::PostgresServer::shared().new_database();
    draw_photos(16);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }
  void TearDown() override {
    for (const auto& [name, pid] : running_) {
      kill(pid, SIGKILL);
      (void)end_of(pid, name);
    }
    SiteTest::TearDown();
  }

  // The same each time that it begins. No connection begins at such an address, which might take a
  // port there while nobody listens.
  std::string link(const std::string& name) {
    std::string& address = links_[name];
    if (address.empty()) {
      const std::string host = "127.0.0." + std::to_string(1 + links_.size());
      address = real_net().listen(host + ":0").or_throw()->address();
    }
    return address;
  }
  void begin(const std::string& name) {
    running_[name] =
        start_as(name, {"tuner", "serve", "--standby", "--state", url_, "--scratch",
                        "scratch-" + name, "--listen", link(name), "--http", "127.0.0.1:0"});
  }
  void begin_store() {
    running_["store"] =
        start_as("store", {"pipestore", "serve", "--state", "state", "--photos", "photos", "--name",
                           "attic", "--tuner", link("a") + "," + link("b"), "--labels", "folder",
                           "--http", "127.0.0.1:0"});
  }
  Outcome end(const std::string& name) {
    const pid_t pid = running_.at(name);
    running_.erase(name);
    return end_of(pid, name);
  }

  // What is behind `mark` in what the process says; "" until it does.
  std::string address(const std::string& name, const std::string& mark) const {
    const std::string said = said_by(name);
    const size_t begin = said.find(mark);
    const size_t http = begin == std::string::npos ? begin : said.find("HTTP on ", begin);
    if (http == std::string::npos) return "";
    const size_t end = said.find('\n', http);
    return end == std::string::npos ? "" : said.substr(http + 8, end - http - 8);
  }
  std::string serving(const std::string& name) const {
    return address(name, "the Tuner listens on");
  }
  // Whether this Tuner serves, and the store is with it.
  bool serves(const std::string& name) const {
    const std::string http = serving(name);
    if (http.empty()) return false;
    const auto r = HttpClient(http).get("/stores");
    if (!r.ok() || r->status != 200) return false;
    const auto stores = nlohmann::json::parse(r->body);
    return stores.size() == 1 && stores[0].at("here");
  }
  nlohmann::json get(const std::string& name, const std::string& path) const {
    const auto r = HttpClient(serving(name)).get(path);
    return r.ok() ? nlohmann::json::parse(r->body, nullptr, false) : nlohmann::json();
  }

  std::string url_;
  std::map<std::string, pid_t> running_;
  std::map<std::string, std::string> links_;
};

}  // namespace ndtrain::testing_cli
