// Pages of other sites in a browser that may ask the Tuner everything: by loopback as the Tuner's
// own user, and signed in by a cookie. They read nothing and change nothing.
#include <gmock/gmock.h>

#include "ndp/http/http_server.h"
#include "tests/roles/access_fixture.h"
#include "tests/support/browser.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::Browser;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

enum class LetInBy { kOwnUser, kCookie };

class ForeignPages : public testing::RoleAccess, public ::testing::WithParamInterface<LetInBy> {
 protected:
  void SetUp() override {
    if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
    RoleAccess::SetUp();
    real_fs().make_directories(at("tuner")).or_throw();
    if (GetParam() == LetInBy::kCookie) token_ = token("ann", Role::kAdmin);
    tuner_.emplace(tuner_config(), devices_);
    PipeStoreConfig attic = store_config();
    attic.name = "attic";
    store_.emplace(attic, devices_);
    await([&] { return stores().size() == 1 && stores()[0]["http"] != ""; });
    const auto page = [](const HttpRequest&) {
      return HttpResponse{.body = "<!doctype html><title>evil</title><p id=p>evil</p>",
                          .type = "text/html",
                          .headers = {{"Content-Security-Policy", "default-src * 'unsafe-inline'"},
                                      {"X-Frame-Options", ""}}};
    };
    evil_ = HttpServer::listen("127.0.0.1:0", {{"GET", "/", Role::kAnyone, page}}, 0).or_throw();
    browser_.emplace(std::vector<std::string>{"--host-resolver-rules=MAP *.test 127.0.0.1"});
    if (token_.empty()) return;
    const HttpResponse link = ask().post("/login", "").or_throw();
    browser_->open(own() + nlohmann::json::parse(link.body)["path"].get<std::string>());
    ASSERT_TRUE(browser_->await("document.title === 'ndtrain'"));
  }
  HttpClient ask() const { return client(tuner_->http(), token_); }
  nlohmann::json stores() const {
    return nlohmann::json::parse(ask().get("/stores").or_throw().body);
  }
  std::string own() const { return "http://" + tuner_->http(); }
  static std::string port_of(const std::string& address) {
    return address.substr(address.rfind(':'));
  }
  // Another site, and another port of this one.
  std::vector<std::string> evil_sites() const {
    const std::string port = port_of(evil_->address());
    return {"http://evil.test" + port, "http://127.0.0.1" + port};
  }
  void visit(const std::string& site) {
    browser_->open(site + "/");
    ASSERT_TRUE(browser_->await("document.title === 'evil'")) << site;
  }
  // What a promise of the page comes to, with `tuner` for the Tuner's address; "none" after 5 s.
  std::string outcome(const std::string& promise) {
    return browser_->value("(() => { const tuner = " + nlohmann::json(own()).dump() +
                           "; return Promise.race([" + promise +
                           ", new Promise((r) => setTimeout(r, 5000, 'none'))]); })()");
  }
  std::string photo() const {
    return to_hex(sha256(real_fs().read(at("photos/c0/0.jpg")).or_throw()));
  }

  std::string token_;  // "": nobody needs one
  std::optional<testing::RunningTuner> tuner_;
  std::optional<testing::RunningStore> store_;
  std::unique_ptr<HttpServer> evil_;
  std::optional<Browser> browser_;
};

std::string answer_to(const std::string& path, const std::string& options) {
  return "fetch(tuner + '" + path + "', " + options +
         ").then((r) => r.text().then((t) => r.type + ' ' + r.status + ' ' + t), () => 'failed')";
}

std::string event_of(const std::string& element, const std::string& loaded) {
  return "new Promise((r) => { const e = " + element + "; e.onload = () => r('" + loaded +
         "'); e.onerror = () => r('failed'); document.body.append(e); })";
}

TEST_P(ForeignPages, ReadNothing) {
  const std::string picture = "/stores/attic/photos/" + photo() + "/thumbnail";
  const std::string image =
      event_of("Object.assign(new Image(), {src: tuner + '" + picture + "'})", "loaded");
  const std::string script = event_of(
      "Object.assign(document.createElement('script'), {src: tuner + '/stores'})", "loaded");
  const std::string events =
      "new Promise((r) => { const s = new EventSource(tuner + '/events', {withCredentials: true});"
      "for (const e of ['open', 'stores', 'message']) s.addEventListener(e, () => r('heard'));"
      "s.onerror = () => { s.close(); r('failed'); }; })";
  for (const std::string& site : evil_sites()) {
    SCOPED_TRACE(site);
    visit(site);
    for (const char* mode : {"cors", "no-cors"}) {
      const std::string options = "{credentials: 'include', mode: '" + std::string(mode) + "'}";
      EXPECT_THAT(outcome(answer_to("/stores", options)), Not(HasSubstr("attic"))) << mode;
    }
    EXPECT_EQ(outcome(image), "failed");
    EXPECT_EQ(outcome(script), "failed");
    EXPECT_EQ(outcome(events), "failed");
  }
  // The Tuner's own page has all that.
  browser_->open(own() + "/");
  ASSERT_TRUE(browser_->await("document.title === 'ndtrain'"));
  EXPECT_THAT(outcome(answer_to("/stores", "{}")), HasSubstr("attic"));
  EXPECT_EQ(outcome(image), "loaded");
  EXPECT_EQ(outcome(events), "heard");
}

TEST_P(ForeignPages, ChangeNothing) {
  const std::string drain = "/stores/attic/drain";
  const std::string form =
      "new Promise((r) => { const f = document.createElement('form'), i = "
      "document.createElement('iframe'); i.name = 'in'; i.onload = () => r('done'); "
      "document.body.append(i, f); f.action = tuner + '" +
      drain + "'; f.method = 'post'; f.enctype = 'text/plain'; f.target = 'in'; f.submit(); })";
  for (const std::string& site : evil_sites()) {
    SCOPED_TRACE(site);
    visit(site);
    EXPECT_EQ(outcome(form), "done");
    for (const std::string options : {"{method: 'POST', credentials: 'include', mode: 'no-cors'}",
                                      "{method: 'POST', credentials: 'include'}",
                                      "{method: 'POST', credentials: 'include', headers: "
                                      "{'Content-Type': 'application/json'}}"}) {
      EXPECT_THAT(outcome(answer_to(drain, options)), Not(HasSubstr("200"))) << options;
    }
    browser_->value("navigator.sendBeacon(" + nlohmann::json(own() + drain).dump() + ", '')");
    // As a page of its own.
    browser_->value("{const f = document.createElement('form'); f.action = " +
                    nlohmann::json(own() + drain).dump() +
                    "; f.method = 'post'; document.body.append(f); f.submit(); }");
    EXPECT_TRUE(browser_->await("document.body?.innerText.includes('\"error\"')"));
    EXPECT_EQ(stores()[0]["drained"], false);
  }
  browser_->open(own() + "/");
  ASSERT_TRUE(browser_->await("document.title === 'ndtrain'"));
  EXPECT_THAT(outcome(answer_to(drain, "{method: 'POST'}")), HasSubstr("basic 200"));
  EXPECT_EQ(stores()[0]["drained"], true);
}

TEST_P(ForeignPages, CannotShowTheDashboardInAFrame) {
  for (const std::string& site : evil_sites()) {
    SCOPED_TRACE(site);
    visit(site);
    const auto frame = [&](const std::string& from) {
      return outcome(event_of(
          "Object.assign(document.createElement('iframe'), {src: " + from + ", name: 'framed'})",
          "loaded"));
    };
    const size_t before = browser_->complaints().size();
    EXPECT_EQ(frame("tuner + '/'"), "loaded");  // of the browser's own page that says why not
    (void)browser_->value("1");
    const std::vector<std::string> said(
        browser_->complaints().begin() + static_cast<std::ptrdiff_t>(before),
        browser_->complaints().end());
    EXPECT_THAT(said, Contains(HasSubstr("frame-ancestors")));
  }
}

// DNS rebinding: the page is of another server, and its name then leads to the Tuner.
TEST_P(ForeignPages, GetNothingByANameThatWasMadeToMeanThisMachine) {
  visit("http://rebound.test" + port_of(evil_->address()));
  TunerConfig config = tuner_config();
  config.http = evil_->address();
  evil_.reset();
  tuner_.reset();
  tuner_.emplace(config, devices_);
  const auto same_origin = [&](const std::string& path, const std::string& options) {
    return browser_->value("fetch('" + path + "', " + options +
                           ").then((r) => r.text().then((t) => r.status + ' ' + t))");
  };
  for (const std::string path : {"/stores", "/", "/session"}) {
    const std::string got = same_origin(path, "{}");
    EXPECT_THAT(got, HasSubstr("421 ")) << path;
    EXPECT_THAT(got, HasSubstr("no name of this server")) << path;
  }
  EXPECT_THAT(same_origin("/stores/attic/drain", "{method: 'POST'}").get<std::string>(),
              HasSubstr("421 "));
  EXPECT_EQ(stores()[0]["drained"], false);
}

INSTANTIATE_TEST_SUITE_P(LetIn, ForeignPages,
                         ::testing::Values(LetInBy::kOwnUser, LetInBy::kCookie), [](const auto& p) {
                           return p.param == LetInBy::kOwnUser ? "ByOwnUser" : "ByCookie";
                         });

using SignedIn = testing::RoleAccess;

TEST_F(SignedIn, ALinkOfTheProgramOpensTheDashboardAndSigningOutClosesIt) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  real_fs().make_directories(at("tuner")).or_throw();
  const std::string ann = token("ann", Role::kViewer);
  testing::RunningTuner t(tuner_config(), devices_);
  const HttpResponse link = client(t.http(), ann).post("/login", "").or_throw();
  Browser b;
  b.open("http://" + t.http() + nlohmann::json::parse(link.body)["path"].get<std::string>());
  EXPECT_TRUE(b.await("document.querySelector('#live')?.textContent === 'live'"));
  EXPECT_EQ(b.value("location.pathname + location.search"), "/") << "the code is out of sight";
  EXPECT_EQ(b.value("document.cookie"), "") << "no script sees it";
  EXPECT_EQ(b.value("document.querySelector('#token').open"), false);
  EXPECT_TRUE(b.await("document.querySelector('#sign_out').checkVisibility()"));
  b.value("document.querySelector('#sign_out').click()");
  EXPECT_TRUE(b.await("document.querySelector('#token')?.open")) << "it asks for a token";
  EXPECT_TRUE(b.complaints().empty()) << b.complaints().front();
}

}  // namespace
}  // namespace ndtrain::tuner
