#include "tuner/plan/measure_photos.h"

#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/runtime/backend.h"
#include "ndp/engine/engine.h"
#include "ndp/photos/encode.h"
#include "ndp/photos/photo_source.h"
#include "ndp/photos/verdict.h"
#include "tuner/plan/repeat.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kPage = 1000;
constexpr int kZstdLevel = 3;

// Smooth areas with some noise, as a photo has.
Image drawn(int side, double noise, const Rng& rng) {
  Image image(side, side);
  const double fx = 2 + 6 * rng.uniform(0), fy = 2 + 6 * rng.uniform(1);
  uint64_t at = 2;
  for (int y = 0; y < side; ++y) {
    uint8_t* row = image.row(y);
    for (int x = 0; x < side; ++x) {
      const double smooth = 128 + 60 * std::sin(fx * x / side) * std::cos(fy * y / side);
      for (int c = 0; c < 3; ++c) {
        const double v = smooth + 20 * c + noise * (rng.uniform(at++) - 0.5);
        *row++ = static_cast<uint8_t>(std::clamp(v, 0.0, 255.0));
      }
    }
  }
  return image;
}

// Calls body(i) for every photo on the shared threads; seconds of one core for each.
template <typename F>
double core_seconds(size_t n, Clock& clock, double budget, F body) {
  ThreadPool& threads = shared_threads();
  const double wall = median_seconds(clock, budget, [&] {
    threads.parallel_for(static_cast<int64_t>(n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
    });
  });
  return wall * threads.threads() / static_cast<double>(n);
}

std::string compressed(const Image& crop) {
  std::string out(ZSTD_compressBound(crop.rgb.size()), '\0');
  const size_t n =
      ZSTD_compress(out.data(), out.size(), crop.rgb.data(), crop.rgb.size(), kZstdLevel);
  if (ZSTD_isError(n) != 0) throw Error("zstd: ", ZSTD_getErrorName(n));
  out.resize(n);
  return out;
}

void drop_unreadable(TimedPhotos& sample, const Preprocess& preprocess) {
  std::vector<std::string> names, files;
  std::string why;
  std::vector<float> out(preprocess.values());
  for (size_t i = 0; i < sample.files.size(); ++i) {
    PhotoCost each;
    const Status s =
        preprocess_photo(sample.names[i], sample.files[i], preprocess, out.data(), each);
    if (!s.ok()) {
      why = sample.names[i] + ": " + s.message();
      continue;
    }
    names.push_back(sample.names[i]);
    files.push_back(std::move(sample.files[i]));
  }
  if (files.empty()) throw Error("plan: no photo of the sample can be read; ", why);
  sample.names = std::move(names);
  sample.files = std::move(files);
}

}  // namespace

TimedPhotos sample_photos(Fs& fs, const std::string& directory, size_t most) {
  DirectorySource source(fs, directory);
  std::vector<PhotoRef> all;
  std::string cursor;
  do {
    PhotoPage page = source.list(cursor, kPage).or_throw();
    for (PhotoRef& p : page.photos) {
      if (can_decode(format_of_extension(extension_of(p.path)))) all.push_back(std::move(p));
    }
    cursor = page.next;
  } while (!cursor.empty());
  if (all.empty()) throw Error(directory, ": there are no photos that can be read");

  TimedPhotos sample{.photos = static_cast<double>(all.size())};
  double bytes = 0;
  for (const PhotoRef& p : all) bytes += static_cast<double>(p.size);
  sample.mean_bytes = bytes / sample.photos;
  const size_t n = std::min(most, all.size());
  for (size_t i = 0; i < n; ++i) {
    const PhotoRef& p = all[i * all.size() / n];
    sample.names.push_back(p.path);
    sample.files.push_back(source.open(p.path).or_throw());
  }
  return sample;
}

TimedPhotos draw_photos(double bytes, size_t count, uint64_t seed) {
  constexpr double kBytesPerPixel = 0.5, kNoise = 40;
  TimedPhotos sample{.mean_bytes = bytes};
  const auto side_for = [](double pixels) {
    return static_cast<int>(std::clamp(std::sqrt(pixels), 16.0, 8000.0));
  };
  int side = side_for(bytes / kBytesPerPixel);
  const Rng rng(seed, "drawn photos");
  const auto first = static_cast<double>(encode_jpeg(drawn(side, kNoise, rng)).size());
  side = side_for(static_cast<double>(side) * side * bytes / first);
  for (size_t i = 0; i < count; ++i) {
    sample.names.push_back(std::to_string(i) + ".jpg");
    sample.files.push_back(encode_jpeg(drawn(side, kNoise, Rng(seed + i, "drawn photos"))));
  }
  return sample;
}

PhotoCosts measure_photos(TimedPhotos& sample, const Preprocess& preprocess, Clock& clock,
                          double budget_s) {
  drop_unreadable(sample, preprocess);
  const size_t n = sample.files.size();
  PhotoCosts cost{.bytes = sample.mean_bytes,
                  .crop_bytes = static_cast<double>(preprocess.values())};
  std::vector<std::vector<float>> inputs(n, std::vector<float>(preprocess.values()));
  cost.prepare_s = core_seconds(n, clock, budget_s, [&](size_t i) {
    PhotoCost each;
    preprocess_photo(sample.names[i], sample.files[i], preprocess, inputs[i].data(), each)
        .or_throw();
  });
  std::vector<Image> crops(n);
  cost.crop_s = core_seconds(n, clock, budget_s, [&](size_t i) {
    PhotoCost each;
    crops[i] = crop_photo(sample.names[i], sample.files[i], preprocess, each).or_throw();
  });
  cost.normalise_s = core_seconds(
      n, clock, budget_s, [&](size_t i) { normalize(crops[i], preprocess, inputs[i].data()); });
  std::vector<std::string> packed(n);
  cost.compress_s =
      core_seconds(n, clock, budget_s, [&](size_t i) { packed[i] = compressed(crops[i]); });
  for (const std::string& p : packed) {
    cost.compressed_crop_bytes += static_cast<double>(p.size()) / static_cast<double>(n);
  }
  std::vector<std::vector<uint8_t>> unpacked(n, std::vector<uint8_t>(preprocess.values()));
  cost.decompress_s = core_seconds(n, clock, budget_s, [&](size_t i) {
    ZSTD_decompress(unpacked[i].data(), unpacked[i].size(), packed[i].data(), packed[i].size());
  });
  return cost;
}

}  // namespace ndtrain::tuner
