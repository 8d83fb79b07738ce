#include "tuner/http/http_trash.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "framework/core/text.h"
#include "tuner/http/http_answer.h"
#include "tuner/http/http_named_photo.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using Labels = std::function<LabelDb&()>;

constexpr size_t kKeepDigits = 11;  // of seconds, three thousand years

Json to_json(const TrashedPhoto& p) {
  return {{"id", to_hex(p.photo)},
          {"paths", p.paths},
          {"who", p.who},
          {"since", p.since},
          {"until", p.until}};
}

// Where people saw it, in this collection or, with "", in any.
std::vector<std::string> shown(const std::vector<CollectedPath>& places,
                               const std::string& collection) {
  std::vector<std::string> paths;
  for (const CollectedPath& place : places) {
    if (collection.empty() || place.collection == collection) {
      paths.push_back(printable(place.path));
    }
  }
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

// Nowhere when the database is away, which needs to know of the trash later.
std::vector<std::string> paths_of(const Labels& labels, const Digest& photo) {
  try {
    return shown(labels().places_of({&photo, 1}).or_throw().at(0), "");
  } catch (const Error&) {
    return {};
  }
}

// Those that are in this collection, with where they are in it.
std::vector<TrashedPhoto> in_collection(const Labels& labels, std::vector<TrashedPhoto> photos,
                                        const std::string& collection) {
  std::vector<Digest> digests;
  for (const TrashedPhoto& p : photos) digests.push_back(p.photo);
  const auto places = labels().places_of(digests).or_throw();
  for (size_t i = 0; i < photos.size(); ++i) photos[i].paths = shown(places[i], collection);
  std::erase_if(photos, [](const TrashedPhoto& p) { return p.paths.empty(); });
  return photos;
}

Result<int64_t> kept_for(const HttpRequest& request) {
  const auto keep = request.query.find("keep");
  if (keep == request.query.end()) return PhotoTrash::kKept;
  const std::string& text = keep->second;
  const bool number = !text.empty() && text.size() <= kKeepDigits && text[0] != '0' &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (number) return std::stoll(text);
  return Status(Code::kUnsupported, "keep=" + printable(text, 64) + ": a number of seconds");
}

HttpResponse gone(const Digest& photo) {
  return http_error(410, "photo " + to_hex(photo) + " was deleted for good");
}

class TrashRoutes {
 public:
  TrashRoutes(WithService with, Labels labels, Clock& clock)
      : with_(std::move(with)), labels_(std::move(labels)), clock_(clock) {}

  std::string before(const HttpRequest& r) const {
    const Result<Digest> photo = own_photo(with_, labels_, r);
    return photo.ok() ? to_hex(*photo) : "";
  }

  HttpResponse list(const HttpRequest& r) const {
    std::vector<TrashedPhoto> photos;
    HttpResponse asked = with_([&](const TunerService& s) {
      for (const auto& [photo, entry] : s.trash().photos()) photos.push_back(entry);
      return HttpResponse();
    });
    if (asked.status != 200) return asked;
    const std::string collection = only_collection_of(r);
    try {
      if (!collection.empty()) photos = in_collection(labels_, std::move(photos), collection);
    } catch (const Error& e) {
      return http_error(503, e.what());
    }
    Json all = Json::array();
    for (const TrashedPhoto& p : photos) all.push_back(to_json(p));
    return answer(all);
  }

  // What putting it there, or deleting it, would be about.
  HttpResponse preview(const HttpRequest& r) const {
    return about(
        r, [](const TunerService& s, const Digest& photo, const std::vector<std::string>& paths) {
          Json json = {{"id", to_hex(photo)}, {"paths", paths}, {"deleted", s.is_deleted(photo)}};
          const auto entry = s.trash().photos().find(photo);
          json["until"] = entry == s.trash().photos().end() ? Json() : Json(entry->second.until);
          std::vector<std::string> told, away;
          for (const StoreRecord& store : s.stores()) {
            (store.here ? told : away).push_back(store.name);
          }
          json["told"] = told;
          json["away"] = away;
          return answer(json);
        });
  }

  HttpResponse put(const HttpRequest& r) const {
    const Result<int64_t> keep = kept_for(r);
    if (!keep.ok()) return http_error(400, keep.status().message());
    return about(r, [&](TunerService& s, const Digest& photo, std::vector<std::string> paths) {
      if (s.is_deleted(photo)) return gone(photo);
      const int64_t now = clock_.unix_seconds();
      TrashedPhoto entry{.photo = photo,
                         .who = r.who.empty() ? r.peer : r.who,
                         .since = now,
                         .until = now + *keep,
                         .paths = std::move(paths)};
      const auto d = s.trash_photos({entry});
      Json json = to_json(entry);
      json["told"] = d.told;
      json["away"] = d.away;
      return answer(json);
    });
  }

  HttpResponse restore(const HttpRequest& r) const {
    return about(r, [](TunerService& s, const Digest& photo, const std::vector<std::string>&) {
      if (s.is_deleted(photo)) return gone(photo);
      if (!s.trash().has(photo)) {
        return http_error(404, "photo " + to_hex(photo) + " is not in the trash");
      }
      Json json = to_json(s.trash().photos().at(photo));
      s.restore_photos({&photo, 1});
      json["restored"] = true;
      return answer(json);
    });
  }

 private:
  HttpResponse about(const HttpRequest& r,
                     const std::function<HttpResponse(TunerService&, const Digest&,
                                                      std::vector<std::string>)>& f) const {
    const Result<Digest> photo = own_photo(with_, labels_, r);
    if (!photo.ok()) return no_photo(photo.status());
    const std::vector<std::string> paths = paths_of(labels_, *photo);
    return with_([&](TunerService& s) {
      try {
        return f(s, *photo, paths);
      } catch (const Error& e) {
        return http_error(507, e.what());
      }
    });
  }

  const WithService with_;
  const Labels labels_;
  Clock& clock_;
};

}  // namespace

std::vector<HttpServer::Route> trash_routes(const WithService& with, const Labels& labels,
                                            Clock& clock) {
  const auto t = std::make_shared<const TrashRoutes>(with, labels, clock);
  using Request = const HttpRequest&;
  const HttpPermission see = {Role::kViewer, HttpScope::kCollection};
  const HttpPermission change = {Role::kOperator, HttpScope::kCollection};
  const auto before = [t](Request r) { return t->before(r); };
  return {
      {"GET", "/trash", see, [t](Request r) { return t->list(r); }},
      {"GET", "/trash/(.+)", see, [t](Request r) { return t->preview(r); }},
      {"POST", "/trash/(.+)", change, [t](Request r) { return t->put(r); }, {}, {"trash", before}},
      {"POST",
       "/restore/(.+)",
       change,
       [t](Request r) { return t->restore(r); },
       {},
       {"restore", before}}};
}

}  // namespace ndtrain::tuner
