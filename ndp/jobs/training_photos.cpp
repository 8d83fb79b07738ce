#include "ndp/jobs/training_photos.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "framework/core/hash.h"

namespace ndtrain::ndp {
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
  to.set.unlabelled += set.unlabelled;
}

// Training photos, and those of an own directory for validation where there is one.
struct TwoSets {
  PhotoSet train;
  std::optional<PhotoSet> val;
};

TwoSets load_folders(Fs& fs, const TrainingPhotosConfig& config, const DataLayout& layout,
                     bool own_val, Progress& progress) {
  const LabelledPhotos train = config.labels.empty()
                                   ? read_image_folder(fs, layout.train).or_throw()
                                   : read_labels_csv(fs, config.labels, config.data).or_throw();
  TwoSets sets{.train = hashed(fs, config.cache, train, progress)};
  if (own_val) {
    const LabelledPhotos val =
        with_classes(read_image_folder(fs, layout.val).or_throw(), sets.train.classes).or_throw();
    sets.val = hashed(fs, config.cache, val, progress);
  }
  return sets;
}

void say_what_is_labelled(const DatabaseLabels& labels, const PhotoSet& set, Progress& progress) {
  progress.say(
      fmt::format("{}: labels of {} photos ({}) from the database; {} have none that counts",
                  set.root, set.photos.size(), labels.sources_of(set), set.unlabelled));
  std::vector<bool> seen(set.classes.size());
  for (const Photo& p : set.photos) seen[static_cast<size_t>(p.label)] = true;
  const auto lacking = std::ranges::count(seen, false);
  if (lacking == 0) return;
  const auto first = static_cast<size_t>(std::ranges::find(seen, false) - seen.begin());
  progress.say(fmt::format("{} of the task's {} classes have no photo in {}, such as {}", lacking,
                           seen.size(), set.root, set.classes[first]));
}

TwoSets load_from_database(Fs& fs, const TrainingPhotosConfig& config, const DataLayout& layout,
                           bool own_val, Progress& progress) {
  const DatabaseLabels labels(config.database);
  auto load = [&](const std::string& root) {
    PhotoSet set = all_photos(fs, *open_catalogue(fs, config.cache, root), root, progress);
    labels.label(set);
    say_what_is_labelled(labels, set, progress);
    return set;
  };
  TwoSets sets{.train = load(layout.train)};
  if (own_val) sets.val = load(layout.val);
  return sets;
}

void say_what_there_is(const TrainingPhotos& photos, const std::string& data, bool own_val,
                       Progress& progress) {
  progress.say(describe_classes(data, photos.set));
  const auto val = std::ranges::count(photos.for_validation, true);
  progress.say(fmt::format(
      "{} photos to train on, {} to validate{}", std::ssize(photos.set.photos) - val, val,
      val == 0  ? ": there will be no accuracy, and the last epoch is kept"
      : own_val ? ""
                : fmt::format(", a share of {:g} by their content", photos.val_split)));
}

}  // namespace

TrainingPhotos load_training_photos(Fs& fs, const TrainingPhotosConfig& config,
                                    Progress& progress) {
  const DataLayout layout = config.labels.empty() ? find_layout(fs, config.data).or_throw()
                                                  : DataLayout{.train = config.data};
  const bool own_val = config.val_split < 0 && !layout.val.empty();
  TwoSets sets = config.database.url.empty()
                     ? load_folders(fs, config, layout, own_val, progress)
                     : load_from_database(fs, config, layout, own_val, progress);
  TrainingPhotos result;
  result.set = std::move(sets.train);
  result.roots.assign(result.set.photos.size(), result.set.root);
  result.val_split = own_val ? 0 : config.val_split < 0 ? kDefaultValSplit : config.val_split;
  for (const Photo& p : result.set.photos) {
    result.for_validation.push_back(in_validation(p.digest, result.val_split));
  }
  if (sets.val) add_validation(result, std::move(*sets.val));
  if (result.set.photos.empty()) throw Error(config.data, ": none of the photos can be read");
  say_what_there_is(result, config.data, own_val, progress);
  return result;
}

std::string digest_of(const TrainingPhotos& photos) {
  Sha256 hash;
  for (const std::string& name : photos.set.classes) hash.field(name);
  for (size_t i = 0; i < photos.set.photos.size(); ++i) {
    hash.field(to_hex(photos.set.photos[i].digest)).field(int64_t{photos.for_validation[i]});
    hash.field(int64_t{photos.set.photos[i].label});
  }
  return to_hex(hash.finish());
}

}  // namespace ndtrain::ndp
