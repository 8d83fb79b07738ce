#pragma once

#include <map>
#include <string>
#include <string_view>

#include "framework/core/publish.h"
#include "framework/train/loss_scale.h"
#include "framework/train/safetensors.h"

namespace ndtrain {

// All that a training needs to go on as if it had never stopped.
struct Checkpoint {
  // By parameter; `optimizer` by parameter and moment, "layer1.weight.m".
  std::map<std::string, Tensor> parameters, states, optimizer;
  bool in_buckets = false;  // `optimizer` is as format 1 has it: see checkpoint_1.h
  int64_t optimizer_steps = 0;
  int64_t epoch = 0, step = 0;  // the next epoch, and the next step inside it
  int64_t used = 0;             // rows by its steps, where these vary: RowOrder::used()
  // Sums over the steps of the unfinished epoch.
  double loss_sum = 0, correct = 0, correct_top5 = 0, rows = 0;
  LossScale loss_scale = {};
  double best_top1 = -1;
  int64_t best_epoch = -1;
  std::string config;  // what the training was asked for; resume demands the same
};

// A safetensors file of format 2, or 1 where it was read from such a one. kCorrupt where it is
// none.
std::string checkpoint_bytes(const Checkpoint& c);
Result<Checkpoint> parse_checkpoint(std::string_view bytes);

// The same as a file, published atomically.
Status save_checkpoint(Fs& fs, const std::string& path, const Checkpoint& c);
Result<Checkpoint> load_checkpoint(Fs& fs, const std::string& path);

}  // namespace ndtrain
