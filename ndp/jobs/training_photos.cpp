#include "ndp/jobs/training_photos.h"

#include <algorithm>
#include <iterator>

namespace ndtrain {
namespace {

constexpr double kDefaultValSplit = 0.2;

PhotoSet hashed(Fs& fs, const std::string& cache, const LabelledPhotos& photos,
                Progress& progress) {
  return hash_photos(fs, *open_catalogue(fs, cache, photos.root), photos, progress);
}

void add_validation(TrainingPhotos& to, PhotoSet set) {
  for (Photo& p : set.photos) {
    to.set.photos.push_back(std::move(p));
    to.roots.push_back(set.root);
    to.for_validation.push_back(true);
  }
  std::ranges::move(set.quarantined, std::back_inserter(to.set.quarantined));
  for (const auto& [format, n] : set.skipped) to.set.skipped[format] += n;
}

}  // namespace

TrainingPhotos load_training_photos(Fs& fs, const TrainingPhotosConfig& config,
                                    Progress& progress) {
  const bool listed = !config.labels.empty();
  const DataLayout layout =
      listed ? DataLayout{.train = config.data} : find_layout(fs, config.data).or_throw();
  const bool own_val = config.val_split < 0 && !layout.val.empty();
  const LabelledPhotos train = listed ? read_labels_csv(fs, config.labels, config.data).or_throw()
                                      : read_image_folder(fs, layout.train).or_throw();
  TrainingPhotos result;
  result.set = hashed(fs, config.cache, train, progress);
  result.roots.assign(result.set.photos.size(), result.set.root);
  result.val_split = own_val ? 0 : config.val_split < 0 ? kDefaultValSplit : config.val_split;
  for (const Photo& p : result.set.photos) {
    result.for_validation.push_back(in_validation(p.digest, result.val_split));
  }
  if (own_val) {
    const LabelledPhotos val =
        with_classes(read_image_folder(fs, layout.val).or_throw(), result.set.classes).or_throw();
    add_validation(result, hashed(fs, config.cache, val, progress));
  }
  if (result.set.photos.empty()) throw Error(config.data, ": none of the photos can be read");
  return result;
}

}  // namespace ndtrain
