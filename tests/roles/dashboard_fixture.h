// A Tuner and one PipeStore, attic, that serve HTTP, for the dashboard in a browser.
// NDT_SCREENSHOTS=DIR keeps pictures of it there.
#pragma once

#include <gmock/gmock.h>

#include "ndp/http/http_client.h"
#include "tests/roles/roles_fixture.h"
#include "tests/support/browser.h"

namespace ndtrain::testing {
using namespace ndp;
using namespace tuner;

using support::Browser;

class DashboardTest : public RolesTest {
 protected:
  using Json = nlohmann::json;
  void SetUp() override {
    RolesTest::SetUp();
    for (int i = 0; i < kClasses; ++i) {
      std::filesystem::rename(at("photos/c" + std::to_string(i)), at("photos/" + name(i)));
    }
    std::filesystem::rename(at("photos/" + name(0) + "/57.jpg"), at("photos/" + name(0) + kMarkup));
    start_tuner();
  }
  void start_tuner() {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    tuner_.emplace(config, devices_);
    client_.emplace(tuner_->http());
  }
  static std::string name(int i) {
    return std::string(cli::demo_classes()[static_cast<size_t>(i)]);
  }
  void start_store() {
    PipeStoreConfig config = store("attic", 0, 1);
    config.http = "127.0.0.1:0";
    store_.emplace(config, devices_);
    await([&] {
      const Json stores = get("/stores");
      return !stores.empty() && stores[0]["here"] == true && stores[0]["http"] != "";
    });
  }
  Json get(const std::string& path) const {
    const HttpResponse r = client_->get(path).or_throw();
    EXPECT_EQ(r.status, 200) << path << ": " << r.body;
    return Json::parse(r.body);
  }
  std::pair<int, std::string> refusal(const std::string& path) const {
    const HttpResponse r = client_->get(path).or_throw();
    return {r.status, Json::parse(r.body).value("error", "")};
  }
  void work(const JobSpec& spec) const {
    const HttpResponse r = client_->post("/jobs", spec.text()).or_throw();
    ASSERT_EQ(r.status, 201) << r.body;
    const std::string job = "/jobs/" + Json::parse(r.body)["job"].dump();
    Json now;
    await([&] { return (now = get(job))["state"] == "done" || now["state"] == "failed"; });
    ASSERT_EQ(now["state"], "done") << now["message"];
  }
  // A version that has labelled all photos.
  void train_and_relabel(uint64_t seed) const {
    const std::string model = real_fs().read(at("base.onnx")).or_throw();
    JobSpec spec{.model = to_hex(sha256(model)), .seed = seed, .head = "linear"};
    spec.promote = Promote::kAlways;
    ASSERT_LT(client_->put("/models/" + spec.model, model)->status, 300);
    spec.freeze = "layer1";
    spec.trainer.epochs = static_cast<int>(seed);
    spec.trainer.batch = 8;
    spec.trainer.schedule.lr = 0.02;
    work(spec);
    work({.kind = JobKind::kRelabel, .seed = seed});
  }
  // By keyboard: the element has the focus, and Enter is pressed.
  static void enter(Browser& b, const std::string& selector) {
    const std::string element = "document.querySelector(" + Json(selector).dump() + ")";
    ASSERT_TRUE(b.await(element + "?.checkVisibility() && !" + element + ".disabled")) << selector;
    b.value(element + ".focus()");
    b.press("Enter");
  }
  static std::string text(Browser& b, const std::string& selector) {
    return b.value("document.querySelector(" + Json(selector).dump() + ").textContent");
  }
  // Soon.
  static bool says(Browser& b, const std::string& selector, const std::string& part) {
    return b.await("document.querySelector(" + Json(selector).dump() + ")?.textContent.includes(" +
                   Json(part).dump() + ")");
  }
  // As if typed by a person.
  static void fill(Browser& b, const std::string& selector, const std::string& value) {
    b.value("{const n = document.querySelector(" + Json(selector).dump() + "); n.value = " +
            Json(value).dump() + "; n.dispatchEvent(new Event('input', {bubbles: true}))}");
  }
  static void expect_fits(Browser& b, int width) {
    b.size(width, 900);
    EXPECT_LE(b.value("document.documentElement.scrollWidth"), width) << "something stands out";
    b.size(1280, 900);
  }
  static void keep(Browser& browser, const std::string& picture) {
    if (const char* directory = std::getenv("NDT_SCREENSHOTS")) {
      publish(real_fs(), join(directory, picture), browser.screenshot()).or_throw();
    }
  }

  static constexpr const char* kMarkup = "/<img src=x>.jpg";
  std::optional<RunningTuner> tuner_;
  std::optional<HttpClient> client_;
  std::optional<RunningStore> store_;
};

}  // namespace ndtrain::testing
