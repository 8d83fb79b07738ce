// A model in a lower precision, accepted only after a comparison with f32 on the user's photos.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/graph/precision.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/photo_sample.h"
#include "ndp/jobs/precision_check.h"

namespace ndtrain::ndp {

struct PrecisionConfig {
  std::string precision = {};  // f32, bf16, int8 or auto; "": as the model declares
  double max_drop = 0.5;       // points of top-1
  int64_t photos = 256;        // compared; as many more as kCalibrationPhotos make scales
  std::string cache = {};      // where results of comparisons are kept; "": nowhere
};

inline constexpr size_t kCalibrationPhotos = 64;

// How many photos a sample has for scales and a comparison of `photos`.
inline size_t sample_size(int64_t photos) {
  return kCalibrationPhotos + static_cast<size_t>(photos);
}

// Times as fast as in f32 that this device computes in bf16, measured just now; 1 where it has no
// arithmetic of its own for that. And whether that is worth the precision.
double bf16_gain(const Device& device);
bool worth_bf16(double gain);

// Whether in_precision() looks at photos for this.
bool needs_photos(const Model& model, const std::string& precision);

// What `name` means on this device; `why` says so for auto. Throws Error when there is none.
Precision chosen_precision(const std::string& name, const Device& device, std::string& why);

// The classifier's input: what a transfer would keep of the model.
std::vector<std::string> features_of(const Model& model);

// `model` in `precision`, as far as `until` is computed ({}: all of it). int8: with scales measured
// on the first photos of the sample, and the most sensitive layers in f32 until `accepts` does, as
// far as QuantizeOptions goes; a model that has scales keeps them. Throws Error.
Model lowered(const Model& model, Precision precision, const std::vector<std::string>& until,
              const PhotoSample& sample, const Device& device, Progress& progress,
              const std::function<bool(const Model&)>& accepts = {});

// Both over the same photos, at most `photos`; `features` are values that both have. Labels count
// where the sample has them.
PrecisionCheck compare_precision(const Model& f32, const Model& low,
                                 const std::vector<std::string>& features,
                                 const PhotoSample& sample, int64_t photos, const Device& device,
                                 Progress& progress);

// What a job does before it begins: `file` in the precision asked for, or in the one it declares,
// compared with f32 unless the cache knows what that finds: of this model and precision, the same
// photos and labels, on a device of the same numerics. Says what was found. Where that refuses
// int8, its most sensitive layers become f32 again, one by one, each with a word. Throws Error when
// the drop stays beyond what is allowed. Interrupted, it has compared nothing.
ModelFile in_precision(const ModelFile& file, const PrecisionConfig& config,
                       const PhotoSample& sample, const Device& device, Fs& fs, Progress& progress);
// The same with a sample of `set`.
ModelFile in_precision(const ModelFile& file, const PrecisionConfig& config, const PhotoSet& set,
                       const Device& device, Fs& fs, Progress& progress);

}  // namespace ndtrain::ndp
