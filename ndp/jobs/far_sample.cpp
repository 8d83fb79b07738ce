#include "ndp/jobs/far_sample.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/runtime/backend.h"
#include "ndp/engine/engine.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kListedAtOnce = 10'000;

// Photos that were chosen of another source.
class ChosenPhotos final : public PhotoSource {
 public:
  ChosenPhotos(PhotoSource& of, std::vector<PhotoRef> photos)
      : of_(of), photos_(std::move(photos)) {}

  Result<PhotoPage> list(const std::string& cursor, size_t) override {
    PhotoPage page;
    if (cursor.empty()) page.photos = photos_;
    return page;
  }
  Result<std::string> open(const std::string& path) override { return of_.open(path); }

 private:
  PhotoSource& of_;
  const std::vector<PhotoRef> photos_;
};

// In byte order of their paths.
std::vector<PhotoRef> chosen_of(PhotoSource& source, size_t n) {
  std::map<std::pair<uint64_t, std::string>, PhotoRef> chosen;
  for (std::string cursor;;) {
    PhotoPage page = source.list(cursor, kListedAtOnce).or_throw();
    for (PhotoRef& ref : page.photos) {
      if (!can_decode(format_of_extension(extension_of(ref.path)))) continue;
      const uint64_t hash = xxh3(ref.path.data(), ref.path.size());
      chosen.emplace(std::pair(hash, ref.path), std::move(ref));
      if (chosen.size() > n) chosen.erase(std::prev(chosen.end()));
    }
    if (page.next.empty()) break;
    cursor = page.next;
  }
  std::vector<PhotoRef> refs;
  for (auto& [key, ref] : chosen) refs.push_back(std::move(ref));
  std::ranges::sort(refs, {}, &PhotoRef::path);
  return refs;
}

}  // namespace

FarSample far_sample(PhotoSource& source, Catalogue& catalogue, const std::string& root, size_t n) {
  const std::vector<PhotoRef> refs = chosen_of(source, n);
  FarSample sample{.set = {.root = root}, .files = {}};
  if (refs.empty()) return sample;
  ChosenPhotos chosen(source, refs);
  ScanOptions options;
  options.far = true;
  for (const PhotoRef& ref : refs) options.places.push_back(ref.path);
  int64_t kept = 0;
  options.on_read = [&](std::vector<PhotoRead> part) {
    for (PhotoRead& p : part) {
      const auto bytes = static_cast<int64_t>(p.file.size());
      if (kept + bytes > FarSample::kBytes) continue;
      kept += bytes;
      sample.files.push_back(std::move(p));
    }
    return true;
  };
  (void)catalogue.scan(chosen, shared_threads(), options).or_throw();
  for (const PhotoRef& ref : refs) {
    const std::optional<CatalogueEntry> e = catalogue.find(ref.path).or_throw();
    if (e && e->state == PhotoState::kOk && e->digest) {
      sample.set.photos.push_back({ref.path, *e->digest, ref.size});
    }
  }
  return sample;
}

PhotoSample sample_of(const FarSample& far, const Preprocess& preprocess, Fs& fs) {
  PhotoSample sample{.source = far.set.root, .digests = {}, .labels = {}, .read = {}};
  std::map<std::string, const std::string*> files;
  for (const PhotoRead& p : far.files) files.emplace(p.entry.ref.path, &p.file);
  std::set<Digest> seen;
  std::vector<std::string> paths;
  for (const Photo& p : far.set.photos) {
    if (!seen.insert(p.digest).second) continue;
    sample.digests.push_back(p.digest);
    sample.labels.push_back(p.label);
    paths.push_back(p.path);
  }
  const FillInput fill = [&fs, root = far.set.root, files = std::move(files),
                          paths = std::move(paths), preprocess](size_t i, float* to) {
    PhotoCost cost;
    const auto kept = files.find(paths[i]);
    if (kept != files.end()) {
      return preprocess_photo(paths[i], *kept->second, preprocess, to, cost).ok();
    }
    const auto file = fs.read(join(root, paths[i]), limits::kPhotoFile);
    return file.ok() && preprocess_photo(paths[i], *file, preprocess, to, cost).ok();
  };
  sample.read = [fill, preprocess](auto photos, int64_t batch, const PhotoSample::Each& each) {
    for_each_batch(photos, batch, preprocess, fill, each);
  };
  return sample;
}

}  // namespace ndtrain::ndp
