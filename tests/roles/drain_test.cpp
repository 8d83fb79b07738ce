// Roles that are told to stop let requests end that are under way, and take no new ones.
#include <gmock/gmock.h>

#include <future>

#include "framework/core/net.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::RawHttp;
using ::testing::HasSubstr;
using testing::RunningStore;
using testing::RunningTuner;
using ::testing::StartsWith;

class StoppingRoles : public testing::RolesTest {
 protected:
  // The answer to a POST of `body`, half of which comes once the role lets nobody new in.
  template <typename Role>
  std::string answer_across_the_stop(std::unique_ptr<Role> role, const std::string& path,
                                     const std::string& body) {
    const std::string http = role->http();
    RawHttp raw(http);
    raw.say("POST " + path + " HTTP/1.1\r\nHost: " + http + "\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\nExpect: 100-continue\r\n\r\n");
    raw.hear("100 Continue\r\n\r\n");
    raw.say(body.substr(0, body.size() / 2));
    const auto stopped = std::async(std::launch::async, [&role] { role.reset(); });
    await([&] { return !real_net().dial(http).ok(); });
    EXPECT_EQ(stopped.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
    raw.say(body.substr(body.size() / 2));
    std::string answer = raw.hear_all();
    stopped.wait();
    return answer;
  }
};

TEST_F(StoppingRoles, APipeStoreTakesTheUploadThatIsOnItsWay) {
  PipeStoreConfig config = store("a", 0, 1);
  config.http = "127.0.0.1:0";
  config.drain = std::chrono::minutes(1);
  const std::string photo = encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 1000));
  const std::string answer =
      answer_across_the_stop(std::make_unique<RunningStore>(config, devices_), "/photos", photo);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 202"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  const std::string id = to_hex(sha256(photo));
  EXPECT_EQ(real_fs().read(at("state-a/uploads/" + id.substr(0, 2) + "/" + id + ".jpg")).or_throw(),
            photo);
}

TEST_F(StoppingRoles, ATunerTakesTheJobThatIsOnItsWay) {
  TunerConfig config = tuner("tuner");
  const std::string model =
      to_hex(TunerDaemon(config, devices_, real_fs(), system_clock()).add_model(at("base.onnx")));
  config.http = "127.0.0.1:0";
  config.drain = std::chrono::minutes(1);
  const std::string answer =
      answer_across_the_stop(std::make_unique<RunningTuner>(config, devices_), "/jobs",
                             R"({"kind":"relabel","stores":1,"model":")" + model + "\"}");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 201"));
  RunningTuner again(config, devices_);
  EXPECT_THAT(HttpClient(again.http()).get("/jobs").or_throw().body, HasSubstr("relabel"));
}

TEST_F(StoppingRoles, WhatDoesNotEndIsCutOffWhenItsTimeIsOver) {
  PipeStoreConfig config = store("a", 0, 1);
  config.http = "127.0.0.1:0";
  config.drain = std::chrono::milliseconds(100);
  auto role = std::make_unique<RunningStore>(config, devices_);
  RawHttp raw(role->http());
  raw.say("POST /photos HTTP/1.1\r\nHost: " + role->http() +
          "\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  raw.hear("100 Continue\r\n\r\n");
  role = nullptr;
  EXPECT_EQ(raw.hear_all(), "");
}

}  // namespace
}  // namespace ndtrain::tuner
