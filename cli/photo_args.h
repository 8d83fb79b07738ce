// How verbs are told which photos, with which labels.
#pragma once

#include "cli/args.h"
#include "cli/context.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::cli {

// Labelled photos of --data DIR: with --labels a CSV, else DIR/val or DIR as class directories.
// Labels are counted in the model's class names when it has some.
PhotoSet labelled_photos(Context& context, const Args& args, const ModelFile& model);

// Prints what was quarantined, on stderr, and gives the exit code for it.
int report_quarantine(const std::vector<QuarantinedPhoto>& photos);

}  // namespace ndtrain::cli
