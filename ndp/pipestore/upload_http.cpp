#include "ndp/pipestore/upload_http.h"

#include <algorithm>
#include <optional>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/text.h"
#include "ndp/jobs/thumbnail.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/encode.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kLabelBody = 4096;

HttpResponse later(int status, const std::string& why, const char* seconds) {
  HttpResponse r = http_error(status, why);
  r.headers.emplace("Retry-After", seconds);
  return r;
}

HttpResponse refused(const Status& why) {
  switch (why.code()) {
    case Code::kCorrupt:
    case Code::kUnsupported:
    case Code::kTooLarge:
      return http_error(422, "the photo cannot be read, and is not kept: " + why.message());
    case Code::kExists:
      return http_error(410, why.message());
    case Code::kNotFound:
      return http_error(404, why.message());
    case Code::kNoSpace:
      return http_error(507, why.message());
    case Code::kUnavailable:
      return later(503, why.message(), "5");
    default:
      return http_error(500, why.message());
  }
}

// In one task; a person's word counts more than a model's.
Json label_json(const UploadLog::Known& k) {
  Json json;
  const bool human = !k.truth.empty(), model = k.version > 0;
  json["label"] = human ? Json(k.truth) : model ? Json(k.top.at(0).name()) : Json();
  json["source"] = human ? Json("human") : model ? Json("model") : Json();
  Json scores = Json::array();
  for (const wire::TopClass& t : k.top) {
    scores.push_back({{"label", t.name()}, {"score", t.score()}});
  }
  json["scores"] = scores;
  json["version"] = model ? Json(k.version) : Json();
  return json;
}

Json to_json(const Uploads::Photo& photo) {
  Json json = {{"id", to_hex(photo.id)}, {"path", photo.known.path}};
  json.update(label_json(photo.known));
  return json;
}

HttpResponse answer(const Result<Uploads::Photo>& photo) {
  if (!photo.ok()) return refused(photo.status());
  return {.body = json_text(to_json(*photo)) + "\n"};
}

// What is said in the default task, and in all others that are in force here.
HttpResponse answer_in_all(Uploads& uploads, const Result<Uploads::Photo>& photo) {
  if (!photo.ok()) return refused(photo.status());
  Json json = to_json(*photo);
  for (const std::string& task : uploads.tasks()) {
    if (task == kDefaultTask) continue;
    const Result<Uploads::Photo> said = uploads.find(photo->id, task);
    if (!said.ok()) return refused(said.status());
    json["tasks"][task] = label_json(said->known);
  }
  return {.body = json_text(json) + "\n"};
}

// 202: no version labels photos here as yet.
HttpResponse add(Uploads& uploads, const HttpRequest& request) {
  if (request.body.empty()) {
    return http_error(400, "there is no photo in the request; curl -F photo=@x.jpg sends one");
  }
  const Result<Uploads::Photo> photo = uploads.add(request.body);
  HttpResponse response = answer_in_all(uploads, photo);
  if (photo.ok() && uploads.tasks().empty()) response.status = 202;
  return response;
}

std::string task_of(const HttpRequest& request) {
  const auto task = request.query.find("task");
  return task == request.query.end() ? std::string(kDefaultTask) : task->second;
}

// A task is known here while a version of it is in force, the default one always.
std::optional<HttpResponse> no_task(const Uploads& uploads, const std::string& task) {
  const std::vector<std::string> all = uploads.tasks();
  if (task == kDefaultTask || std::ranges::find(all, task) != all.end()) return std::nullopt;
  return http_error(404, "no version of a task '" + printable(task, 256) +
                             "' is in force at this store; at the Tuner, GET /versions?task=NAME "
                             "lists a task's");
}

HttpResponse show(Uploads& uploads, const Digest& id, const HttpRequest& request) {
  if (!request.query.contains("task")) return answer_in_all(uploads, uploads.find(id));
  const std::string task = task_of(request);
  if (auto none = no_task(uploads, task)) return std::move(*none);
  return answer(uploads.find(id, task));
}

HttpAdmission admit(Uploads& uploads, const HttpRequest& request, int64_t bytes) {
  std::shared_ptr<void> held = uploads.admit(bytes);
  if (!held) {
    return {.held = nullptr,
            .refuse = later(429, "the store has as many uploads as it can take", "1"),
            .full = true};
  }
  if (!uploads.within_quota(request.peer)) {
    return {.held = nullptr,
            .refuse = later(429, request.peer + " uploads more than its quota", "1")};
  }
  return {.held = std::move(held), .refuse = {}};
}

// What browsers cannot show, HEIC and TIFF, they get as a JPEG; its bytes are not the photo's.
HttpResponse image(Uploads& uploads, const Digest& id) {
  Result<std::string> file = uploads.read(id);
  if (!file.ok()) return refused(file.status());
  const PhotoFormat format = sniff(std::as_bytes(std::span(*file)));
  if (browsers_show(format)) {
    return {.body = std::move(*file),
            .type = std::string(media_type(format)),
            .headers = {{"Content-Disposition", "attachment"}}};  // no page of its own
  }
  const Result<Image> photo = uploads.decode(id, *file, {}, nullptr);
  if (!photo.ok()) return refused(photo.status());
  return {.body = encode_jpeg(*photo), .type = "image/jpeg"};
}

HttpResponse small_image(Uploads& uploads, const Digest& id) {
  const Result<std::string> file = uploads.read(id);
  if (!file.ok()) return refused(file.status());
  Result<std::string> small = thumbnail([&](const DecodeOptions& options, const Preprocess& crop) {
    return uploads.decode(id, *file, options, &crop);
  });
  if (!small.ok()) return refused(small.status());
  return {.body = std::move(*small), .type = "image/jpeg"};
}

HttpResponse say(Uploads& uploads, const Digest& id, const HttpRequest& request) {
  const std::string task = task_of(request);
  if (auto none = no_task(uploads, task)) return std::move(*none);
  const Result<Json> said = read_json(request.body);
  if (said.status().code() == Code::kTooLarge) return http_error(400, said.status().message());
  const Json json = said.ok() ? *said : Json();
  if (!json.is_object() || !json.contains("label") || !json["label"].is_string()) {
    return http_error(400, R"(say what the photo shows by {"label": "NAME"})");
  }
  const auto label = json["label"].get<std::string>();
  if (const Status s = check_class_name(label); !s.ok()) return http_error(400, s.message());
  const Result<Uploads::Photo> photo = uploads.say(id, label, task);
  if (photo.status().code() == Code::kUnsupported) return http_error(422, photo.status().message());
  return answer(photo);
}

std::string label_of(const Result<Uploads::Photo>& photo) {
  if (!photo.ok()) return "";
  const UploadLog::Known& k = photo->known;
  return !k.truth.empty() ? k.truth : k.version > 0 ? k.top.at(0).name() : "";
}

HttpResponse remove(Uploads& uploads, const Digest& id) {
  const Status s = uploads.remove(id);
  if (s.code() == Code::kUnsupported) {
    return http_error(409, "the photo is deleted here, but its object stays: " + s.message());
  }
  if (!s.ok()) return refused(s);
  return {.body = json_text(Json({{"id", to_hex(id)}, {"deleted", true}})) + "\n"};
}

Digest id_in(const HttpRequest& request) { return digest_from_hex(request.captures.at(0)); }

HttpResponse picture(Uploads& uploads, const HttpRequest& request) {
  return image(uploads, id_in(request));
}

HttpResponse small_picture(Uploads& uploads, const HttpRequest& request) {
  return small_image(uploads, id_in(request));
}

std::string label_before(const HostedCollections& collections, const HttpRequest& request) {
  HttpResponse why;
  Uploads* const uploads = collections.find(request, why);
  return uploads ? label_of(uploads->find(id_in(request), task_of(request))) : "";
}

}  // namespace

HttpAdmit photo_admission(std::shared_ptr<const HostedCollections> collections) {
  return [c = std::move(collections)](const HttpRequest& request, int64_t bytes) {
    HttpAdmission refused{.held = nullptr, .refuse = HttpResponse()};
    Uploads* const uploads = c->find(request, *refused.refuse);
    return uploads ? admit(*uploads, request, bytes) : refused;
  };
}

HttpBegin photo_beginning(std::shared_ptr<const HostedCollections> collections) {
  return [c = std::move(collections)](const HttpRequest& request,
                                      std::string_view beginning) -> std::optional<HttpResponse> {
    if (sniff(std::as_bytes(std::span(beginning))) != PhotoFormat::kUnknown) return std::nullopt;
    HttpResponse no_collection;
    if (Uploads* const u = c->find(request, no_collection)) u->count_unreadable();
    return refused({Code::kCorrupt, "not a photo: unknown file content"});
  };
}

std::vector<HttpServer::Route> upload_routes(std::vector<Uploads*> uploads) {
  using Request = const HttpRequest&;
  const auto c = std::make_shared<const HostedCollections>(std::move(uploads));
  const auto on = [c](auto f) { return on_collection(c, f); };
  const std::string photo = "/photos/([0-9a-f]{64})";
  const HttpPermission see = {Role::kViewer, HttpScope::kPhotos, HttpTask::kPhoto};
  return {
      {"POST",
       "/photos",
       {Role::kUploader, HttpScope::kPhotos},
       on([](Uploads& u, Request r) { return add(u, r); }),
       {.most = c->most_bytes(),
        .form = true,
        .admit = photo_admission(c),
        .begin = photo_beginning(c)}},
      {"GET", photo, see, on(picture)},
      {"GET", photo + "/thumbnail", see, on(small_picture)},
      {"GET",
       photo + "/label",
       {Role::kViewer, HttpScope::kPhotos, HttpTask::kNamed},
       on([](Uploads& u, Request r) { return show(u, id_in(r), r); })},
      {"PUT",
       photo + "/label",
       {Role::kLabeller, HttpScope::kPhotos, HttpTask::kNamed},
       on([](Uploads& u, Request r) { return say(u, id_in(r), r); }),
       {.most = kLabelBody},
       {"label", [c](Request r) { return label_before(*c, r); }}},
      {"DELETE",
       photo,
       {Role::kOperator, HttpScope::kPhotos},
       on([](Uploads& u, Request r) { return remove(u, id_in(r)); }),
       {},
       {"deletion"}},
  };
}

}  // namespace ndtrain::ndp
