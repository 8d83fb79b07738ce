// How verbs are told which photos, with which labels.
#pragma once

#include "cli/args.h"
#include "cli/context.h"
#include "ndp/jobs/database_labels.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/named_photos.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::cli {
using namespace ndp;

// The flags --labels, --db, --collection, --task and --pseudo: who says what the photos show.
void declare_label_flags(ArgsSpec& args);
// What they say of a database; its url is "" without --db. Throws UsageError when they contradict
// each other.
DatabaseLabelsConfig database_labels(const Args& args);

// Labelled photos of --data DIR: with --db a label database, with --labels a CSV, else DIR/val or
// DIR as class directories. Labels are counted in the model's class names when it has some.
PhotoSet labelled_photos(Context& context, const Args& args, const ModelFile& model);

// The argument PHOTOS, and what it names.
void declare_photos(ArgsSpec& args);
NamedPhotos named_photos(const Args& args);

// Of --cache, or where derived files live otherwise.
std::string cache_directory(const Args& args);

// Prints what was quarantined, on stderr, and gives the exit code for it.
int report_quarantine(const std::vector<QuarantinedPhoto>& photos);

}  // namespace ndtrain::cli
