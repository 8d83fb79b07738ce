#include "ndp/jobs/evaluate_photos.h"

#include <algorithm>
#include <numeric>

namespace ndtrain::ndp {

PhotoEvaluation evaluate_photos(const ModelFile& model, const Device& device, Fs& fs,
                                const PhotoSet& set, int64_t batch, Progress& progress) {
  const int64_t classes = model.outputs();
  for (const Photo& p : set.photos) {
    if (p.label >= classes) {
      throw Error("the photos have ", set.classes.size(), " classes (", p.path, " is of class ",
                  p.label, ") but ", model.path, " tells ", classes, " apart");
    }
  }
  PhotoEvaluation e;
  e.confusion.resize(static_cast<size_t>(classes * classes));
  e.bad = set.quarantined;
  e.skipped = set.skipped_count();
  std::vector<size_t> all(set.photos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  int64_t top1 = 0, top5 = 0, done = 0;
  progress.begin("evaluating", static_cast<int64_t>(all.size()), "photos");
  e.engine = classify(model, device, fs, set, all, {.k = 1, .batch = batch},
                      [&](std::span<const Classification> results, std::span<const BadPhoto> bad) {
                        for (const Classification& c : results) {
                          const int64_t label = set.photos[c.photo].label;
                          top1 += c.top[0].id == label;
                          top5 += c.better_than_label < 5;
                          e.calibration.add(c.top[0].score, c.top[0].id == label);
                          ++e.confusion[static_cast<size_t>(label * classes + c.top[0].id)];
                        }
                        for (const BadPhoto& b : bad) {
                          if (b.reason.code() == Code::kUnsupported) {
                            ++e.skipped;
                          } else {
                            e.bad.push_back({set.photos[b.item].path, b.reason.message()});
                          }
                        }
                        done += static_cast<int64_t>(results.size() + bad.size());
                        progress.update(done);
                        return !progress.interrupted();
                      });
  progress.end();
  e.photos = e.engine.photos;
  e.quarantined = static_cast<int64_t>(e.bad.size());
  const double n = std::max<double>(1, static_cast<double>(e.photos));
  e.top1 = static_cast<double>(top1) / n;
  e.top5 = static_cast<double>(top5) / n;
  return e;
}

}  // namespace ndtrain::ndp
