// Photos that a verb compares by what a model sees in them.
#pragma once

#include "cli/args.h"
#include "cli/context.h"
#include "cli/verb.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/photo_embeddings.h"
#include "ndp/jobs/truth_rows.h"

namespace ndtrain::cli {
using namespace ndp;

// The argument PHOTOS, and the flags -m, --root, --cache, --memory-limit and those of
// computing_args.h.
void declare_embedded_photos(ArgsSpec& args, const std::string& model_help);

PhotoSet photos_to_compare(Context& context,
                           const Args& args);  // throws Error where there are none
PhotoEmbeddings embeddings_of(Context& context, const Args& args, const PhotoSet& set,
                              const ModelFile& model);
// The rows move.
KnownPhotos known_photos(PhotoEmbeddings& embeddings, const PhotoSet& set);

}  // namespace ndtrain::cli
