// A whole model over photos: the classes and probabilities of each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "ndp/engine/crops.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::ndp {

struct ClassScore {
  int64_t id;
  float score;  // softmax probability
};

// The k best of one photo's logits.
std::vector<ClassScore> best_classes(std::span<const float> logits, int64_t k);

struct Classification {
  size_t photo;                   // in the PhotoSet
  std::vector<ClassScore> top;    // best first; equal scores in the order of their ids
  float true_probability = 0;     // of the photo's label; 0 without one
  int64_t better_than_label = 0;  // classes that score higher than the label
};

struct ClassifyOptions {
  int64_t k = 5;
  int64_t batch = 32;
  CropCache* crops = nullptr;  // where crops are kept, if they are
};

// Called batch by batch on the caller's thread; returning false stops.
using OnClassified =
    std::function<bool(std::span<const Classification>, std::span<const BadPhoto>)>;

// Photos whose files are there already: a part of those of a source that is read meanwhile.
struct PhotoPart {
  PhotoSet set;
  std::vector<std::string> files;  // of all of the set
  std::vector<size_t> photos;      // in the set: those to be run
  std::vector<int64_t> ids;        // the caller's, of all of the set
};

// The next part; null: that was all. Called on another thread; it may wait until `stop` is
// requested.
using NextPart = std::function<std::unique_ptr<PhotoPart>(const std::stop_token& stop)>;
// As OnClassified, of photos of one part.
using OnPartClassified = std::function<bool(const PhotoPart&, std::span<const Classification>,
                                            std::span<const BadPhoto>)>;

// Keeps its plans from call to call. A photo of S3 that is bad by kUnavailable may be there later.
class Classifier {
 public:
  // All outlives it.
  Classifier(const ModelFile& model, const Device& device, Fs& fs, const ClassifyOptions& options);

  // Runs `photos` (indices into `set`). Bad photos are reported, and never stop the run.
  EngineStats run(const PhotoSet& set, std::span<const size_t> photos,
                  const OnClassified& on_classified);
  // The same of all parts, one behind the other: the next one is decoded while the last photos of
  // the one before are computed with.
  EngineStats run(const NextPart& next, const OnPartClassified& on_classified);

 private:
  EngineStats run(const PhotoSet& set, std::span<const size_t> photos, const Engine::Open& open,
                  const OnClassified& on_classified);
  bool has_crop(const Photo& photo) const;

  Fs& fs_;
  const ClassifyOptions options_;
  BatchPlans plans_;
  Engine engine_;
};

// One run of one.
EngineStats classify(const ModelFile& model, const Device& device, Fs& fs, const PhotoSet& set,
                     std::span<const size_t> photos, const ClassifyOptions& options,
                     const OnClassified& on_classified);

}  // namespace ndtrain::ndp
