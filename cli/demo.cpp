#include <fmt/format.h>

#include "cli/computing_args.h"
#include "cli/demo_photos.h"
#include "cli/demo_site.h"
#include "cli/verb.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/onnx/export.h"
#include "models/zoo.h"
#include "ndp/jobs/finetune.h"
#include "ndp/photos/encode.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

constexpr int kImgSize = 48;
constexpr int64_t kStores = 2;
constexpr int kNewClass = 5;          // unknown by day
constexpr char kFreeze[] = "layer2";  // both versions have the same extractor
// Photos per class.
constexpr int kTrain = 100, kHeld = 40, kDayUploads = 50, kDuskLabelled = 40, kDuskUploads = 30;

// The whole story in one directory: what a newcomer should see, with every figure measured. Labels
// are right or wrong by what was drawn.
class Demo {
 public:
  Demo(Context& context, std::string directory)
      : context_(context), directory_(std::move(directory)) {}

  Json run() {
    const auto start = context_.clock().monotonic();
    draw_all();
    train_base();
    DemoSite site(context_, at("site"), kStores);
    first_version(site);
    upload_by_day(site);
    upload_at_dusk(site);
    second_version(site);
    relabel_all(site);
    figures_["seconds"] =
        std::chrono::duration<double>(context_.clock().monotonic() - start).count();
    return figures_;
  }

 private:
  using Photos = std::map<std::string, std::string>;  // id: the class that was drawn

  void say(const std::string& line) {
    if (!context_.json()) context_.print(fmt::format("{:>2}. {}\n", ++step_, line));
  }
  std::string at(const std::string& name) const { return join(directory_, name); }
  static std::string name_of(int shape) {
    return std::string(demo_classes()[static_cast<size_t>(shape)]);
  }

  // Into a directory per class.
  void draw(const std::string& directory, Look look, int classes, int per_class, uint64_t set) {
    for (int shape = 0; shape < classes; ++shape) {
      const std::string folder = join(directory, name_of(shape));
      context_.fs().make_directories(folder).or_throw();
      for (int i = 0; i < per_class; ++i) {
        const Image image = draw_demo_photo(
            shape, look, context_.seed() * 1'000'003 + set * 10'007 + static_cast<uint64_t>(i));
        publish(context_.fs(), fmt::format("{}/{:03}.jpg", folder, i), encode_jpeg(image))
            .or_throw();
        ++drawn_;
      }
    }
  }

  void draw_all() {
    draw(at("photos/day/train"), Look::kDay, kNewClass, kTrain, 1);
    draw(at("photos/day/val"), Look::kDay, kNewClass, kDayUploads, 2);
    draw(at("photos/dusk/train"), Look::kDusk, kNewClass + 1, kDuskLabelled, 3);
    draw(at("photos/dusk/val"), Look::kDusk, kNewClass + 1, kDuskUploads, 4);
    for (int64_t store = 1; store <= kStores; ++store) {
      draw(DemoSite::photos_of(at("site"), store), Look::kDay, kNewClass, kHeld,
           static_cast<uint64_t>(10 + store));
    }
    figures_["photos"] = drawn_;
    say(fmt::format("drew {} photos of shapes under {}", drawn_, directory_));
  }

  void train_base() {
    ModelFile file{.path = at("base.onnx")};
    file.model = build_model("tinynet",
                             {.classes = kNewClass, .img_size = kImgSize, .seed = context_.seed()});
    file.preprocess.img_size = file.preprocess.resize = kImgSize;
    save_model(context_.fs(), file.path, file);
    FinetuneConfig c;
    c.data = at("photos/day");
    c.model = file.path;
    c.out = at("runs/day");
    c.cache = at("cache");
    c.freeze = "none";
    c.how.trainer = trainer(20);
    c.given = {{"DATA", c.data},     {"model", c.model},
               {"freeze", c.freeze}, {"epochs", "20"},
               {"batch", "32"},      {"sched", "cosine"},
               {"lr", "0.005"},      {"seed", std::to_string(context_.seed())}};
    c.version = NDT_VERSION;
    const FinetuneResult base =
        finetune(c, context_.device(), context_.fs(), context_.clock(), context_.progress());
    figures_["base_top1"] = base.top1;
    leave_an_exported_model();
    say(fmt::format("trained a small network on {} shapes by day, on one machine: top-1 {:.3f}",
                    kNewClass, base.top1));
  }

  // As another program would have written it: without class names and preprocessing.
  void leave_an_exported_model() {
    ModelFile file = load_model(context_.fs(), at("runs/day"));
    file.model.metadata.clear();
    export_model(context_.fs(), at("exported.onnx"), file.model).or_throw();
  }

  TrainerConfig trainer(int64_t epochs) const {
    TrainerConfig t{.epochs = epochs, .batch = 32, .seed = context_.seed()};
    t.schedule = {.kind = Schedule::Kind::kCosine, .lr = 5e-3};
    return t;
  }

  void first_version(DemoSite& site) {
    JobSpec spec{.trainer = trainer(4), .freeze = kFreeze};
    const Json job = site.run(spec, at("runs/day/model.onnx"));
    site.await_version(1);
    say(
        fmt::format("{} PipeStores with {} photos each, and a Tuner: fine-tuned near the photos, "
                    "version 1 is in force: top-1 {:.3f}",
                    kStores, kNewClass * kHeld, job["result"]["top1"].get<double>()));
  }

  Photos upload(DemoSite& site, const std::string& directory, int classes, int per_class) {
    Photos photos;
    for (int i = 0; i < per_class; ++i) {
      for (int shape = 0; shape < classes; ++shape) {
        const std::string file = fmt::format("{}/{}/{:03}.jpg", directory, name_of(shape), i);
        photos[site.upload(context_.fs().read(file).or_throw())] = name_of(shape);
      }
    }
    return photos;
  }

  // The share of right labels by the version in force, and the mean of its scores.
  struct Judgement {
    double right = 0, score = 0;
  };
  static Judgement judge(DemoSite& site, const Photos& photos) {
    std::set<std::string> ids;
    for (const auto& [id, drawn] : photos) ids.insert(id);
    Judgement sum;
    for (const auto& [id, label] : site.labels_of(ids)) {
      sum.right += label.class_name == photos.at(id) ? 1 : 0;
      sum.score += label.score;
    }
    const auto n = static_cast<double>(photos.size());
    return {sum.right / n, sum.score / n};
  }

  void upload_by_day(DemoSite& site) {
    day_ = upload(site, at("photos/day/val"), kNewClass, kDayUploads);
    const Judgement j = judge(site, day_);
    figures_["day_before"] = j.right;
    say(
        fmt::format("{} photos of the day are uploaded and labelled as they come: {:.1f} % right, "
                    "mean score {:.2f}",
                    day_.size(), 100 * j.right, j.score));
  }

  void upload_at_dusk(DemoSite& site) {
    dusk_ = upload(site, at("photos/dusk/val"), kNewClass + 1, kDuskUploads);
    const Photos said = upload(site, at("photos/dusk/train"), kNewClass + 1, kDuskLabelled);
    const Judgement j = judge(site, dusk_);
    figures_["dusk_before"] = j.right;
    say(
        fmt::format("drift: {} photos at dusk, some of a new shape ({}): {:.1f} % right, mean "
                    "score {:.2f}",
                    dusk_.size() + said.size(), name_of(kNewClass), 100 * j.right, j.score));
    for (const auto& [id, drawn] : said) site.say_truth(id, drawn);
    figures_["truths"] = said.size();
    say(fmt::format("people say what {} of them show", said.size()));
  }

  void second_version(DemoSite& site) {
    JobSpec spec{.runs = 3, .trainer = trainer(15), .head = "grow", .freeze = kFreeze};
    spec.all_runs = true;
    spec.promote = Promote::kRule;
    const uint64_t before = site.model_bytes();
    const Json job = site.run(spec, at("site/tuner/jobs/1/run/model.onnx"));
    const Json& result = job["result"];
    say(fmt::format(
        "fine-tuned near the photos in three runs, on these and on what the stores had, with {} "
        "classes: {}",
        result["classes"].get<int>(), result["rule"].get<std::string>()));
    site.await_version(2);
    figures_["model_bytes_sent"] = site.model_bytes() - before;
    const std::string head = at("site/tuner/jobs/2/run/head.onnx");
    figures_["head_bytes"] = context_.fs().info(head).or_throw().size;
    say(fmt::format("version 2 has gone to the stores: a delta of {} bytes each, its head has {}",
                    (site.model_bytes() - before) / kStores,
                    figures_["head_bytes"].get<int64_t>()));
    figures_["report"] = at("site/tuner/jobs/2/run/report.html");
  }

  void relabel_all(DemoSite& site) {
    const Json job = site.run({.kind = JobKind::kRelabel, .only = RelabelOnly::kStale});
    const LabelDiff diff = site.diff();
    std::string changes;
    for (size_t i = 0; i < std::min<size_t>(3, diff.changes.size()); ++i) {
      const LabelChange& c = diff.changes[i];
      changes += fmt::format("{} {} -> {} {}", i == 0 ? "" : ",", c.from, c.to, c.photos);
    }
    figures_["relabelled"] = job["result"]["labelled"];
    figures_["changed"] = diff.changed;
    say(fmt::format("relabelled {} photos where they are; {} labels changed:{}",
                    job["result"]["labelled"].get<int64_t>(), diff.changed, changes));
    const Judgement day = judge(site, day_), dusk = judge(site, dusk_);
    figures_["day_after"] = day.right;
    figures_["dusk_after"] = dusk.right;
    say(
        fmt::format("of the photos nobody spoke of, at dusk {:.1f} % are right ({:.1f} % before), "
                    "by day {:.1f} % ({:.1f} % before)",
                    100 * dusk.right, 100 * figures_["dusk_before"].get<double>(), 100 * day.right,
                    100 * figures_["day_before"].get<double>()));
  }

  Context& context_;
  const std::string directory_;
  int64_t drawn_ = 0;
  int step_ = 0;
  Json figures_;
  Photos day_, dusk_;  // nobody says what these show
};

}  // namespace

void declare_demo(ArgsSpec& args) {
  args.positional("DIR", "a new directory; everything goes there");
  declare_computing(args);
  declare_seed(args);
}

int run_demo(Context& context, const Args& args) {
  const std::string directory = args.required("DIR");
  if (context.fs().exists(join(directory, "runs"))) {
    throw Error(directory, " holds a demo already; remove it or choose another directory");
  }
  log::set_level(log::Level::kError);  // in pictures this small every cut is larger than a photo
  const Json json = Demo(context, directory).run();
  const std::string site = join(directory, "site");
  context.print(
      json, fmt::format("\n{:.0f} seconds. Report: {}\nTo go on: ndtrain up {}\n",
                        json["seconds"].get<double>(), json["report"].get<std::string>(), site));
  return kOk;
}

}  // namespace ndtrain::cli
