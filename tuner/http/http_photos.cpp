#include "tuner/http/http_photos.h"

#include <algorithm>
#include <memory>
#include <semaphore>
#include <string_view>

#include "framework/core/json.h"
#include "framework/core/text.h"
#include "ndp/http/http_query.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Each holds a photo in memory, and a connection of the server.
constexpr int kAtOnce = 8;
constexpr std::chrono::seconds kPatience{3}, kTurn{2};
constexpr int kFresh = 600;  // seconds; it may be deleted meanwhile

using Turns = std::counting_semaphore<kAtOnce>;

HttpResponse fetch(const std::string& address, const std::string& path, bool thumbnail,
                   HttpTrust trust) {
  Result<HttpResponse> got = HttpClient(address, kPatience, std::move(trust)).get(path);
  if (!got.ok()) return http_error(502, got.status().message());
  // Whatever answers there: nothing but a picture is handed on as if it were the Tuner's own.
  constexpr std::string_view kPictures[] = {"image/jpeg", "image/png", "image/webp", "image/gif",
                                            "image/avif"};
  const bool picture = std::ranges::find(kPictures, got->type) != std::end(kPictures);
  if (got->status == 200 && !picture) {
    return http_error(502, address + " answered no picture, but " + got->type);
  }
  if (got->status != 200) {
    return http_error(got->status == 404 || got->status == 410 ? 404 : 502,
                      address + " has no such picture, but status " + std::to_string(got->status));
  }
  return {.body = std::move(got->body),
          .type = got->type,
          .headers = {{"Cache-Control", "private, max-age=" + std::to_string(kFresh)},
                      // What somebody uploaded is not opened as a page of its own.
                      {"Content-Disposition", thumbnail ? "inline" : "attachment"}}};
}

// Copies the store, which takes requests; where it takes none, the answer says why. A token's
// collection is the one that the request names, so the store has to be of that.
HttpResponse locate(const TunerService& service, const std::string& name,
                    const std::string& collection, bool tokens, StoreRecord& store) {
  for (const StoreRecord& s : service.stores()) {
    if (s.name != name) continue;
    if (!collection.empty() && s.collection != collection) {
      return http_error(404, "the photos of store '" + name + "' are in the collection " +
                                 printable(s.collection, 256) + ", not in " +
                                 printable(collection, 256));
    }
    if (!s.here) return http_error(503, "store '" + name + "' is away");
    if (tokens && !s.takes_tickets) {
      return http_error(503,
                        "store '" + name + "' runs a program that takes no tickets: update it");
    }
    if (!s.http.empty()) {
      store = s;
      return {};
    }
    if (!s.http_refused.empty()) {
      return http_error(503, "store '" + name + "' says that it is at " + s.http_refused +
                                 ", which is not where it dials from and not in its certificate");
    }
    return http_error(503, "store '" + name +
                               "' shows no photos: start it with --http HOST:PORT, an address that "
                               "the Tuner can reach");
  }
  return http_error(404, "there is no store '" + name + "'");
}

}  // namespace

std::vector<HttpServer::Route> photo_routes(const WithService& with, const TrustOf& trust,
                                            const TicketFor& ticket) {
  const auto turns = std::make_shared<Turns>(kAtOnce);
  const HttpHandler show = [with, trust, ticket, turns](const HttpRequest& r) {
    const std::string name = r.captures.at(0), photo = "/photos/" + r.captures.at(1);
    const std::string shown = ticket(r, name, photo);
    StoreRecord store;
    const std::string collection = query_text(r, "collection");
    const HttpResponse where =
        with([&](TunerService& s) { return locate(s, name, collection, !shown.empty(), store); });
    if (where.status != 200) return where;
    if (!turns->try_acquire_for(kTurn)) {
      HttpResponse busy = http_error(503, "as many photos are on their way as may be");
      busy.headers["Retry-After"] = "1";
      return busy;
    }
    const std::unique_ptr<Turns, void (*)(Turns*)> turn(turns.get(),
                                                        [](Turns* t) { t->release(); });
    return fetch(store.http, photo + store.query(), photo.ends_with("/thumbnail"), trust(shown));
  };
  return {{"GET",
           "/stores/([^/]+)/photos/([0-9a-f]{64}(?:/thumbnail)?)",
           {Role::kViewer, HttpScope::kCollection, HttpTask::kPhoto},
           show}};
}

}  // namespace ndtrain::tuner
