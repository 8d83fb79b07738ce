#include <fmt/format.h>

#include "cli/demo_photos.h"
#include "cli/verb.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "models/zoo.h"
#include "ndp/jobs/evaluate_photos.h"
#include "ndp/jobs/finetune.h"
#include "ndp/jobs/relabel.h"
#include "ndp/photos/encode.h"

namespace ndtrain::cli {
namespace {

constexpr int kDayTrain = 80, kDayVal = 20, kDuskTrain = 30, kDuskVal = 20;  // photos per class
constexpr int kImgSize = 48;

// The whole story in one directory: what a newcomer should see, with every figure measured.
class Demo {
 public:
  Demo(Context& context, std::string directory)
      : context_(context), directory_(std::move(directory)) {}

  Json run() {
    const auto start = context_.clock().monotonic();
    context_.fs().make_directories(directory_).or_throw();
    const int64_t photos = draw("day", Look::kDay, kDayTrain, kDayVal, 1) +
                           draw("dusk", Look::kDusk, kDuskTrain, kDuskVal, 2);
    say(fmt::format("1. drew {} photos of {} shapes, by day and at dusk, under {}", photos,
                    demo_classes().size(), directory_));

    const FinetuneResult base = train_base();
    say(fmt::format("2. trained a small network on the photos of the day: top-1 {:.3f} by day",
                    base.top1));
    const double before = accuracy(base.model, "dusk");
    say(fmt::format("3. the same network at dusk: top-1 {:.3f}: the look has changed", before));

    const FinetuneResult first = finetune_head("dusk-head");
    say(fmt::format("4. fine-tuned its head at dusk ({} photos decoded and inferred): top-1 {:.3f}",
                    first.extraction.extracted, first.top1));
    const FinetuneResult second = finetune_head("dusk-head-again");
    say(fmt::format(
        "5. fine-tuned it again: {} photos decoded, {} features from the cache, {:.2f} s instead "
        "of {:.2f} s",
        second.extraction.extracted, second.extraction.cached, second.extract_s, first.extract_s));

    const RelabelResult labels = relabel_all(first.model);
    say(fmt::format("6. relabelled {} photos into {}", labels.labelled,
                    join(directory_, "labels.db")));
    const double seconds =
        std::chrono::duration<double>(context_.clock().monotonic() - start).count();
    say(fmt::format("\nReport: {}", join(directory_, "runs/dusk-head/report.html")));
    return {{"photos", photos},
            {"day_top1", base.top1},
            {"dusk_top1_before", before},
            {"dusk_top1_after", first.top1},
            {"decoded_first", first.extraction.extracted},
            {"decoded_second", second.extraction.extracted},
            {"labelled", labels.labelled},
            {"report", join(directory_, "runs/dusk-head/report.html")},
            {"seconds", seconds}};
  }

 private:
  void say(const std::string& line) const {
    if (!context_.json()) context_.print(line + "\n");
  }
  std::string at(const std::string& name) const { return join(directory_, name); }

  int64_t draw(const std::string& set, Look look, int train, int val, uint64_t seed) {
    int64_t drawn = 0;
    for (size_t c = 0; c < demo_classes().size(); ++c) {
      for (int i = 0; i < train + val; ++i) {
        const std::string folder = fmt::format("{}/photos/{}/{}/{}", directory_, set,
                                               i < train ? "train" : "val", demo_classes()[c]);
        if (i == 0 || i == train) context_.fs().make_directories(folder).or_throw();
        const Image image = draw_demo_photo(static_cast<int>(c), look,
                                            context_.seed() * 1'000'003 + seed * 10'007 + i);
        publish(context_.fs(), fmt::format("{}/{:03}.jpg", folder, i), encode_jpeg(image))
            .or_throw();
        ++drawn;
      }
    }
    return drawn;
  }

  FinetuneConfig config(const std::string& photos, const std::string& model,
                        const std::string& run) const {
    FinetuneConfig c;
    c.data = at("photos/" + photos);
    c.model = model;
    c.out = at("runs/" + run);
    c.cache = at("cache");
    c.trainer.batch = 32;
    c.trainer.seed = context_.seed();
    c.given = {{"demo", toml_string(run)}};
    return c;
  }

  FinetuneResult train_base() {
    ModelFile file{.path = at("base.onnx")};
    file.model = build_model("tinynet", {.classes = static_cast<int64_t>(demo_classes().size()),
                                         .img_size = kImgSize,
                                         .seed = context_.seed()});
    file.preprocess.img_size = file.preprocess.resize = kImgSize;
    save_model(context_.fs(), file.path, file);
    FinetuneConfig c = config("day", file.path, "day");
    c.freeze = "none";
    c.trainer.epochs = 20;
    c.trainer.schedule = {.kind = Schedule::Kind::kCosine, .lr = 5e-3};
    return finetune(c, context_.device(), context_.fs(), context_.clock(), context_.progress());
  }

  FinetuneResult finetune_head(const std::string& run) {
    FinetuneConfig c = config("dusk", at("runs/day/model.onnx"), run);
    c.freeze = "layer2";
    c.trainer.epochs = 20;
    c.trainer.schedule = {.kind = Schedule::Kind::kCosine, .lr = 5e-3};
    return finetune(c, context_.device(), context_.fs(), context_.clock(), quiet_);
  }

  double accuracy(const std::string& model_path, const std::string& photos) {
    const ModelFile model = load_model(context_.fs(), model_path);
    const LabelledPhotos labelled =
        with_classes(read_image_folder(context_.fs(), at("photos/" + photos + "/val")).or_throw(),
                     model.classes)
            .or_throw();
    const auto catalogue = open_catalogue(context_.fs(), at("cache"), labelled.root);
    const PhotoSet set = hash_photos(context_.fs(), *catalogue, labelled, quiet_);
    return evaluate_photos(model, context_.device(), context_.fs(), set, 32, quiet_).top1;
  }

  RelabelResult relabel_all(const std::string& model_path) {
    const auto db = open_label_db("sqlite:" + at("labels.db")).or_throw();
    RelabelConfig c;
    c.photos = at("photos/dusk");
    c.cache = at("cache");
    return relabel(c, load_model(context_.fs(), model_path), context_.device(), *db, context_.fs(),
                   context_.clock(), quiet_);
  }

  Context& context_;
  std::string directory_;
  NoProgress quiet_;  // only the base network takes long enough to watch
};

}  // namespace

void declare_demo(ArgsSpec& args) {
  args.positional("DIR", "a new directory; everything goes there");
}

int run_demo(Context& context, const Args& args) {
  const std::string directory = args.required("DIR");
  if (context.fs().exists(join(directory, "runs"))) {
    throw Error(directory, " holds a demo already; remove it or choose another directory");
  }
  log::set_level(log::Level::kError);  // in pictures this small every cut is larger than a photo
  const Json json = Demo(context, directory).run();
  context.print(json, "");
  return kOk;
}

}  // namespace ndtrain::cli
