// The file of `ndtrain tuner serve --watch`: TOML or JSON.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {

struct WatchRule {
  int64_t labels = 200;          // photos newly labelled by people, for a fine-tuning
  double score_drop = 0.1;       // of the mean top-1 score, from one window to the next
  double psi = 0.25;             // population stability index of the classes
  double window_s = 86'400;      // how long a window is
  int64_t window_photos = 100;   // windows of fewer photos say nothing
  double min_interval_s = 3600;  // from one fine-tuning to the next
  double every_s = 60;           // from one look at the labels to the next
  bool relabel = true;           // what is stale, when another version is in force
  int64_t missing = 0;           // photos without any label, for a relabelling of these; 0: never
  double missing_share = 0;      // likewise: of all photos; 0: never
  std::string model;  // to start from while none is in force: an ONNX file or a run directory
  JobSpec job;        // the fine-tuning; its model is the one in force. Promoted by rule
                      // unless it says otherwise

  bool counts_missing() const { return missing > 0 || missing_share > 0; }
  std::string text() const;  // JSON
};

// Throws Error naming the key.
WatchRule parse_watch_rule(std::string_view json);
// A file of either format, told by its name. Throws Error naming the file.
WatchRule load_watch_rule(Fs& fs, const std::string& path);

}  // namespace ndtrain::tuner
