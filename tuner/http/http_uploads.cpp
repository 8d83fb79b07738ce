#include "tuner/http/http_uploads.h"

#include <algorithm>
#include <memory>
#include <semaphore>

#include "framework/core/text.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/decode.h"
#include "tuner/http/http_answer.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr std::chrono::seconds kTakes{30};  // that a store labels it within

HttpResponse later(int status, const std::string& why, const char* seconds) {
  HttpResponse r = http_error(status, why);
  r.headers["Retry-After"] = seconds;
  return r;
}

std::string collection_of(const HttpRequest& request) {
  const auto asked = request.query.find("collection");
  return asked == request.query.end() ? std::string(kDefaultCollection) : asked->second;
}

HttpResponse no_store(const std::string& collection) {
  const std::string of =
      collection == kDefaultCollection ? "" : " of the collection " + printable(collection, 256);
  return later(503,
               "no PipeStore" + of +
                   " that is here takes uploads; start one with ndtrain pipestore serve "
                   "--http HOST:8421 (it says so when its disk is full, too)",
               "5");
}

// 307: the client sends the same request there, body and all.
// Without what the client shows here: a ticket does at that store, and for this alone.
HttpResponse send_there(TunerService& service, const HttpRequest& request,
                        const TicketFor& ticket) {
  const std::string collection = collection_of(request);
  const StoreRecord* const store = service.place_upload(collection);
  if (!store) return no_store(collection);
  HttpResponse r = answer({{"store", store->http}}, 307);
  const std::string shown = ticket(request, store->name, "/photos");
  const std::string query = store->query();
  r.headers["Location"] =
      (store->http.starts_with("https://") ? "" : "http://") + store->http + "/photos" + query +
      (shown.empty() ? "" : (query.empty() ? "?" : "&") + std::string("ticket=") + shown);
  return r;
}

// What the store says of the photo is the answer, also that it does not take it, or not now.
HttpResponse hand_on(const StoreRecord& store, HttpTrust trust, const std::string& photo) {
  const std::string &name = store.name, &address = store.http;
  const Result<HttpResponse> said =
      HttpClient(address, kTakes, std::move(trust))
          .post("/photos" + store.query(), photo, "application/octet-stream");
  if (!said.ok()) {
    return http_error(502, "store '" + name + "' was to take the photo, and it is not known " +
                               "whether it has: " + said.status().message() +
                               "; upload it again, once more does no harm");
  }
  constexpr int kForTheClient[] = {200, 202, 400, 410, 413, 422, 429, 503, 507};
  const bool for_the_client =
      std::ranges::find(kForTheClient, said->status) != std::end(kForTheClient);
  if (!for_the_client || said->type != "application/json") {
    return http_error(502, "store '" + name + "' was to take the photo, and answered status " +
                               std::to_string(said->status));
  }
  HttpResponse r{.status = said->status, .body = said->body};
  if (const auto wait = said->headers.find("Retry-After"); wait != said->headers.end()) {
    r.headers.insert(*wait);
  }
  return r;
}

// Each holds a photo in memory.
using Relays = std::counting_semaphore<kRelayedAtOnce>;

HttpAdmission admit(const std::shared_ptr<Relays>& turns) {
  if (!turns->try_acquire()) {
    return {.held = nullptr,
            .refuse = later(429, "as many photos are handed on as may be at a time", "1"),
            .full = true};
  }
  return {.held = std::shared_ptr<void>(turns.get(), [turns](void*) { turns->release(); }),
          .refuse = {}};
}

}  // namespace

std::optional<HttpResponse> begins_as_no_photo(const HttpRequest& /*request*/,
                                               std::string_view beginning) {
  if (sniff(std::as_bytes(std::span(beginning))) != PhotoFormat::kUnknown) return std::nullopt;
  return http_error(422, "the photo cannot be read: not a photo: unknown file content");
}

std::vector<HttpServer::Route> placing_routes(const WithService& with, const TrustOf& trust,
                                              const TicketFor& ticket) {
  const auto turns = std::make_shared<Relays>(kRelayedAtOnce);
  const HttpPermission upload = {Role::kUploader, HttpScope::kCollection};
  const HttpHandler relay = [with, trust, ticket](const HttpRequest& r) {
    if (r.body.empty()) {
      return http_error(400, "there is no photo in the request; curl -F photo=@x.jpg sends one");
    }
    StoreRecord at;
    const HttpResponse placed = with([&](TunerService& s) {
      const StoreRecord* const store = s.place_upload(collection_of(r));
      if (!store) return no_store(collection_of(r));
      at = *store;
      return HttpResponse();
    });
    if (at.http.empty()) return placed;
    return hand_on(at, trust(ticket(r, at.name, "/photos")), r.body);
  };
  return {{"POST",
           "/photos",
           upload,
           [with, ticket](const HttpRequest& r) {
             return with([&](TunerService& s) { return send_there(s, r, ticket); });
           },
           {.read = false}},
          {"POST",
           "/uploads",
           upload,
           relay,
           {.most = kMostRelayed,
            .form = true,
            .admit = [turns](const HttpRequest&, int64_t) { return admit(turns); },
            .begin = begins_as_no_photo}}};
}

}  // namespace ndtrain::tuner
