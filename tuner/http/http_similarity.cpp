#include "tuner/http/http_similarity.h"

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <semaphore>
#include <set>

#include "framework/core/json_input.h"
#include "framework/core/text.h"
#include "ndp/http/http_query.h"
#include "ndp/similarity/embedding_index.h"
#include "tuner/http/http_answer.h"
#include "tuner/http/http_named_photo.h"
#include "tuner/http/http_uploads.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr std::chrono::seconds kAnswersWithin{10};
constexpr size_t kAskedAtOnce = 8;  // stores, by one question
constexpr int kQuestions = 4;       // at a time

// A store that answers over HTTP.
struct AskedStore {
  std::string name, http;
};

// Photos of one collection and task, for one request.
class Question {
 public:
  Question(const HttpRequest& request, const TrustOf& trust, const TicketFor& ticket)
      : request_(request),
        trust_(trust),
        ticket_(ticket),
        collection_(query_text(request, "collection", kDefaultCollection)),
        task_(query_text(request, "task", kDefaultTask)) {}

  const std::string& collection() const { return collection_; }
  const std::string& task() const { return task_; }

  Result<HttpResponse> get(const AskedStore& store, const std::string& path) const {
    return client(store, "GET", path).get(path + "?" + about());
  }
  Result<HttpResponse> post(const AskedStore& store, const std::string& path,
                            const std::string& body, const std::string& more = "") const {
    return client(store, "POST", path).post(path + "?" + about() + more, body);
  }

 private:
  std::string about() const {
    return "collection=" + url_encoded(collection_) + "&task=" + url_encoded(task_);
  }
  HttpClient client(const AskedStore& store, const std::string& method,
                    const std::string& path) const {
    HttpRequest asked{.method = method, .who = request_.who};
    return HttpClient(store.http, kAnswersWithin, trust_(ticket_(asked, store.name, path)));
  }

  const HttpRequest& request_;
  const TrustOf& trust_;
  const TicketFor& ticket_;
  const std::string collection_, task_;
};

// Null where it is none.
Json json_of(const HttpResponse& answer) {
  Result<Json> json = read_json(answer.body, limits::kHttpAnswer);
  return json.ok() ? std::move(*json) : Json();
}

// Why a store's answer is none.
std::string trouble_of(const Result<HttpResponse>& answer) {
  if (!answer.ok()) return answer.status().message();
  const Json json = json_of(*answer);
  if (json.is_object() && json.contains("error") && json["error"].is_string()) {
    return printable(json["error"].get<std::string>(), 512);
  }
  return "it answered status " + std::to_string(answer->status);
}

class SimilarityRoutes {
 public:
  SimilarityRoutes(WithService with, TrustOf trust, TicketFor ticket,
                   std::function<LabelDb&()> labels)
      : with_(std::move(with)),
        trust_(std::move(trust)),
        ticket_(std::move(ticket)),
        labels_(std::move(labels)) {}

  // Of a photo, by the store of the collection that has it.
  HttpResponse like(const HttpRequest& r) {
    const Result<Digest> photo = named_photo(with_, labels_, r.captures.at(0));
    if (!photo.ok()) return no_photo(photo.status());
    const std::string path = "/photos/" + to_hex(*photo) + "/embedding";
    return answer_by(r, [&](const Question& q, const AskedStore& s) { return q.get(s, path); });
  }

  // Of a file, by any.
  HttpResponse like_file(const HttpRequest& r) {
    if (r.body.empty()) {
      return http_error(400, "there is no photo in the request; curl -F photo=@x.jpg sends one");
    }
    return answer_by(
        r, [&](const Question& q, const AskedStore& s) { return q.post(s, "/embedding", r.body); });
  }

 private:
  using Embed = std::function<Result<HttpResponse>(const Question&, const AskedStore&)>;
  using NotAsked = std::map<std::string, std::string>;  // stores, and why

  HttpResponse answer_by(const HttpRequest& r, const Embed& embed) {
    const Result<int64_t> k = query_count(r, "k", kNeighbours, kMostNeighbours);
    if (!k.ok()) return http_error(400, k.status().message());
    if (!turns_->try_acquire_for(kAnswersWithin)) {
      HttpResponse busy = http_error(503, "as many photos are compared as may be at a time");
      busy.headers["Retry-After"] = "1";
      return busy;
    }
    const std::unique_ptr<Turns, void (*)(Turns*)> turn(turns_.get(),
                                                        [](Turns* t) { t->release(); });
    const Question question(r, trust_, ticket_);
    NotAsked not_asked;
    const std::vector<AskedStore> stores = stores_of(question.collection(), not_asked);
    if (stores.empty()) return no_stores(question.collection(), not_asked);
    const Result<HttpResponse> embedding = embed_by(question, stores, embed);
    if (!embedding.ok() || embedding->status != 200) return passed_on(embedding);
    return merged(question, stores, std::move(not_asked), *embedding, static_cast<size_t>(*k));
  }

  // Stores that are here and can be asked.
  std::vector<AskedStore> stores_of(const std::string& collection, NotAsked& not_asked) {
    std::vector<AskedStore> stores;
    (void)with_([&](const TunerService& service) {
      for (const StoreRecord& s : service.stores()) {
        if (s.collection != collection) continue;
        if (!s.here) {
          not_asked[s.name] = "it is away";
        } else if (s.http.empty()) {
          not_asked[s.name] =
              "it answers nobody: start it with --http HOST:PORT, an address that the Tuner can "
              "reach";
        } else {
          stores.push_back({s.name, s.http});
        }
      }
      return HttpResponse();
    });
    return stores;
  }

  static HttpResponse no_stores(const std::string& collection, const NotAsked& not_asked) {
    std::string why = "no store of the collection " + printable(collection, 256) + " can be asked";
    for (const auto& [store, reason] : not_asked) why += "; " + store + ": " + reason;
    return http_error(503, why);
  }

  // The first embedding, of whichever store makes one; else what the last said, of those that have
  // the photo if any has it.
  static Result<HttpResponse> embed_by(const Question& question,
                                       const std::vector<AskedStore>& stores, const Embed& embed) {
    std::optional<Result<HttpResponse>> said;
    for (const AskedStore& store : stores) {
      Result<HttpResponse> answer = embed(question, store);
      if (answer.ok() && answer->status == 200) return answer;
      const bool knows_it = answer.ok() && answer->status != 404;
      if (!said || knows_it) said = std::move(answer);
    }
    return *said;
  }

  static HttpResponse passed_on(const Result<HttpResponse>& answer) {
    constexpr int kOfThePhoto[] = {404, 409, 413, 422, 429};
    const bool of_the_photo =
        answer.ok() && std::ranges::find(kOfThePhoto, answer->status) != std::end(kOfThePhoto);
    return http_error(of_the_photo ? answer->status : 502, trouble_of(answer));
  }

  HttpResponse merged(const Question& question, const std::vector<AskedStore>& stores,
                      NotAsked not_asked, const HttpResponse& embedding, size_t k) {
    std::map<std::string, Json> found;  // by photo
    int64_t searched = 0;
    for (size_t begin = 0; begin < stores.size(); begin += kAskedAtOnce) {
      const size_t end = std::min(stores.size(), begin + kAskedAtOnce);
      std::vector<std::future<Result<HttpResponse>>> answers;
      for (size_t i = begin; i < end; ++i) {
        answers.push_back(std::async(std::launch::async, [&, i] {
          return question.post(stores[i], "/neighbours", embedding.body, "&k=" + std::to_string(k));
        }));
      }
      for (size_t i = begin; i < end; ++i) {
        const Result<HttpResponse> answer = answers[i - begin].get();
        if (!answer.ok() || answer->status != 200 ||
            !take(stores[i].name, *answer, found, searched)) {
          not_asked[stores[i].name] = trouble_of(answer);
        }
      }
    }
    leave_out_deleted(found);
    std::vector<Json> photos;
    for (auto& [id, row] : found) photos.push_back(std::move(row));
    std::ranges::stable_sort(photos, std::greater(),
                             [](const Json& row) { return row.at("similarity").get<double>(); });
    photos.resize(std::min(photos.size(), k));
    for (Json& row : photos) add_label(question, row);
    const Json by = json_of(embedding);
    return answer(Json{{"task", question.task()},
                       {"version", by.is_object() ? by.value("version", Json()) : Json()},
                       {"photos", photos},
                       {"searched", searched},
                       {"not_searched", not_asked}});
  }

  // A store may have said what it found before it heard of them.
  void leave_out_deleted(std::map<std::string, Json>& found) {
    (void)with_([&](const TunerService& service) {
      std::erase_if(found, [&](const auto& row) {
        const Digest photo = digest_from_hex(row.first);
        return service.is_deleted(photo) || service.trash().hides(photo);
      });
      return HttpResponse();
    });
  }

  // What a store says, as far as it can be read. A photo that several have is one.
  static bool take(const std::string& store, const HttpResponse& answer,
                   std::map<std::string, Json>& found, int64_t& searched) {
    const Json said = json_of(answer);
    try {
      std::map<std::string, Json> rows;
      for (const Json& p : said.at("photos")) {
        const std::string id = to_hex(digest_from_hex(p.at("id").get<std::string>()));
        rows[id] = {{"id", id},
                    {"path", store + "/" + printable(p.at("path").get<std::string>())},
                    {"held_by", store},
                    {"similarity", p.at("similarity").get<double>()}};
      }
      searched += said.at("searched").get<int64_t>();
      found.merge(rows);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  // The number by which the labels know it, and what it is called; neither where they don't, as a
  // photo that has just come.
  void add_label(const Question& question, Json& row) {
    row["photo"] = row["label"] = nullptr;
    try {
      LabelDb& db = labels_();
      const Digest id = digest_from_hex(row["id"].get<std::string>());
      const int64_t photo = db.photos_with({&id, 1}).or_throw().at(0);
      if (photo == 0) return;
      row["photo"] = photo;
      const LabelPage page =
          db.query({.collection = existing_collection(db, question.collection()).or_throw(),
                    .task = existing_task(db, question.task()).or_throw(),
                    .photo = photo,
                    .limit = 1})
              .or_throw();
      if (!page.rows.empty()) row["label"] = printable(page.rows[0].class_name);
    } catch (const Error&) {
      return;
    }
  }

  using Turns = std::counting_semaphore<kQuestions>;

  const WithService with_;
  const TrustOf trust_;
  const TicketFor ticket_;
  const std::function<LabelDb&()> labels_;
  const std::shared_ptr<Turns> turns_ = std::make_shared<Turns>(kQuestions);
};

}  // namespace

std::vector<HttpServer::Route> similar_photo_routes(const WithService& with, const TrustOf& trust,
                                                    const TicketFor& ticket,
                                                    const std::function<LabelDb&()>& labels) {
  const auto routes = std::make_shared<SimilarityRoutes>(with, trust, ticket, labels);
  const HttpPermission see = {Role::kViewer, HttpScope::kCollection, HttpTask::kNamed};
  return {
      {"GET", "/photos/(.+)/like", see, [routes](const HttpRequest& r) { return routes->like(r); }},
      {"POST",
       "/photos/like",
       see,
       [routes](const HttpRequest& r) { return routes->like_file(r); },
       {.most = kMostAskedAbout, .form = true, .begin = begins_as_no_photo}}};
}

}  // namespace ndtrain::tuner
