// Who may ask a Tuner and its PipeStores for what, over HTTP.
#include <gmock/gmock.h>

#include <future>
#include <regex>

#include "ndp/http/http_client.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/protocol.h"
#include "tests/http/raw_http.h"
#include "tests/roles/access_fixture.h"
#include "tests/wire/authority.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RoleAccess;
using testing::RunningStore;
using testing::RunningTuner;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr char kPhoto[] = "/photos/([0-9a-f]{64})";

// Whoever adds a route says here who may ask for it, and what is recorded.
TEST_F(RoleAccess, EveryRouteOfTheTunerNeedsARole) {
  TunerDaemon daemon(tuner_config(), devices_, real_fs(), system_clock());
  const std::string job = "/jobs/([0-9]{1,18})", version = "/versions/([0-9]{1,18})";
  EXPECT_THAT(
      daemon.http_needs(),
      UnorderedElementsAre(
          "GET /healthz: anyone", "GET /readyz: viewer", "GET /metrics: viewer",
          "GET /jobs: viewer", "POST /jobs/plan: viewer", "POST /jobs: operator, recorded as job",
          "GET " + job + ": viewer", "GET " + job + "/log: viewer",
          "POST " + job + "/(cancel|pause|resume|start-now): operator, recorded as job",
          "POST " + job + "/notes: operator, recorded as note", "GET /members: viewer",
          "GET /stores: viewer",
          "POST /stores/([^/]+)/(drain|undrain): operator, recorded as store",
          "DELETE /stores/([^/]+): operator, recorded as store",
          "POST /photos: uploader, of a collection", "POST /uploads: uploader, of a collection",
          "DELETE /photos/(.+): operator, of a collection, recorded as deletion",
          "GET /photos/(.+)/like: viewer, of a collection and a task",
          "POST /photos/like: viewer, of a collection and a task",
          "GET /trash: viewer, of a collection", "GET /trash/(.+): viewer, of a collection",
          "POST /trash/(.+): operator, of a collection, recorded as trash",
          "POST /restore/(.+): operator, of a collection, recorded as restore",
          "GET /models/([0-9a-f]{64}): operator", "PUT /models/([0-9a-f]{64}): operator",
          "GET /versions: viewer", "GET " + version + ": viewer",
          "GET " + version + "/diff/([0-9]{1,18}): viewer",
          "POST " + version + "/(production|candidate): operator, recorded as promotion",
          "POST " + version + "/notes: operator, recorded as note",
          "GET /versions/rollback: viewer", "GET /tasks: viewer", "GET /tasks/(.+): viewer",
          "DELETE /tasks/(.+): operator, recorded as task",
          "POST /versions/rollback: operator, recorded as promotion",
          "DELETE " + version + ": operator, recorded as removal", "GET /watch: viewer",
          "GET /: anyone", "GET /dashboard/([a-z_.]+): anyone", "GET /events: viewer",
          "GET " + job + "/trace: viewer", "GET " + job + "/run: viewer",
          "GET " + job + "/report: viewer", "GET " + job + "/quarantine: viewer",
          "GET /stores/([^/]+)/photos/([0-9a-f]{64}(?:/thumbnail)?): viewer, of a collection",
          "GET /labels: viewer, of a collection and a task",
          "GET /labels/stats: viewer, of a collection and a task",
          "GET /labels/review: viewer, of a collection and a task",
          "GET /labels/accuracy: viewer, of a collection and a task",
          "GET /labels/diff: viewer, of a collection and a task",
          "GET /labels/confusion: viewer, of a collection and a task",
          "GET /labels/new-photos: viewer, of a collection and a task",
          "GET /labels/([0-9]{1,18}): viewer, of a collection and a task",
          "PUT /labels/([0-9]{1,18}): labeller, of a collection and a task, recorded as label",
          "POST /login: viewer, recorded as login", "GET /login: anyone", "POST /logout: viewer",
          "GET /session: viewer", "GET /audit: admin"));
}

TEST_F(RoleAccess, EveryRouteOfAPipeStoreNeedsARole) {
  PipeStoreDaemon daemon(store_config(), devices_, real_fs(), system_clock());
  const std::string photo = kPhoto;
  EXPECT_THAT(
      daemon.http_needs(),
      UnorderedElementsAre(
          "GET /healthz: anyone", "GET /readyz: viewer", "GET /metrics: viewer",
          "POST /photos: uploader, of photos", "GET " + photo + ": viewer, of photos",
          "GET " + photo + "/thumbnail: viewer, of photos",
          "GET " + photo + "/embedding: viewer, of photos and a task",
          "POST /embedding: viewer, of photos and a task",
          "POST /neighbours: viewer, of photos and a task",
          "GET " + photo + "/label: viewer, of photos and a task",
          "PUT " + photo + "/label: labeller, of photos and a task, recorded as label",
          "DELETE " + photo + ": operator, of photos, recorded as deletion", "GET /audit: admin"));
}

TEST_F(RoleAccess, TheTunersTokensHoldAtItsStoresAlsoWhileItIsAway) {
  real_fs().make_directories(at("tuner")).or_throw();
  const std::string ann = token("ann", Role::kOperator), bob = token("bob", Role::kViewer),
                    root = token("root", Role::kAdmin);
  auto a = std::make_unique<RunningStore>(store_config(), devices_);
  EXPECT_EQ(ready(a->http(), ""), 503);  // it knows of none yet
  {
    RunningTuner t(tuner_config(), devices_);
    await([&] { return ready(a->http(), "") == 401; });
    await([&] { return ready(a->http(), ann) == 200 && ready(a->http(), bob) == 200; });
    EXPECT_EQ(ready(t.http(), ""), 401);
    EXPECT_EQ(ready(t.http(), bob), 200);
    revoke("bob");
    EXPECT_EQ(ready(t.http(), bob), 401);
    await([&] { return ready(a->http(), bob) == 401; });
  }
  a.reset();  // and when it is started again meanwhile
  a = std::make_unique<RunningStore>(store_config(), devices_);
  EXPECT_EQ(ready(a->http(), ""), 401);
  EXPECT_EQ(ready(a->http(), bob), 401);
  EXPECT_EQ(ready(a->http(), ann), 503);

  const HttpResponse uploaded =
      client(a->http(), ann).post("/photos", photo_file(), "image/jpeg").or_throw();
  ASSERT_EQ(uploaded.status, 202) << uploaded.body;
  const std::string photo = "/photos/" + to_hex(sha256(photo_file()));
  EXPECT_EQ(client(a->http(), ann).put(photo + "/label", R"({"label": "rose"})").or_throw().status,
            200);
  EXPECT_EQ(client(a->http(), ann).put(photo + "/label", R"({"label": "tulip"})").or_throw().status,
            200);
  EXPECT_EQ(client(a->http(), ann).remove(photo).or_throw().status, 200);
  EXPECT_EQ(client(a->http(), ann).get("/audit").or_throw().status, 403);
  EXPECT_EQ(client(a->http(), root).get("/audit?n=some").or_throw().status, 400);
  EXPECT_EQ(client(a->http(), root).get("/audit?n=1").or_throw().body.find('\n'),
            client(a->http(), root).get("/audit?n=1").or_throw().body.size() - 1);
  const std::string audit = client(a->http(), root).get("/audit").or_throw().body;
  const std::string kept = real_fs().read(at("state-a/audit.jsonl")).or_throw();
  EXPECT_EQ(audit, std::regex_replace(kept, std::regex(R"(,"checksum":"[0-9a-f]{16}")"), ""));
  std::vector<nlohmann::json> lines;
  for (size_t i = 0; i < audit.size(); i = audit.find('\n', i) + 1) {
    lines.push_back(nlohmann::json::parse(audit.substr(i, audit.find('\n', i) - i)));
  }
  ASSERT_GE(lines.size(), 5U) << audit;  // two lists of the Tuner
  const auto& last = lines.back();
  EXPECT_EQ(last.at("what"), "deletion");
  EXPECT_EQ(last.at("who"), "ann");
  EXPECT_EQ(last.at("request"), "DELETE " + photo);
  const auto& label = lines[lines.size() - 2];
  EXPECT_EQ(label.at("asked").at("label"), "tulip");
  EXPECT_EQ(label.at("before"), "rose");
}

TEST_F(RoleAccess, ARevocationThatAStoreHasMissedHoldsThereFromTheNextSessionOn) {
  real_fs().make_directories(at("tuner")).or_throw();
  const std::string ann = token("ann", Role::kOperator), bob = token("bob", Role::kViewer);
  RunningStore a(store_config(), devices_);
  {
    RunningTuner t(tuner_config(), devices_);
    await([&] { return ready(a.http(), bob) == 200 && ready(a.http(), ann) == 200; });
  }
  await([&] { return ready(a.http(), bob) == 503; });
  revoke("bob");  // while the Tuner is not there to say so
  revoke("ann");
  const std::string root = token("root", Role::kAdmin);
  EXPECT_EQ(ready(a.http(), bob), 503) << "nobody can have told the store";
  RunningTuner t(tuner_config(), devices_);
  await([&] { return ready(a.http(), root) == 200; });
  EXPECT_EQ(ready(a.http(), bob), 401);
  EXPECT_EQ(ready(a.http(), ann), 401);
}

TEST_F(RoleAccess, OverTlsTheTunerSendsUploadsToTheStoreByTheNameOfItsCertificate) {
  const support::Authority authority;
  const Credentials c =
      authority.credentials("web", LinkRole::kTuner, support::around(authority.now));
  const HttpSecurity secure{.certificate = c.certificate, .key = c.key, .demanded = true};
  PipeStoreConfig store = store_config();
  store.http = "localhost:0";
  store.http_security = secure;
  TunerConfig tuner = tuner_config();
  tuner.http_security = secure;
  RunningStore a(store, devices_);
  RunningTuner t(tuner, devices_);
  const auto tls = TlsClient::make(authority.own.certificate).or_throw();
  const HttpTrust trust{.token = token("camera", Role::kUploader), .tls = tls};
  EXPECT_EQ(HttpClient("https://" + t.http(), std::chrono::seconds(10), {.tls = tls})
                .get("/jobs")
                .or_throw()
                .status,
            401);
  const HttpClient client("https://" + t.http(), std::chrono::seconds(10), trust);
  HttpResponse r;
  await([&] {
    r = client.post("/photos", photo_file(), "image/jpeg").or_throw();
    return r.status == 307;
  });
  const std::string url = r.headers.at("Location");
  EXPECT_THAT(url, StartsWith("https://localhost:"));
  const HttpClient at_store(url.substr(0, url.rfind('/')), std::chrono::seconds(10), trust);
  await([&] { return at_store.get("/readyz").or_throw().status == 200; });
  EXPECT_EQ(at_store.post("/photos", photo_file(), "image/jpeg").or_throw().status, 202);
  EXPECT_EQ(at_store.remove("/photos/" + std::string(64, 'a')).or_throw().status, 403);
}

// What the Tuner's database and a store say of a photo, in two tasks.
TEST_F(RoleAccess, ATokenOfATaskSeesAndSaysLabelsOfItAlone) {
  real_fs().make_directories(at("tuner")).or_throw();
  const std::string root = token("root", Role::kAdmin);
  const std::string ann = TokensFile::open(real_fs(), at("tuner"))
                              .or_throw()
                              .add({.name = "ann", .role = Role::kLabeller, .task = "mood"})
                              .or_throw();
  RunningTuner t(tuner_config(), devices_);
  RunningStore a(store_config(), devices_);
  await([&] { return ready(a.http(), root) == 200; });
  const HttpClient tuner = client(t.http(), ann), at_store = client(a.http(), ann);
  ASSERT_EQ(client(a.http(), root).post("/photos", photo_file(), "image/jpeg").or_throw().status,
            202);
  const Digest id = sha256(photo_file());
  const auto db = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
  const int64_t here = db->collection("default").or_throw();
  const std::vector<PhotoPlace> place = {{"a/x.jpg", id}};
  for (const auto& [task, label] : {std::pair("default", "rose"), std::pair("mood", "calm")}) {
    db->add_photos(here, place).or_throw();
    set_label(*db, here, db->task(task).or_throw(), "a/x.jpg", label, 100).or_throw();
  }
  const std::string number = std::to_string(db->find_photo(here, "a/x.jpg").or_throw());

  EXPECT_THAT(tuner.get("/labels?task=mood").or_throw().body, HasSubstr("calm"));
  EXPECT_EQ(tuner.put("/labels/" + number + "?task=mood", R"({"label": "gay"})").or_throw().status,
            200);
  EXPECT_THAT(tuner.get("/labels/" + number + "?task=mood").or_throw().body, HasSubstr("gay"));
  for (const std::string path :
       {"/labels", "/labels?task=default", "/labels/stats", "/labels/review?task=other", "/jobs",
        "/versions?task=mood", "/stores", "/trash", "/watch?task=mood", "/audit", "/metrics"}) {
    const HttpResponse r = tuner.get(path).or_throw();
    EXPECT_EQ(r.status, 403) << path;
    EXPECT_THAT(r.body, HasSubstr("the token of ann")) << path;
  }
  EXPECT_EQ(tuner.put("/labels/" + number, R"({"label": "gay"})").or_throw().status, 403);
  EXPECT_EQ(tuner.post("/photos", "").or_throw().status, 403);
  EXPECT_EQ(tuner.remove("/photos/a/x.jpg").or_throw().status, 403);

  const std::string photo = "/photos/" + to_hex(id);
  EXPECT_EQ(at_store.get(photo).or_throw().body, photo_file());
  EXPECT_EQ(at_store.get(photo + "/thumbnail").or_throw().status, 200);
  EXPECT_EQ(tuner.get("/stores/a" + photo).or_throw().status, 200);
  EXPECT_EQ(at_store.get(photo + "/label").or_throw().status, 403);
  EXPECT_EQ(at_store.get(photo + "/label?task=default").or_throw().status, 403);
  EXPECT_EQ(at_store.get(photo + "/label?task=mood").or_throw().status, 404) << "none is in force";
  EXPECT_EQ(at_store.put(photo + "/label", R"({"label": "gay"})").or_throw().status, 403);
  EXPECT_EQ(at_store.post("/photos", photo_file(), "image/jpeg").or_throw().status, 403);
  EXPECT_EQ(at_store.remove(photo).or_throw().status, 403);
}

TEST_F(RoleAccess, ABodyOfJsonHasItsBytesAndItsDepth) {
  RunningTuner t(tuner_config(), devices_);
  const HttpClient client(t.http());
  const auto post = [&](int64_t bytes) {
    return client.post("/jobs", std::string(static_cast<size_t>(bytes), '[')).or_throw();
  };
  EXPECT_EQ(post(limits::kHttpBody + 1).status, 413);
  EXPECT_EQ(post(int64_t{60} << 20).status, 413);
  for (const int64_t bytes : {int64_t{33}, limits::kHttpBody - 1, limits::kHttpBody}) {
    const HttpResponse r = post(bytes);
    EXPECT_EQ(r.status, 400) << bytes;
    EXPECT_THAT(r.body, HasSubstr("at most 32")) << bytes;
  }
  EXPECT_THAT(post(32).body, HasSubstr("no JSON"));
}

TEST_F(RoleAccess, ATunerOnLoopbackAnswersNoOtherHost) {
  RunningTuner t(tuner_config(), devices_);
  RunningStore a(store_config(), devices_);
  for (const std::string& address : {t.http(), a.http()}) {
    support::RawHttp raw(address);
    raw.say("GET /readyz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(raw.hear_all(), StartsWith("HTTP/1.1 421"));
  }
}

TEST_F(RoleAccess, NobodysTokenGoesToAStoreButATicketForOneRequest) {
  real_fs().make_directories(at("tuner")).or_throw();
  const std::string root = token("root", Role::kAdmin), eve = token("eve", Role::kViewer);
  RunningTuner t(tuner_config(), devices_);
  RunningStore a(store_config(), devices_);
  HttpResponse r;
  await([&] {
    r = client(t.http(), root).post("/photos", photo_file(), "image/jpeg").or_throw();
    return r.status == 307;
  });
  const std::string url = r.headers.at("Location"), base = "http://" + a.http();
  ASSERT_THAT(url, StartsWith(base + "/photos?ticket=ndtt_"));
  EXPECT_THAT(url, ::testing::Not(HasSubstr(root)));
  // As curl -L follows it: without the token.
  const HttpClient stranger(a.http());
  await([&] { return ready(a.http(), "") == 401; });
  const std::string path = url.substr(base.size());
  const HttpResponse up = stranger.post(path, photo_file(), "image/jpeg").or_throw();
  EXPECT_EQ(up.status, 202) << up.body;
  const std::string id = to_hex(sha256(photo_file()));
  const std::string ticket = path.substr(path.find('?'));
  EXPECT_EQ(stranger.remove("/photos/" + id + ticket).or_throw().status, 401);
  EXPECT_EQ(stranger.get("/photos/" + id + ticket).or_throw().status, 401);
  EXPECT_EQ(stranger.get("/audit" + ticket).or_throw().status, 401);
  EXPECT_EQ(client(t.http(), "").post(path, photo_file()).or_throw().status, 401)
      << "nor at the Tuner";
  // The Tuner hands a photo on in the name of who asks, too, and to nobody else's.
  EXPECT_EQ(client(t.http(), "").post("/uploads", photo_file(), "image/jpeg").or_throw().status,
            401);
  EXPECT_EQ(client(t.http(), eve).post("/uploads", photo_file(), "image/jpeg").or_throw().status,
            403);
  const HttpResponse relayed =
      client(t.http(), root).post("/uploads", photo_file(), "image/jpeg").or_throw();
  EXPECT_EQ(relayed.status, 202) << relayed.body;
  EXPECT_THAT(relayed.body, HasSubstr(id));
  // What the Tuner hands on it asks for in the name of who asks, and who may not ask gets nothing.
  const HttpResponse photo = client(t.http(), eve).get("/stores/a/photos/" + id).or_throw();
  EXPECT_EQ(photo.status, 200) << photo.body;
  EXPECT_EQ(photo.body, photo_file());
  EXPECT_EQ(client(t.http(), "").get("/stores/a/photos/" + id).or_throw().status, 401);
}

// A store that is somebody else's: what comes to its HTTP is all it gets.
TEST_F(RoleAccess, AStoresHttpHearsNoTokenFromTheTuner) {
  real_fs().make_directories(at("tuner")).or_throw();
  const std::string root = token("root", Role::kAdmin);
  const auto listener = real_net().listen("127.0.0.1:0").or_throw();
  LinkEvents<wire::ToStore> events;
  RunningTuner t(tuner_config(), devices_);
  const auto link = LinkClient::dial(address(), {}, 1, events);
  wire::FromStore m;
  m.mutable_hello()->add_protocols(kProtocols[0]);
  m.mutable_hello()->set_store("evil");
  m.mutable_hello()->set_takes_tickets(true);
  link->send(m);
  const auto welcome = [&]() -> uint64_t {
    while (auto e = events.take(std::chrono::seconds(30))) {
      const auto* const said = std::get_if<wire::ToStore>(&e->what);
      if (said && said->has_welcome()) return said->term();
    }
    return 0;
  };
  const uint64_t term = welcome();
  ASSERT_NE(term, 0U);
  wire::FromStore space;
  space.set_term(term);
  space.mutable_space()->set_http(listener->address());
  space.mutable_space()->set_free(1 << 30);
  link->send(space);
  await([&] {
    return client(t.http(), root).get("/stores").or_throw().body.find(listener->address()) !=
           std::string::npos;
  });
  const std::string photo = "/stores/evil/photos/" + std::string(64, 'a');
  auto asked = std::async(std::launch::async, [&] { return client(t.http(), root).get(photo); });
  std::string heard;
  const auto stream = listener->accept(std::chrono::seconds(30)).or_throw();
  while (heard.find("\r\n\r\n") == std::string::npos) {
    std::array<std::byte, 4096> part;
    const size_t n = stream->read(part, std::chrono::seconds(30)).or_throw();
    heard.append(reinterpret_cast<const char*>(part.data()), n);
  }
  stream->close();
  EXPECT_EQ(asked.get().or_throw().status, 502);
  EXPECT_THAT(heard, HasSubstr("Authorization: Bearer ndtt_"));
  EXPECT_THAT(heard, ::testing::Not(HasSubstr(root)));
}

TEST_F(RoleAccess, AStoreTakesNoListThatIsNone) {
  real_fs().make_directories(at("state-a")).or_throw();
  publish(real_fs(), at("state-a/tokens.json"), "nonsense").or_throw();
  EXPECT_THROW(PipeStoreDaemon(store_config(), devices_, real_fs(), system_clock()), Error);
}

}  // namespace
}  // namespace ndtrain::tuner
