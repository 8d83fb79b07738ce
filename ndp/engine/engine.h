// The engine runs photos through an extractor: load | decode and preprocess | infer, each stage on
// its own thread over a ring of buffers with ownership hand-off, so that disk and processor stay
// busy. A device with memory of its own gets one batch copied while it computes another, out of
// buffers that are pinned for that. Decoding and inference share the process's thread pool. Photos
// whose crops were kept are not read or decoded again.
#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "framework/runtime/batch_plans.h"
#include "ndp/engine/batch_growth.h"
#include "ndp/engine/ring_levels.h"
#include "ndp/photos/photo_decoder.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::ndp {

struct EngineOptions {
  // The most photos at a time. On a deterministic device as many; else as many as are worth it, by
  // measurement (batch_growth.h). No feature depends on it.
  int64_t batch = 32;
  // Buffers of one batch each; at least 3 keep all three stages busy. A device with memory of its
  // own has one more.
  int ring = 3;
  RingLevels* levels = nullptr;  // is told how full its queues are; null: nobody asks
  // What the network sees of a photo's file, and what it took; without, its centre: crop_photo().
  // Called on the threads that decode.
  using Crop = std::function<Result<Image>(size_t item, const std::string& name,
                                           std::string_view file, PhotoCost& cost)>;
  Crop crop = {};
  PhotoDecoder* decoder = nullptr;  // of all photos where there is no `crop`; null: this process
};

struct EngineStats {
  int64_t photos = 0;       // that came out
  int64_t quarantined = 0;  // corrupt, cut short, too large, or not what the name says
  int64_t skipped = 0;      // whole, but in a format we do not read
  int64_t warnings = 0;     // harmless decoder warnings
  int64_t bytes = 0;        // of photo files read
  int64_t crops = 0;        // photos that came from kept crops
  double load_s = 0, preprocess_s = 0, infer_s = 0;  // busy time of each stage
  // What the second stage's threads spent on its steps, added up.
  double decode_s = 0, resize_s = 0, normalise_s = 0;
  double wall_s = 0;
  int64_t batch = 0;  // that was reached
};

// A photo that did not come out, and why. kUnsupported: skipped; anything else: quarantined.
struct BadPhoto {
  size_t item;
  Status reason;
};

class Engine {
 public:
  using Crop = EngineOptions::Crop;
  // Reads photo number `item`; called on the loading thread, and on those that decode where a kept
  // crop turns out to be no good.
  using Open = std::function<Result<std::string>(size_t item)>;
  // Crops (ndp/engine/crops.h) that are kept from run to run.
  struct Crops {
    // Called on the loading thread: puts the crop of `item` into `crop`, which has its size, or
    // into `packed` what unpack_crop() makes it of. False: there is none.
    std::function<bool(size_t item, Image& crop, std::vector<std::byte>& packed)> find;
    // Called on the threads that decode, for each photo that was decoded.
    std::function<void(size_t item, const Image& crop)> keep;
  };
  // Called on the caller's thread, batches in order. `items` are the photos that came out,
  // `outputs` the extractor's outputs with one row each (empty when none came out). Returning
  // false stops the run.
  struct Batch {
    std::span<const size_t> items;
    const std::vector<Tensor>& outputs;
    std::span<const BadPhoto> bad;
  };
  using OnBatch = std::function<bool(const Batch&)>;
  // The next items of a run, at most `most`; none: those were all. Called on the loading thread; it
  // may wait for them, until `stop` is requested.
  using Next = std::function<std::vector<size_t>(size_t most, const std::stop_token& stop)>;

  // `extractor` takes one input [n, 3, s, s] or, for NHWC, [n, s, s, 3].
  Engine(BatchPlans& extractor, Preprocess preprocess, EngineOptions options = {});

  // Runs `items`; `name(item)` is the file's name, against which its content is checked. Throws
  // what a stage throws; bad photos are reported and never stop the run.
  EngineStats run(std::span<const size_t> items, const std::function<std::string(size_t)>& name,
                  const Open& open, const OnBatch& on_batch, const Crops* crops = nullptr);
  // The same of items that are known bit by bit.
  EngineStats run(const Next& next, const std::function<std::string(size_t)>& name,
                  const Open& open, const OnBatch& on_batch, const Crops* crops = nullptr);

 private:
  BatchPlans& extractor_;
  Preprocess preprocess_;
  EngineOptions options_;
  BatchGrowth growth_;
};

}  // namespace ndtrain::ndp
