#include "ndp/jobs/classify.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <mutex>
#include <numeric>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/passes/inference.h"
#include "framework/train/step_graph.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/read_ahead.h"

namespace ndtrain::ndp {
namespace {

std::vector<float> softmax(std::span<const float> logits) {
  const float top = *std::ranges::max_element(logits);
  std::vector<float> p(logits.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] = std::exp(logits[i] - top);
  for (float& x : p) x = static_cast<float>(x / sum);
  return p;
}

std::vector<ClassScore> best_of(std::span<const float> logits, const std::vector<float>& p,
                                int64_t k) {
  std::vector<int64_t> order(p.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto n = std::min<std::ptrdiff_t>(k, static_cast<std::ptrdiff_t>(p.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<ClassScore> best;
  for (std::ptrdiff_t i = 0; i < n; ++i)
    best.push_back({order[i], p[static_cast<size_t>(order[i])]});
  return best;
}

Classification classification(std::span<const float> logits, size_t photo, int64_t label,
                              int64_t k) {
  const std::vector<float> p = softmax(logits);
  Classification c{.photo = photo, .top = best_of(logits, p, k)};
  if (label >= 0) {
    if (label >= static_cast<int64_t>(p.size())) {
      throw Error("label ", label, " but the model has ", p.size(), " classes");
    }
    const float score = logits[static_cast<size_t>(label)];
    c.true_probability = p[static_cast<size_t>(label)];
    c.better_than_label = std::ranges::count_if(logits, [&](float x) { return x > score; });
  }
  return c;
}

std::vector<Classification> classifications(const Engine::Batch& batch, int64_t k,
                                            const std::function<int64_t(size_t)>& label_of) {
  std::vector<Classification> results;
  for (size_t row = 0; row < batch.items.size(); ++row) {
    const Tensor& logits = batch.outputs[0];
    const auto classes = static_cast<size_t>(logits.shape()[1]);
    const size_t photo = batch.items[row];
    results.push_back(classification(logits.as<float>().subspan(row * classes, classes), photo,
                                     label_of(photo), k));
  }
  return results;
}

// Those whose photos are in the engine, which knows the photos of all parts by one number: the
// first of a part's is behind the last one's of the part before. Thread-safe.
class PartsUnderWay {
 public:
  struct Place {
    PhotoPart* part = nullptr;
    size_t photo = 0;  // in its set
  };

  explicit PartsUnderWay(const NextPart& next) : next_(next) {}

  // As Engine::Next: all of one part.
  std::vector<size_t> take(size_t most, const std::stop_token& stop) {
    while (!last_ || taken_ == last_->photos.size()) {
      std::unique_ptr<PhotoPart> part = next_(stop);
      if (!part) return {};
      const std::lock_guard lock(mutex_);
      if (last_) begin_ += last_->set.photos.size();
      last_ = part.get();
      taken_ = 0;
      parts_.push_back({begin_, std::move(part)});
    }
    const size_t n = std::min(most, last_->photos.size() - taken_);
    std::vector<size_t> items;
    for (size_t i = 0; i < n; ++i) items.push_back(begin_ + last_->photos[taken_ + i]);
    taken_ += n;
    return items;
  }

  Place at(size_t item) {
    const std::lock_guard lock(mutex_);
    const auto behind = std::ranges::upper_bound(parts_, item, {}, &Numbered::begin);
    const Numbered& found = *std::prev(behind);
    return {found.part.get(), item - found.begin};
  }

  // Of those before, all have come out.
  void let_go_before(const PhotoPart* part) {
    const std::lock_guard lock(mutex_);
    while (parts_.front().part.get() != part) parts_.pop_front();
  }

 private:
  struct Numbered {
    size_t begin;
    std::unique_ptr<PhotoPart> part;
  };

  const NextPart& next_;
  PhotoPart* last_ = nullptr;     // the loading thread's, as are
  size_t begin_ = 0, taken_ = 0;  // the number of its first photo; how many are in the engine
  std::mutex mutex_;              // of what follows
  std::deque<Numbered> parts_;
};

}  // namespace

std::vector<ClassScore> best_classes(std::span<const float> logits, int64_t k) {
  return best_of(logits, softmax(logits), k);
}

Classifier::Classifier(const ModelFile& model, const Device& device, Fs& fs,
                       const ClassifyOptions& options)
    : fs_(fs),
      options_(options),
      plans_([&](int64_t batch) { return inference_graph(model.model, batch, with_plain_logits); },
             device, options.batch),
      engine_(plans_, model.preprocess, {.batch = options.batch}) {}

EngineStats Classifier::run(const PhotoSet& set, std::span<const size_t> photos,
                            const OnClassified& on_classified) {
  const Engine::Open open = [&](size_t i) {
    return fs_.read(join(set.root, set.photos[i].path), limits::kPhotoFile);
  };
  if (!is_object_url(set.root)) return run(set, photos, open, on_classified);
  // Hours may lie between a listing and the request for an object.
  const Engine::Open the_same = [&](size_t i) {
    Result<std::string> file = open(i);
    if (file.ok() && sha256(*file) != set.photos[i].digest) {
      return Result<std::string>(Status(
          Code::kIo, "another object was put there since it was listed; the next run labels that"));
    }
    return file;
  };
  std::vector<size_t> fetched;
  std::ranges::copy_if(photos, std::back_inserter(fetched),
                       [&](size_t i) { return !has_crop(set.photos[i]); });
  PhotoReadAhead ahead({.in_order = fetched, .open = the_same, .bytes = [&](size_t i) {
                          return set.photos[i].bytes;
                        }});
  return run(
      set, photos, [&](size_t i) { return ahead.take(i); }, on_classified);
}

EngineStats Classifier::run(const NextPart& next, const OnPartClassified& on_classified) {
  PartsUnderWay parts(next);
  const std::function<const Digest&(size_t)> digest = [&](size_t item) -> const Digest& {
    const auto [part, photo] = parts.at(item);
    return part->set.photos[photo].digest;
  };
  const Engine::Crops crops = options_.crops ? options_.crops->with(digest) : Engine::Crops();
  const auto classify_batch = [&](const Engine::Batch& batch) {
    const size_t any = batch.items.empty() ? batch.bad.front().item : batch.items.front();
    const auto [part, photo] = parts.at(any);
    const size_t first = any - photo;
    parts.let_go_before(part);
    std::vector<Classification> results =
        classifications(batch, options_.k,
                        [&, p = part](size_t item) { return p->set.photos[item - first].label; });
    for (Classification& c : results) c.photo -= first;
    std::vector<BadPhoto> bad(batch.bad.begin(), batch.bad.end());
    for (BadPhoto& b : bad) b.item -= first;
    return on_classified(*part, results, bad);
  };
  return engine_.run(
      [&](size_t most, const std::stop_token& stop) { return parts.take(most, stop); },
      [&](size_t item) {
        const auto [part, photo] = parts.at(item);
        return part->set.photos[photo].path;
      },
      [&](size_t item) -> Result<std::string> {
        const auto [part, photo] = parts.at(item);
        return std::move(part->files[photo]);
      },
      classify_batch, options_.crops ? &crops : nullptr);
}

bool Classifier::has_crop(const Photo& photo) const {
  return options_.crops && options_.crops->has(photo.digest);
}

EngineStats Classifier::run(const PhotoSet& set, std::span<const size_t> photos,
                            const Engine::Open& open, const OnClassified& on_classified) {
  const std::function<const Digest&(size_t)> digest = [&](size_t i) -> const Digest& {
    return set.photos[i].digest;
  };
  const Engine::Crops crops = options_.crops ? options_.crops->with(digest) : Engine::Crops();
  const auto classify_batch = [&](const Engine::Batch& batch) {
    const auto results =
        classifications(batch, options_.k, [&](size_t i) { return set.photos[i].label; });
    return on_classified(results, batch.bad);
  };
  return engine_.run(
      photos, [&](size_t i) { return set.photos[i].path; }, open, classify_batch,
      options_.crops ? &crops : nullptr);
}

EngineStats classify(const ModelFile& model, const Device& device, Fs& fs, const PhotoSet& set,
                     std::span<const size_t> photos, const ClassifyOptions& options,
                     const OnClassified& on_classified) {
  return Classifier(model, device, fs, options).run(set, photos, on_classified);
}

}  // namespace ndtrain::ndp
