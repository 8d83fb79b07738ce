// Photos of a directory that are almost the same.
#include <fmt/format.h>

#include "cli/embedding_args.h"
#include "cli/number_args.h"
#include "cli/photo_args.h"
#include "framework/core/csv.h"
#include "framework/core/log.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/photo_duplicates.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

using Groups = std::vector<std::vector<AlikePhoto>>;

void print(Context& context, const PhotoSet& set, const Groups& groups) {
  std::string csv = csv_row({"group", "path", "bits", "similarity"});
  Json json = {{"photos", set.photos.size()}, {"groups", Json::array()}};
  for (size_t g = 0; g < groups.size(); ++g) {
    Json& group = json["groups"].emplace_back(Json::array());
    for (const AlikePhoto& p : groups[g]) {
      const std::string& path = set.photos[p.photo].path;
      csv += csv_row({std::to_string(g + 1), path, std::to_string(p.bits),
                      p.similarity ? fmt::format("{:.4f}", *p.similarity) : ""});
      group.push_back({{"path", path},
                       {"bits", p.bits},
                       {"similarity", p.similarity ? Json(*p.similarity) : Json()}});
    }
  }
  context.print(json, csv);
}

float similarity_of(const Args& args) {
  if (!args.has("similarity")) return kAlikeCosine;
  if (!args.has("model")) {
    throw UsageError("--similarity is of features: say by which model, with -m");
  }
  const double similarity = args.number("similarity");
  if (similarity >= -1 && similarity <= 1) return static_cast<float>(similarity);
  throw UsageError("--similarity " + args.text("similarity") + ": a cosine is -1 to 1");
}

}  // namespace

void declare_photos_duplicates(ArgsSpec& args) {
  declare_embedded_photos(args,
                          "a run directory or an ONNX file: photos also have to be alike by its "
                          "features, and may differ in more bits then");
  args.flag("bits",
            fmt::format("of 64 of a perceptual hash (dHash), in how many two may differ (default: "
                        "{}, with -m {})",
                        kAlikeBits, kAlikeBitsOfMany),
            "N");
  args.flag("similarity",
            fmt::format("the cosine of their features, with -m (default: {:g})", kAlikeCosine),
            "X");
}

int run_photos_duplicates(Context& context, const Args& args) {
  const float similarity = similarity_of(args);
  const int bits = args.has("bits")    ? static_cast<int>(integer_in(args, "bits", 0, 64))
                   : args.has("model") ? kAlikeBitsOfMany
                                       : kAlikeBits;
  std::optional<ModelFile> model;
  if (args.has("model")) model = load_model(context.fs(), args.text("model"));
  const PhotoSet set = photos_to_compare(context, args);
  const PhotoHashes hashes =
      hash_looks(set, cache_directory(args), context.fs(), context.clock(), context.progress());
  std::optional<PhotoEmbeddings> seen;
  if (model && !hashes.interrupted) seen = embeddings_of(context, args, set, *model);
  if (hashes.interrupted || (seen && seen->interrupted)) {
    log::warn("stopped; the same command goes on");
    return kInterrupted;
  }
  const Groups groups =
      duplicate_groups(set, hashes, bits, shared_threads(), seen ? &*seen : nullptr, similarity);
  size_t alike = 0;
  for (const auto& group : groups) alike += group.size();
  context.progress().say(fmt::format("{} of {} photos are in {} groups that are almost the same",
                                     alike, set.photos.size(), groups.size()));
  print(context, set, groups);
  return report_quarantine(hashes.quarantined);
}

}  // namespace ndtrain::cli
