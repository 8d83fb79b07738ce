#include <atomic>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "ndp/engine/engine.h"
#include "ndp/photos/photo_source.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_bench_decode(ArgsSpec& args) {
  args.positional("DIR", "photos");
  args.flag("photos", "how many of them, over and over", "N", "256");
  args.flag("img-size", "side of the crop", "N", "224");
  args.flag("resize", "shorter side before cropping", "N", "256");
  args.flag("fast-decode", "decode large JPEGs at a reduced size");
  args.flag("seconds", "run for at least so long", "S", "5");
  declare_threads(args);
}

int run_bench_decode(Context& context, const Args& args) {
  DirectorySource source(context.fs(), args.required("DIR"));
  const PhotoPage page = source.list("", static_cast<size_t>(args.integer("photos"))).or_throw();
  if (page.photos.empty()) throw Error(args.text("DIR"), ": there are no photos");
  std::vector<std::string> files;
  for (const PhotoRef& p : page.photos) files.push_back(source.open(p.path).or_throw());
  Preprocess preprocess{.img_size = static_cast<int>(args.integer("img-size")),
                        .resize = static_cast<int>(args.integer("resize")),
                        .fast_decode = args.on("fast-decode")};
  validate(preprocess);
  std::atomic<int64_t> bad = 0;
  const std::vector<double> times = timed(args.number("seconds"), [&] {
    bad = 0;
    shared_threads().parallel_for(
        static_cast<int64_t>(files.size()), 1, [&](int64_t begin, int64_t end) {
          std::vector<float> out(preprocess.values());
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            PhotoCost cost;
            bad +=
                !preprocess_photo(page.photos[i].path, files[i], preprocess, out.data(), cost).ok();
          }
        });
  });
  const double m = median(times);
  const auto n = static_cast<double>(files.size());
  const Json json = {{"median_ms", m * 1e3 / n},
                     {"images_per_s", n / m},
                     {"photos", files.size()},
                     {"unreadable", bad.load()},
                     {"threads", shared_threads().threads()}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
