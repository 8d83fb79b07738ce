#include "cli/suggest.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

namespace ndtrain::cli {
namespace {

// Levenshtein's, one row at a time.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

struct Synonym {
  std::string_view theirs, ours;
};

// As PyTorch's examples, timm, Keras, Ultralytics and common Unix programs have them.
constexpr Synonym kSynonyms[] = {{"learning-rate", "lr"},
                                 {"lr0", "lr"},
                                 {"epoch", "epochs"},
                                 {"num-epochs", "epochs"},
                                 {"batch-size", "batch"},
                                 {"bs", "batch"},
                                 {"optimizer", "opt"},
                                 {"optim", "opt"},
                                 {"scheduler", "sched"},
                                 {"lr-scheduler", "sched"},
                                 {"lr-schedule", "sched"},
                                 {"warmup-epochs", "warmup"},
                                 {"wd", "weight-decay"},
                                 {"decay", "weight-decay"},
                                 {"smoothing", "label-smoothing"},
                                 {"clip-grad", "clip-norm"},
                                 {"max-grad-norm", "clip-norm"},
                                 {"model-ema", "ema"},
                                 {"layerwise-decay", "layer-decay"},
                                 {"llrd", "layer-decay"},
                                 {"lr-mult", "lr-of"},
                                 {"mixup", "augment"},
                                 {"cutmix", "augment"},
                                 {"model-ema-decay", "ema"},
                                 {"grad-accum-steps", "accumulate"},
                                 {"gradient-accumulation-steps", "accumulate"},
                                 {"amp", "compute"},
                                 {"dtype", "compute"},
                                 {"dtype", "precision"},
                                 {"half", "precision"},
                                 {"imgsz", "img-size"},
                                 {"image-size", "img-size"},
                                 {"input-size", "img-size"},
                                 {"val-ratio", "val-split"},
                                 {"validation-split", "val-split"},
                                 {"early-stopping", "patience"},
                                 {"workers", "threads"},
                                 {"num-workers", "threads"},
                                 {"jobs", "threads"},
                                 {"gpu", "device"},
                                 {"backend", "device"},
                                 {"output", "out"},
                                 {"output-dir", "out"},
                                 {"save-dir", "out"},
                                 {"project", "out"},
                                 {"weights", "model"},
                                 {"checkpoint", "model"},
                                 {"checkpoint", "resume"},
                                 {"world-size", "ranks"},
                                 {"nproc-per-node", "ranks"},
                                 {"master-addr", "rendezvous"},
                                 {"rdzv-endpoint", "rendezvous"},
                                 {"num-classes", "classes"},
                                 {"database", "db"},
                                 {"host", "http"},
                                 {"url", "http"},
                                 {"silent", "quiet"},
                                 {"num-steps", "steps"},
                                 {"limit", "n"}};

}  // namespace

std::string nearest_flag(std::string_view word, std::span<const std::string> flags) {
  std::string name(word);
  std::ranges::replace(name, '_', '-');
  const auto has = [&](std::string_view flag) { return std::ranges::count(flags, flag) > 0; };
  if (has(name)) return name;
  for (const Synonym& s : kSynonyms) {
    if (s.theirs == name && has(s.ours)) return std::string(s.ours);
  }
  if (std::string near = nearest(name, flags); !near.empty()) return near;
  std::string part;
  if (name.size() < 4) return part;
  for (const std::string& flag : flags) {
    if (flag.find(name) == std::string::npos) continue;
    if (!part.empty()) return "";
    part = flag;
  }
  return part;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& c : candidates) {
    const size_t d = distance(word, c);
    if (d < least) {
      least = d;
      best = c;
    }
  }
  return best;
}

}  // namespace ndtrain::cli
