#include "cli/profile_file.h"

#include "framework/core/publish.h"
#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/profile_tables.h"

namespace ndtrain::cli {

void write_profile(Fs& fs, const std::string& file, const ModelProfile& profile) {
  const std::string kind = extension_of(file);
  publish(fs, file,
          kind == ".dot"    ? dot_text(profile)
          : kind == ".csv"  ? csv_text(profile)
          : kind == ".json" ? to_json(profile)
                            : graph_text(profile))
      .or_throw();
}

}  // namespace ndtrain::cli
