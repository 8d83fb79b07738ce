#include "cli/photo_args.h"

#include "cli/verb.h"
#include "framework/core/log.h"

namespace ndtrain::cli {
namespace {

std::string cache_directory(const Args& args) {
  return args.has("cache") ? args.text("cache") : default_cache_directory();
}

}  // namespace

PhotoSet labelled_photos(Context& context, const Args& args, const ModelFile& model) {
  const std::string data = args.required("data");
  LabelledPhotos photos;
  if (args.has("labels")) {
    photos = read_labels_csv(context.fs(), args.text("labels"), data).or_throw();
  } else {
    const DataLayout layout = find_layout(context.fs(), data).or_throw();
    photos =
        read_image_folder(context.fs(), layout.val.empty() ? layout.train : layout.val).or_throw();
  }
  if (!model.classes.empty()) photos = with_classes(std::move(photos), model.classes).or_throw();
  const auto catalogue = open_catalogue(context.fs(), cache_directory(args), photos.root);
  return hash_photos(context.fs(), *catalogue, photos, context.progress());
}

int report_quarantine(const std::vector<QuarantinedPhoto>& photos) {
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(photos.size(), kShown); ++i) {
    log::warn("quarantined {}: {}", photos[i].path, photos[i].reason);
  }
  if (photos.size() > kShown) log::warn("… and {} more", photos.size() - kShown);
  return photos.empty() ? kOk : kQuarantined;
}

}  // namespace ndtrain::cli
