#include "ndp/pipestore/upload_http.h"

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "ndp/jobs/thumbnail.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/encode.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kLabelBody = 4096;

HttpResponse later(const std::string& why) {
  HttpResponse r = http_error(429, why);
  r.headers.emplace("Retry-After", "1");
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
    default:
      return http_error(500, why.message());
  }
}

// A person's word counts more than a model's.
Json to_json(const Uploads::Photo& photo) {
  const UploadLog::Known& k = photo.known;
  Json json = {{"id", to_hex(photo.id)}, {"path", k.path}};
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

HttpResponse answer(const Result<Uploads::Photo>& photo, int status = 200) {
  if (!photo.ok()) return refused(photo.status());
  return {.status = status, .body = json_text(to_json(*photo)) + "\n"};
}

HttpResponse add(Uploads& uploads, const HttpRequest& request) {
  if (request.body.empty()) {
    return http_error(400, "there is no photo in the request; curl -F photo=@x.jpg sends one");
  }
  const Result<Uploads::Photo> photo = uploads.add(request.body);
  return answer(photo, photo.ok() && photo->known.version == 0 ? 202 : 200);
}

HttpAdmission admit(Uploads& uploads, const HttpRequest& request, int64_t bytes) {
  if (!uploads.within_quota(request.peer)) {
    return {.held = nullptr, .refuse = later(request.peer + " uploads more than its quota")};
  }
  if (std::shared_ptr<void> held = uploads.admit(bytes))
    return {.held = std::move(held), .refuse = {}};
  return {.held = nullptr, .refuse = later("the store has as many uploads as it can take")};
}

// What browsers cannot show, HEIC and TIFF, they get as a JPEG; its bytes are not the photo's.
HttpResponse image(const Result<std::string>& file) {
  if (!file.ok()) return refused(file.status());
  const auto bytes = std::as_bytes(std::span(*file));
  const PhotoFormat format = sniff(bytes);
  if (browsers_show(format)) return {.body = *file, .type = std::string(media_type(format))};
  const Result<Decoded> photo = decode(bytes);
  if (!photo.ok()) return refused(photo.status());
  return {.body = encode_jpeg(photo->image), .type = "image/jpeg"};
}

HttpResponse say(Uploads& uploads, const Digest& id, const std::string& body) {
  const Result<Json> said = read_json(body);
  if (said.status().code() == Code::kTooLarge) return http_error(400, said.status().message());
  const Json json = said.ok() ? *said : Json();
  if (!json.is_object() || !json.contains("label") || !json["label"].is_string()) {
    return http_error(400, R"(say what the photo shows by {"label": "NAME"})");
  }
  const auto label = json["label"].get<std::string>();
  if (const Status s = check_class_name(label); !s.ok()) return http_error(400, s.message());
  const Result<Uploads::Photo> photo = uploads.say(id, label);
  if (photo.status().code() == Code::kUnsupported) return http_error(422, photo.status().message());
  return answer(photo);
}

std::string label_of(const Result<Uploads::Photo>& photo) {
  if (!photo.ok()) return "";
  const UploadLog::Known& k = photo->known;
  return !k.truth.empty() ? k.truth : k.version > 0 ? k.top.at(0).name() : "";
}

HttpResponse remove(Uploads& uploads, const Digest& id) {
  if (Status s = uploads.remove(id); !s.ok()) return refused(s);
  return {.body = json_text(Json({{"id", to_hex(id)}, {"deleted", true}})) + "\n"};
}

}  // namespace

std::vector<HttpServer::Route> upload_routes(Uploads& u) {
  using Request = const HttpRequest&;
  const std::string photo = "/photos/([0-9a-f]{64})";
  const HttpPermission see = {Role::kViewer, HttpScope::kPhotos};
  const auto id = [](Request r) { return digest_from_hex(r.captures.at(0)); };
  return {
      {"POST",
       "/photos",
       {Role::kUploader, HttpScope::kPhotos},
       [&u](Request r) { return add(u, r); },
       {.most = u.most_bytes(),
        .form = true,
        .admit = [&u](Request r, int64_t bytes) { return admit(u, r, bytes); }}},
      {"GET", photo, see, [&u, id](Request r) { return image(u.read(id(r))); }},
      {"GET", photo + "/thumbnail", see,
       [&u, id](Request r) {
         const Result<std::string> file = u.read(id(r));
         return image(file.ok() ? thumbnail(*file) : file.status());
       }},
      {"GET", photo + "/label", see, [&u, id](Request r) { return answer(u.find(id(r))); }},
      {"PUT",
       photo + "/label",
       {Role::kLabeller, HttpScope::kPhotos},
       [&u, id](Request r) { return say(u, id(r), r.body); },
       {.most = kLabelBody},
       {"label", [&u, id](Request r) { return label_of(u.find(id(r))); }}},
      {"DELETE",
       photo,
       {Role::kOperator, HttpScope::kPhotos},
       [&u, id](Request r) { return remove(u, id(r)); },
       {},
       {"deletion"}},
  };
}

}  // namespace ndtrain::ndp
