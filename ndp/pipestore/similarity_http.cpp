#include "ndp/pipestore/similarity_http.h"

#include <map>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "ndp/http/http_query.h"
#include "ndp/pipestore/upload_http.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kEmbeddingBody = int64_t{1} << 20;

HttpResponse refusal(const Status& why) {
  const int status = why.code() == Code::kNotFound      ? 404
                     : why.code() == Code::kUnsupported ? 409
                     : why.code() == Code::kCorrupt     ? 422
                     : why.code() == Code::kTooLarge    ? 422
                                                        : 500;
  return http_error(status, why.message());
}

HttpResponse answer(const Result<PhotoEmbedding>& embedding, const std::string& task) {
  if (!embedding.ok()) return refusal(embedding.status());
  const Json json = {{"task", task},
                     {"version", embedding->version},
                     {"extractor", to_hex(embedding->extractor)},
                     {"values", embedding->values}};
  return {.body = json_text(json) + "\n"};
}

// What answer() says, of which the version and the task do not matter.
Result<PhotoEmbedding> embedding_in(const std::string& body) {
  const Result<Json> read = read_json(body, kEmbeddingBody);
  if (!read.ok()) return read.status();
  const Status wrong(Code::kCorrupt, R"(ask by {"extractor": "HEX", "values": [NUMBER, …]}, as )"
                                     "GET /photos/ID/embedding answers");
  const Json& json = *read;
  if (!json.is_object() || !json.contains("extractor") || !json["extractor"].is_string() ||
      !json.contains("values") || !json["values"].is_array()) {
    return wrong;
  }
  PhotoEmbedding embedding;
  try {
    embedding.extractor = digest_from_hex(json["extractor"].get<std::string>());
  } catch (const Error& e) {
    return Status(Code::kCorrupt, e.what());
  }
  for (const Json& value : json["values"]) {
    if (!value.is_number()) return wrong;
    embedding.values.push_back(value.get<float>());
  }
  if (!normalise(embedding.values)) {
    return Status(Code::kCorrupt, "the embedding has no direction: it is 0, or no number");
  }
  return embedding;
}

HttpResponse nearest(SimilarPhotos& similar, const HttpRequest& request) {
  const Result<PhotoEmbedding> query = embedding_in(request.body);
  if (!query.ok()) return http_error(400, query.status().message());
  const Result<int64_t> k = query_count(request, "k", kNeighbours, kMostNeighbours);
  if (!k.ok()) return http_error(400, k.status().message());
  const Result<SimilarPhotos::Found> found =
      similar.nearest(*query, static_cast<size_t>(*k), query_text(request, "task", kDefaultTask));
  if (!found.ok()) return refusal(found.status());
  Json photos = Json::array();
  for (const SimilarPhotos::Found::Photo& p : found->photos) {
    photos.push_back({{"id", to_hex(p.neighbour.photo)},
                      {"path", p.path},
                      {"similarity", p.neighbour.similarity}});
  }
  return {.body = json_text_replacing({{"photos", photos}, {"searched", found->searched}}) + "\n"};
}

}  // namespace

std::vector<HttpServer::Route> similarity_routes(const std::vector<SimilarPhotos*>& similar) {
  std::vector<Uploads*> uploads;
  std::map<const Uploads*, SimilarPhotos*> of;
  for (SimilarPhotos* s : similar) {
    uploads.push_back(&s->uploads());
    of[&s->uploads()] = s;
  }
  const auto collections = std::make_shared<const HostedCollections>(std::move(uploads));
  const auto on = [&](auto f) {
    return on_collection(
        collections, [of, f](const Uploads& u, const HttpRequest& r) { return f(*of.at(&u), r); });
  };
  using Request = const HttpRequest&;
  const HttpPermission see = {Role::kViewer, HttpScope::kPhotos, HttpTask::kNamed};
  return {
      {"GET", "/photos/([0-9a-f]{64})/embedding", see, on([](SimilarPhotos& s, Request r) {
         const std::string task = query_text(r, "task", kDefaultTask);
         return answer(s.embedding(digest_from_hex(r.captures.at(0)), task), task);
       })},
      {"POST",
       "/embedding",
       see,
       on([](SimilarPhotos& s, Request r) {
         const std::string task = query_text(r, "task", kDefaultTask);
         return answer(s.embedding(r.body, task), task);
       }),
       {.most = collections->most_bytes(),
        .form = true,
        .admit = photo_admission(collections),
        .begin = photo_beginning(collections)}},
      {"POST", "/neighbours", see, on(nearest), {.most = kEmbeddingBody}},
  };
}

}  // namespace ndtrain::ndp
