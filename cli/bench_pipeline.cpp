#include <fmt/format.h>

#include <ctime>
#include <numeric>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/photo_fs.h"
#include "cli/verb.h"
#include "framework/passes/inference.h"
#include "framework/train/step_graph.h"
#include "ndp/engine/engine.h"
#include "ndp/jobs/model_file.h"
#include "ndp/photos/photo_source.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Of all threads of this process.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double spent(const std::function<void()>& work) {
  const double before = cpu_seconds();
  work();
  return cpu_seconds() - before;
}

// Seconds of one processor for a photo, each stage alone on one thread.
struct Stages {
  double load_s = 0, preprocess_s = 0, infer_s = 0;
  PhotoCost preprocess = {};  // of all photos

  double sum() const { return load_s + preprocess_s + infer_s; }
};

class BenchPipeline {
 public:
  BenchPipeline(Context& context, const Args& args)
      : source_(context.fs(), args.required("DIR")),
        model_(load_model(context.fs(), args.required("model"))),
        plans_([this](int64_t n) { return inference_graph(model_.model, n, with_plain_logits); },
               context.device(), args.integer("batch")),
        engine_(plans_, model_.preprocess, {.batch = plans_.max_batch()}) {
    const auto wanted = static_cast<size_t>(args.integer("photos"));
    const PhotoPage page = source_.list("", wanted).or_throw();
    if (page.photos.empty()) throw Error(args.text("DIR"), ": there are no photos");
    for (size_t i = 0; i < wanted; ++i) {
      paths_.push_back(page.photos[i % page.photos.size()].path);
    }
  }

  double photos() const { return static_cast<double>(paths_.size()); }

  Stages stages(int64_t batch) {
    Stages s;
    std::vector<std::string> files;
    s.load_s = spent([&] {
      for (const std::string& p : paths_) files.push_back(source_.open(p).or_throw());
    });
    const size_t values = model_.preprocess.values();
    const int64_t side = model_.preprocess.img_size;
    Tensor input({DType::kF32, model_.preprocess.layout == Layout::kNchw
                                   ? Shape{batch, 3, side, side}
                                   : Shape{batch, side, side, 3}});
    float* const rows = input.mutable_as<float>().data();
    s.preprocess_s = spent([&] {
      for (size_t i = 0; i < files.size(); ++i) {
        const size_t row = i % static_cast<size_t>(batch);
        preprocess_photo(paths_[i], files[i], model_.preprocess, rows + row * values, s.preprocess)
            .or_throw();
      }
    });
    const int64_t batches = std::max<int64_t>(1, static_cast<int64_t>(photos()) / batch);
    s.infer_s = spent([&] {
      for (int64_t i = 0; i < batches; ++i) plans_.run({&input, 1});
    });
    s.load_s /= photos();
    s.preprocess_s /= photos();
    s.infer_s /= static_cast<double>(batches * batch);
    return s;
  }

  EngineStats together() {
    std::vector<size_t> all(paths_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return engine_.run(
        all, [&](size_t i) { return paths_[i]; }, [&](size_t i) { return source_.open(paths_[i]); },
        [](const Engine::Batch&) { return true; });
  }

 private:
  DirectorySource source_;
  const ModelFile model_;
  BatchPlans plans_;
  Engine engine_;
  std::vector<std::string> paths_;
};

}  // namespace

void declare_bench_pipeline(ArgsSpec& args) {
  args.positional("DIR", "photos, all of which can be read");
  args.flag("m,model", "a run directory or an ONNX file (required)", "FILE");
  args.flag("b,batch", "the most photos at a time", "N", "32");
  args.flag("photos", "how many, over and over where there are fewer", "N", "512");
  args.flag("rounds", "the stages alone and all together, in turn", "N", "3");
  declare_deterministic(args, /*features=*/false);
  declare_computing(args);
}

int run_bench_pipeline(Context& context, const Args& args) {
  refuse_object_stores({args.required("DIR")});
  const int threads = shared_threads().threads();
  BenchPipeline bench(context, args);
  bench.together();  // warms up, and finds the batch
  Json rounds = Json::array();
  std::vector<double> shares, rates;
  std::string text =
      fmt::format("{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}{:>11}{:>10}{:>7}\n", "load", "decode", "resize",
                  "normal.", "infer", "batch", "at best/s", "photos/s", "share");
  for (int64_t round = 0; round < args.integer("rounds"); ++round) {
    const EngineStats e = bench.together();
    set_threads(1);
    const Stages s = bench.stages(e.batch);
    set_threads(threads);
    const double best = threads / s.sum(), rate = static_cast<double>(e.photos) / e.wall_s;
    const auto ms = [&](double seconds) { return seconds * 1e3 / bench.photos(); };
    rates.push_back(rate);
    shares.push_back(rate / best);
    rounds.push_back({{"load_ms", s.load_s * 1e3},
                      {"decode_ms", ms(s.preprocess.decode_s)},
                      {"resize_ms", ms(s.preprocess.resize_s)},
                      {"normalise_ms", ms(s.preprocess.normalise_s)},
                      {"infer_ms", s.infer_s * 1e3},
                      {"batch", e.batch},
                      {"bound_images_per_s", best},
                      {"images_per_s", rate},
                      {"share", rate / best}});
    text += fmt::format("{:>9.3f}{:>9.3f}{:>9.3f}{:>9.3f}{:>9.3f}{:>7}{:>11.1f}{:>10.1f}{:>7.3f}\n",
                        s.load_s * 1e3, ms(s.preprocess.decode_s), ms(s.preprocess.resize_s),
                        ms(s.preprocess.normalise_s), s.infer_s * 1e3, e.batch, best, rate,
                        rate / best);
  }
  std::ranges::sort(shares);
  std::ranges::sort(rates);
  const Json json = {{"images_per_s", median(rates)},
                     {"share", median(shares)},
                     {"threads", threads},
                     {"rounds", rounds}};
  context.print(json, text + fmt::format("median: {:.1f} photos/s, {:.3f} of {} threads over the "
                                         "sum of the stages' processor time, each alone on one\n",
                                         median(rates), median(shares), threads));
  return kOk;
}

}  // namespace ndtrain::cli
