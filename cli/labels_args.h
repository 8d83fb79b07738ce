// What the verbs of the label database share.
#pragma once

#include "cli/verb.h"
#include "ndp/labels/label_json.h"

namespace ndtrain::cli {
using namespace ndp;

struct OpenLabels {
  std::unique_ptr<LabelDb> db;
  int64_t collection, task;
};

void declare_database(ArgsSpec& args);
// A new task begins with the first label that somebody gives; to read, it must be there.
OpenLabels open_labels(const Args& args, bool to_read);

void declare_conditions(ArgsSpec& args);
LabelQuery query_of(const OpenLabels& o, const Args& args);

// Throws Error with what there is.
int64_t class_named(const OpenLabels& o, const std::string& name);
VersionInfo version_named(const OpenLabels& o, const std::string& name);  // see existing_version
int64_t photo_named(const OpenLabels& o, const std::string& path);

}  // namespace ndtrain::cli
