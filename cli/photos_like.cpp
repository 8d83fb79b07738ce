#include <fmt/format.h>

#include "cli/number_args.h"
#include "cli/text_table.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "ndp/labels/label_db.h"
#include "ndp/similarity/embedding_index.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string table_of(const Json& answer) {
  std::vector<std::vector<std::string>> rows = {{"similarity", "label", "photo"}};
  for (const Json& p : answer["photos"]) {
    rows.push_back({fmt::format("{:.3f}", p["similarity"].get<double>()),
                    p["label"].is_string() ? p["label"].get<std::string>() : "-",
                    p["path"].get<std::string>()});
  }
  std::string text = text_table(std::move(rows));
  text += fmt::format("of {} photos that version {} has features of\n",
                      answer["searched"].get<int64_t>(), answer["version"].get<int64_t>());
  for (const auto& [store, why] : answer["not_searched"].items()) {
    text += "without those of " + store + ": " + why.get<std::string>() + "\n";
  }
  return text;
}

}  // namespace

void declare_photos_like(ArgsSpec& args) {
  args.positional("PHOTO",
                  "a file, or a photo of the collection: its SHA-256, or STORE/path as ndtrain "
                  "labels query shows it");
  args.flag("k,top-k", "how many", "N", std::to_string(kNeighbours));
  args.flag("task", "by the version in force of this classifier", "NAME",
            std::string(kDefaultTask));
  args.flag("collection", "of these photos", "NAME", std::string(kDefaultCollection));
  declare_http(args);
}

int run_photos_like(Context& context, const Args& args) {
  const std::string photo = args.required("PHOTO");
  const std::string asked =
      fmt::format("like?k={}&task={}&collection={}", integer_in(args, "top-k", 1, kMostNeighbours),
                  url_encoded(args.required("task")), url_encoded(args.required("collection")));
  const TunerClient tuner(args);
  const Result<FileInfo> file = context.fs().info(photo);
  const bool is_file = file.ok() && !file->is_directory;
  const Json answer = is_file ? tuner.post("/photos/" + asked,
                                           context.fs().read(photo, limits::kPhotoFile).or_throw())
                              : tuner.get("/photos/" + url_path(photo) + "/" + asked);
  context.print(answer, table_of(answer));
  return kOk;
}

}  // namespace ndtrain::cli
