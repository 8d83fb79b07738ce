#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/photo_fs.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "ndp/engine/engine.h"
#include "ndp/photos/photo_source.h"
#include "ndp/sandbox/decoder_pool.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Photos in memory, decoded over and over.
class DecodedPhotos {
 public:
  DecodedPhotos(PhotoSource& source, size_t most, const Preprocess& preprocess)
      : page_(source.list("", most).or_throw()), preprocess_(preprocess) {
    for (const PhotoRef& p : page_.photos) files_.push_back(source.open(p.path).or_throw());
  }

  size_t size() const { return files_.size(); }
  // How many could not be read.
  int64_t decode(PhotoDecoder& decoder) const {
    std::atomic<int64_t> bad = 0;
    shared_threads().parallel_for(
        static_cast<int64_t>(files_.size()), 1, [&](int64_t begin, int64_t end) {
          std::vector<float> out(preprocess_.values());
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            PhotoCost cost;
            bad += !preprocess_photo(page_.photos[i].path, files_[i], preprocess_, out.data(), cost,
                                     decoder)
                        .ok();
          }
        });
    return bad;
  }

 private:
  const PhotoPage page_;
  const Preprocess preprocess_;
  std::vector<std::string> files_;
};

double seconds_of(const DecodedPhotos& photos, PhotoDecoder& decoder) {
  const auto start = std::chrono::steady_clock::now();
  photos.decode(decoder);
  return seconds_since(start);
}

// Both ways by turns, so that what else the machine does slows both: the sandbox's rate, and its
// share of the rate without.
Json in_turns(const DecodedPhotos& photos, double seconds) {
  DecoderPool pool({.workers = static_cast<size_t>(shared_threads().threads())});
  std::vector<double> without, within, ratios;
  timed(seconds, [&] {
    without.push_back(seconds_of(photos, decoder_in_process()));
    within.push_back(seconds_of(photos, pool));
    ratios.push_back(without.back() / within.back());
  });
  for (std::vector<double>* v : {&without, &within, &ratios}) std::ranges::sort(*v);
  const auto n = static_cast<double>(photos.size());
  return {{"images_per_s", n / median(within)},
          {"images_per_s_without", n / median(without)},
          {"ratio", median(ratios)},
          {"rounds", ratios.size()},
          {"held_by", pool.held_by()},
          {"missing", pool.missing()}};
}

}  // namespace

void declare_bench_decode(ArgsSpec& args) {
  args.positional("DIR", "photos");
  args.flag("photos", "how many of them, over and over", "N", "256");
  args.flag("img-size", "side of the crop", "N", "224");
  args.flag("resize", "shorter side before cropping", "N", "256");
  args.flag("fast-decode", "decode large JPEGs at a reduced size");
  args.flag(
      "sandbox",
      "in turns with processes of their own, as `ndtrain pipestore serve --sandbox` has them");
  args.flag("seconds", "run for at least so long", "S", "5");
  declare_threads(args);
}

int run_bench_decode(Context& context, const Args& args) {
  refuse_object_stores({args.required("DIR")});
  DirectorySource source(context.fs(), args.required("DIR"));
  Preprocess preprocess{.img_size = static_cast<int>(args.integer("img-size")),
                        .resize = static_cast<int>(args.integer("resize")),
                        .fast_decode = args.on("fast-decode")};
  validate(preprocess);
  const DecodedPhotos photos(source, static_cast<size_t>(args.integer("photos")), preprocess);
  if (photos.size() == 0) throw Error(args.text("DIR"), ": there are no photos");
  int64_t bad = 0;
  const double m =
      median(timed(args.number("seconds"), [&] { bad = photos.decode(decoder_in_process()); }));
  const auto n = static_cast<double>(photos.size());
  Json json = {{"median_ms", m * 1e3 / n},
               {"images_per_s", n / m},
               {"photos", photos.size()},
               {"unreadable", bad},
               {"threads", shared_threads().threads()}};
  if (args.on("sandbox")) json["sandbox"] = in_turns(photos, args.number("seconds"));
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
