#include "cli/embedding_args.h"

#include "cli/computing_args.h"
#include "cli/photo_args.h"
#include "cli/photo_fs.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_embedded_photos(ArgsSpec& args, const std::string& model_help) {
  declare_photos(args);
  args.flag("m,model", model_help, "MODEL");
  args.flag("root",
            "paths are below it (default: below PHOTOS, where that is one directory; else as they "
            "are named)",
            "DIR");
  args.flag("cache",
            "where features and the list of the photos are kept (default: ~/.cache/ndtrain)",
            "DIR");
  args.flag("memory-limit",
            "features beyond this are streamed from disk, e.g. 4G (default: half of what is free)",
            "BYTES");
  declare_deterministic(args, /*features=*/true);
  declare_computing(args);
}

PhotoSet photos_to_compare(Context& context, const Args& args) {
  NamedPhotos named = named_photos(args);
  refuse_object_stores(named.names);
  named.root = args.text("root");
  PhotoSet set = read_named_photos(context.fs(), named, context.progress());
  if (set.photos.empty()) {
    (void)report_quarantine(set.quarantined);
    throw Error(named.names[0], ": there are no photos that can be read");
  }
  return set;
}

PhotoEmbeddings embeddings_of(Context& context, const Args& args, const PhotoSet& set,
                              const ModelFile& model) {
  context.progress().say(preprocess_note(model));
  return embed_photos(set, model,
                      {.cache = args.text("cache"),
                       .memory_limit = static_cast<int64_t>(args.bytes("memory-limit"))},
                      context.device(), context.fs(), context.clock(), context.progress());
}

KnownPhotos known_photos(PhotoEmbeddings& embeddings, const PhotoSet& set) {
  KnownPhotos known{.rows = std::move(embeddings.rows)};
  for (const size_t i : embeddings.photos) known.photos.push_back(set.photos[i].digest);
  return known;
}

}  // namespace ndtrain::cli
