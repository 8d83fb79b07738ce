#include <fmt/format.h>

#include "cli/number_args.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "framework/core/utc_text.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string names(const Json& stores) {
  std::string all;
  for (const Json& s : stores) all += (all.empty() ? "" : ", ") + s.get<std::string>();
  return all;
}

std::string whom(const Json& answer) {
  std::string text;
  if (!answer["told"].empty()) text += "; told: " + names(answer["told"]);
  if (!answer["away"].empty()) text += "; when they are back: " + names(answer["away"]);
  return text;
}

std::string paths_or_id(const Json& answer) {
  const std::string paths = names(answer["paths"]);
  return paths.empty() ? answer["id"].get<std::string>() : paths;
}

void declare_known_photos(ArgsSpec& args) {
  args.positionals("PHOTO", "its SHA-256, or STORE/path as ndtrain labels query shows it");
}

void declare_collection(ArgsSpec& args) {
  args.flag("collection",
            "of this collection alone, which a token of one has to name; a photo that is in "
            "others, too, is refused",
            "NAME");
}

// `path` may have a query.
std::string in_collection(const Args& args, const std::string& path) {
  if (!args.has("collection")) return path;
  return path + (path.find('?') == std::string::npos ? "?" : "&") +
         "collection=" + url_encoded(args.text("collection"));
}

// What would go, and what became of it already.
std::string preview_of(const std::string& photo, const Json& json, bool now) {
  if (json["deleted"] == true) return photo + " was deleted before";
  const std::string goes = now ? " would be deleted for good" : " would go to the trash";
  std::string text = photo + goes + whom(json);
  if (!json["paths"].empty()) text += "; it is at " + names(json["paths"]);
  if (!json["until"].is_null()) {
    text += "; it is in the trash until " + utc_text(json["until"].get<int64_t>());
  }
  return text;
}

}  // namespace

void declare_photos_rm(ArgsSpec& args) {
  declare_known_photos(args);
  args.flag("keep", "how long they can be restored, as 12h, 30d or 4w", "TIME", "30d");
  args.flag("now", "at once and for good, also what is in the trash");
  args.flag("dry-run", "say what would go, and change nothing");
  declare_collection(args);
  declare_http(args);
}

int run_photos_rm(Context& context, const Args& args) {
  (void)args.required("PHOTO");
  const bool now = args.on("now");
  const int64_t keep = parse_duration("keep", args.text("keep"));
  const TunerClient tuner(args);
  Json all = Json::array();
  std::string text;
  for (const std::string& photo : args.list("PHOTO")) {
    const std::string path = url_path(photo);
    if (args.on("dry-run")) {
      text += preview_of(photo, all.emplace_back(tuner.get(in_collection(args, "/trash/" + path))),
                         now) +
              "\n";
    } else if (now) {
      text += photo + " is deleted" +
              whom(all.emplace_back(tuner.remove(in_collection(args, "/photos/" + path)))) + "\n";
    } else {
      const Json& put = all.emplace_back(
          tuner.post(in_collection(args, "/trash/" + path + "?keep=" + std::to_string(keep))));
      text += photo + " is in the trash until " + utc_text(put["until"].get<int64_t>()) +
              whom(put) + "\n";
    }
  }
  context.print(all, text);
  return kOk;
}

void declare_photos_trash(ArgsSpec& args) {
  declare_collection(args);
  declare_http(args);
}

int run_photos_trash(Context& context, const Args& args) {
  const Json all = TunerClient(args).get(in_collection(args, "/trash"));
  std::string text = fmt::format("{:<24} {:<24} {:<16} {}\n", "put there", "until", "by", "photo");
  for (const Json& p : all) {
    text += fmt::format("{:<24} {:<24} {:<16} {}\n", utc_text(p["since"].get<int64_t>()),
                        utc_text(p["until"].get<int64_t>()), p["who"].get<std::string>(),
                        paths_or_id(p));
  }
  context.print(all, all.empty() ? "the trash is empty\n" : text);
  return kOk;
}

void declare_photos_restore(ArgsSpec& args) {
  declare_known_photos(args);
  declare_collection(args);
  declare_http(args);
}

int run_photos_restore(Context& context, const Args& args) {
  (void)args.required("PHOTO");
  const TunerClient tuner(args);
  Json all = Json::array();
  std::string text;
  for (const std::string& photo : args.list("PHOTO")) {
    all.push_back(tuner.post(in_collection(args, "/restore/" + url_path(photo))));
    text += photo + " is restored\n";
  }
  context.print(all, text);
  return kOk;
}

}  // namespace ndtrain::cli
