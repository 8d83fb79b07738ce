// How fast photos are labelled anew when only the head of their model has changed: both roles' real
// services in this process, over a real link; features from a PipeStore's real cache, labels into a
// real database. The photos themselves are never there.
#include <fmt/format.h>

#include <filesystem>

#include "cli/bench_roles.h"
#include "cli/computing_args.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "models/zoo.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/jobs/transfer.h"
#include "ndp/pipestore/network.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "tuner/work/default_job_factory.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

using Seconds = std::chrono::duration<double>;

// Photos that are numbers; their features are kept.
class KeptFeatures final : public PhotoRowProducer {
 public:
  KeptFeatures(const PhotoRowConfig& config, Devices& devices, Fs& fs, Clock& clock, int64_t photos)
      : PhotoRowProducer(config, devices, fs, clock) {
    for (int64_t i = 0; i < photos; ++i) {
      const std::string name = fmt::format("{:03}/{}.jpg", i % 1000, i);
      inventory_.photos.push_back({.digest = sha256(name), .path = name});
    }
    std::ranges::sort(inventory_.photos, {}, &StorePhoto::digest);
  }
  const StoreInventory& inventory() const { return inventory_; }
  uint64_t photos() const override { return inventory_.photos.size(); }
  Result<StoreInventory> scan() override { return inventory_; }

 private:
  StoreInventory inventory_;
};

class BenchRelabel {
 public:
  BenchRelabel(Context& context, const Args& args)
      : context_(context),
        directory_(args.required("state")),
        photos_(args.integer("photos")),
        classes_(args.integer("classes")),
        labels_(args.has("db") ? args.text("db") : "sqlite:" + at("labels.db")) {
    if (photos_ < 1 || classes_ < 2) throw UsageError("--photos: at least 1; --classes: 2");
    for (const char* part : {"tuner", "store", "cache", "models"}) {
      std::filesystem::remove_all(at(part));
    }
    if (!args.has("db")) {
      for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(at("labels.db") + end);
    }
    context_.fs().make_directories(at("models")).or_throw();
    save_version(1);
    save_version(2);
  }

  Json run() {
    KeptFeatures producer({.photos = directory_,
                           .labels = "none",
                           .cache = at("cache"),
                           .cache_bytes = int64_t{1} << 50},
                          devices_, context_.fs(), context_.clock(), photos_);
    fill(producer);
    StateDirectory state = StateDirectory::open(context_.fs(), at("tuner"), "tuner").or_throw();
    ModelStore models(context_.fs(), state.file("models"));
    Versions versions(context_.fs(), state.file("versions.json"));
    for (const int version : {1, 2}) {
      versions.add(publish(models, version), version == 1).or_throw();
    }
    DefaultJobFactory works({context_.fs(), context_.clock(), devices_, models}, versions, labels_);
    LinkEvents<wire::FromStore> events;
    const auto server = LinkServer::listen("127.0.0.1:0", {}, events).or_throw();
    ThreadLanes lanes(TunerService::kLanes, [&] { events.wake(); });
    TunerService service(
        {context_.fs(), context_.clock(), state, *server, lanes, works, models, versions},
        state.next_term(1).or_throw());
    std::atomic<bool> stop = false;
    std::jthread store(
        [&] { run_store(context_, at("store"), server->address(), producer, stop); });
    const auto relabel = [&] {
      const auto start = std::chrono::steady_clock::now();
      const uint64_t job = service.submit({.kind = JobKind::kRelabel});
      const auto labelling = [&] { return durable_rows(service, job) > 0; };
      while (!labelling() && service.job(job).open()) turn(service, events, lanes);
      const auto first = std::chrono::steady_clock::now();
      const auto before = static_cast<double>(durable_rows(service, job));
      while (service.job(job).open()) turn(service, events, lanes);
      if (service.job(job).state != JobState::kDone) throw Error(service.job(job).message);
      const auto end = std::chrono::steady_clock::now();
      return Json{
          {"seconds", Seconds(end - start).count()},
          {"labelling_s", Seconds(end - first).count()},
          {"labels_per_s", (static_cast<double>(photos_) - before) / Seconds(end - first).count()},
          {"labelled", parse_json(service.job(job).result).at("labelled")}};
    };
    Json json = {{"photos", photos_}, {"classes", classes_}, {"first", relabel()}};
    versions.point(kProduction, 2).or_throw();
    json["again"] = relabel();
    stop = true;
    return json;
  }

 private:
  std::string at(const std::string& name) const { return join(directory_, name); }
  std::string part(int version, const std::string& name) const {
    return at(fmt::format("models/{}{}.onnx", name, version));
  }

  // All versions have the first's extractor.
  void save_version(int version) {
    ModelFile file;
    file.model =
        build_model("resnet50", {.classes = classes_, .seed = static_cast<uint64_t>(version)});
    for (int64_t i = 0; i < classes_; ++i) file.classes.push_back(fmt::format("class {}", i));
    const TransferModel t =
        prepare_transfer(file, file.classes, "keep", "auto", DType::kF16, context_.seed());
    file.model = t.head;
    save_model(context_.fs(), part(version, "head"), file);
    if (version > 1) return;
    file.model = t.extractor;
    file.classes.clear();
    save_model(context_.fs(), part(1, "extractor"), file);
  }

  PublishedModel publish(ModelStore& models, int version) {
    const ModelFile head = load_model(context_.fs(), part(version, "head"));
    return {.content = head.id(),
            .extractor = models.add_file(part(1, "extractor")).or_throw(),
            .head = models.add_file(head.path).or_throw(),
            .classes = head.classes,
            .created = context_.clock().unix_seconds()};
  }

  void fill(KeptFeatures& producer) {
    const auto load = [&](const char* name) { return load_model(context_.fs(), part(1, name)); };
    const Network network(std::make_shared<const ModelFile>(load("extractor")),
                          std::make_unique<ModelFile>(load("head")), true, devices_.get(false),
                          EngineOptions{.batch = 1});
    FeatureRows features(&producer.cache(), network.features());
    Rng rng(1, "features");
    std::vector<std::byte> row(network.row_bytes());
    for (size_t i = 0; i < row.size(); i += 2) {  // f16 between 0 and 1
      row[i] = static_cast<std::byte>(rng.next_bits());
      row[i + 1] = static_cast<std::byte>(0x2c + rng.next_bits() % 0x10);
    }
    int64_t done = 0;
    context_.progress().begin("features into the cache", photos_, "photos");
    for (const StorePhoto& p : producer.inventory().photos) {
      row[static_cast<size_t>(done) * 2 % row.size()] = static_cast<std::byte>(rng.next_bits());
      features.keep(p.digest, row).or_throw();
      if (++done % 10'000 == 0) context_.progress().update(done);
    }
    producer.cache().flush().or_throw();
    context_.progress().end();
  }

  Context& context_;
  const std::string directory_;
  const int64_t photos_, classes_;
  const std::string labels_;
  Devices devices_{context_.device_name(), context_.device_options()};
};

}  // namespace

void declare_bench_relabel(ArgsSpec& args) {
  args.flag("photos", "how many; each takes 4 KiB of disk", "N", "1000000");
  args.flag("classes", "that the model tells apart", "N", "100");
  args.flag("db", "the label database, an empty one (default: SQLite in the state directory)",
            "URL");
  args.flag("state", "where both roles keep their state; what is there is lost (required)", "DIR");
  declare_computing(args);
  declare_seed(args);
}

int run_bench_relabel(Context& context, const Args& args) {
  const Json json = BenchRelabel(context, args).run();
  context.print(json, fmt::format("first\n{}again, by another version\n{}", table(json["first"]),
                                  table(json["again"])));
  return kOk;
}

}  // namespace ndtrain::cli
