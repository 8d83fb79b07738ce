#include "cli/demo_site.h"

#include <fmt/format.h>

#include <thread>

#include "cli/role_args.h"
#include "cli/upload_client.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

constexpr auto kPause = std::chrono::milliseconds(50);
constexpr auto kStartPatience = std::chrono::minutes(2);

const HttpResponse& expect(const Result<HttpResponse>& answer, const std::string& what) {
  if (!answer.ok()) throw Error(what, ": ", answer.status().message());
  if (answer->status >= 300) throw Error(what, ": ", answer->status, " ", answer->body);
  return *answer;
}

}  // namespace

std::string DemoSite::photos_of(const std::string& directory, int64_t store) {
  return join(directory, fmt::format("store{}/photos", store));
}

DemoSite::DemoSite(Context& context, const std::string& directory, int64_t stores)
    : context_(context), site_(context.fs(), directory, true), stores_(stores) {
  SiteSettings settings{.stores = stores, .labels = "folder", .http = "127.0.0.1:0"};
  settings.device = context.device_name();
  settings.threads = 1;
  if (!site_.start(settings, told_to_stop, [&](const auto& s) { context_.progress().say(s); })) {
    throw Error("interrupted");
  }
  tuner_ = std::make_unique<TunerClient>(site_.http());
  labels_ = "sqlite:" + site_.file("tuner/labels.db");
}

DemoSite::~DemoSite() {
  tuner_.reset();
  db_.reset();
  try {
    site_.stop();
  } catch (const std::exception& e) {
    context_.progress().say(e.what());
  }
}

void DemoSite::await(const std::string& what, const std::function<bool()>& done) {
  const auto until = context_.clock().monotonic() + kStartPatience;
  while (!done()) {
    if (told_to_stop()) throw Error("interrupted");
    if (context_.clock().monotonic() > until) {
      throw Error("waited two minutes for ", what, "; the logs are in ", site_.path());
    }
    std::this_thread::sleep_for(kPause);
  }
}

Json DemoSite::run(JobSpec spec, const std::string& model) {
  spec.stores = static_cast<uint32_t>(stores_);
  spec.seed = context_.seed();
  if (!model.empty()) spec.model = tuner_->send_model(context_.fs(), model);
  const uint64_t id = tuner_->post("/jobs", spec.text())["job"];
  Json job;
  await(fmt::format("job {}", id), [&] {
    job = tuner_->get(fmt::format("/jobs/{}", id));
    return job["state"] != "queued" && job["state"] != "running";
  });
  if (job["state"] != "done") {
    throw Error("job ", id, " ", job["state"].get<std::string>(), ": ",
                job["message"].get<std::string>());
  }
  return job;
}

void DemoSite::await_version(uint64_t version) {
  await(fmt::format("version {} on all stores", version), [&] {
    const Json stores = tuner_->get("/stores");
    return std::ranges::all_of(stores,
                               [&](const Json& s) { return s["version_in_force"] == version; });
  });
}

uint64_t DemoSite::model_bytes() {
  uint64_t sum = 0;
  for (const Json& s : tuner_->get("/stores")) sum += s["model_bytes"].get<uint64_t>();
  return sum;
}

std::string DemoSite::upload(const std::string& bytes) {
  const UploadAnswer answer = upload_photo(http(), bytes).or_throw();
  if (answer.response.status >= 300) {
    throw Error("an upload: ", answer.response.status, " ", answer.response.body);
  }
  const std::string id = parse_json(answer.response.body).at("id");
  store_of_[id] = answer.store;
  return id;
}

void DemoSite::say_truth(const std::string& id, const std::string& class_name) {
  expect(HttpClient(store_of_.at(id))
             .put("/photos/" + id + "/label", json_text(Json{{"label", class_name}})),
         "photo " + id);
}

LabelDb& DemoSite::db() {
  if (!db_) db_ = open_label_db(labels_, OpenLabelDb::kExisting).or_throw();
  return *db_;
}

std::map<std::string, DemoLabel> DemoSite::labels_of(const std::set<std::string>& ids) {
  std::map<std::string, DemoLabel> labels;
  await("labels of uploaded photos", [&] {
    LabelQuery query{.collection = existing_collection(db(), "default").or_throw(),
                     .task = existing_task(db(), "default").or_throw()};
    query.version = db().in_force(query.task).or_throw();
    labels.clear();
    for (bool more = true; more;) {
      const LabelPage page = db().query(query).or_throw();
      for (const LabelRow& row : page.rows) {
        const std::string id = to_hex(row.digest);
        if (ids.contains(id)) labels[id] = {row.class_name, row.score.value_or(0)};
      }
      more = page.next.has_value();
      if (more) query.after = *page.next;
    }
    return labels.size() == ids.size();
  });
  return labels;
}

LabelDiff DemoSite::diff() {
  const auto versions = db().versions(existing_task(db(), "default").or_throw()).or_throw();
  if (versions.size() < 2) throw Error("the label database has no two versions to compare");
  return db()
      .diff(existing_collection(db(), "default").or_throw(), versions[1].id, versions[0].id)
      .or_throw();
}

}  // namespace ndtrain::cli
