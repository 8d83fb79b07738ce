#include "ndp/pipestore/hosted_store.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/object_url.h"
#include "ndp/pipestore/osd_map_watch.h"
#include "ndp/pipestore/silent_watch.h"
#include "ndp/rados/rados_url.h"
#include "ndp/s3/s3_settings.h"
#include "ndp/sqlite/database_check.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/role_loop.h"

namespace ndtrain::ndp {
namespace {

wire::Hello hello_of(const PipeStoreConfig& config, Devices& devices, uint64_t incarnation) {
  wire::Hello hello;
  hello.set_store(config.name);
  if (config.collection != kDefaultCollection) hello.set_collection(config.collection);
  hello.set_takes_tokens(true);
  hello.set_takes_task_tokens(true);
  hello.set_takes_tickets(true);
  hello.set_takes_probes(true);
  hello.set_makes_views(true);
  hello.set_gives_photos(true);
  hello.set_tells_hashes(true);
  hello.set_incarnation(incarnation);
  hello.set_version(config.version);
  hello.set_numerics(feature_numerics(devices.get(false)));
  return hello;
}

constexpr std::chrono::seconds kRescan{600}, kNetworkRescan{60};

FolderFollower::Options folder_options(const PipeStoreConfig& config) {
  const bool rados = is_rados_url(config.photos);
  const std::string network = rados                      ? "RADOS"
                              : is_s3_url(config.photos) ? "S3"
                                                         : network_file_system(config.photos);
  FolderFollower::Options options;
  // A look at RADOS asks for each object.
  options.rescan = network.empty() || rados ? kRescan : kNetworkRescan;
  if (config.rescan) {
    options.rescan = std::chrono::duration_cast<FolderFollower::Time>(
        std::chrono::duration<double>(std::min(*config.rescan, 1e9)));
  }
  if (!network.empty()) {
    log::info(
        "{} is on {}: of photos that other machines put there nobody here hears, they are seen "
        "when "
        "all is looked at{}",
        config.photos, network,
        options.rescan.count() == 0
            ? ", which --rescan 0 leaves to jobs"
            : fmt::format(", every {:g} s", std::chrono::duration<double>(options.rescan).count()));
  }
  return options;
}

void check_photos(Fs& fs, const PipeStoreConfig& config) {
  const Result<FileInfo> photos = fs.info(config.photos);
  if (is_object_url(config.photos)) photos.status().or_throw();
  if (!photos.ok() || !photos->is_directory) {
    throw Error("there is no directory of photos at ", config.photos);
  }
  if (!is_object_url(config.photos)) check_apart(config.state, config.photos);
}

// The Tuner knows a store's photos, and what is said of them, by its collection.
void check_collection(Fs& fs, const std::string& state, const std::string& collection,
                      bool has_photos) {
  constexpr const char* kKey = "collection";
  const std::string path = join(state, "collection.json");
  const Result<std::string> text = fs.read(path);
  if (text.status().code() != Code::kNotFound) text.status().or_throw();
  if (!text.ok() && !has_photos) {
    publish(fs, path, checksummed(Json({{kKey, collection}}), -1)).or_throw();
    return;
  }
  const std::string was =
      text.ok() ? verified(*text).at(kKey).get<std::string>() : std::string(kDefaultCollection);
  if (was == collection) return;
  throw Error("--collection ", collection, ": the photos of ", state, " are in the collection ",
              was, ", by which labels know them; leave it so, or take a new --state");
}

// A list of photos that a disk has changed is made anew, as one that was lost.
void check_catalogue(Fs& fs, const std::string& directory) {
  const std::string path = join(directory, std::string(Catalogue::kFile));
  if (!fs.exists(path)) return;
  const Status s = sql::check_database(path, sql::DatabaseCheck::kPages);
  if (s.code() != Code::kCorrupt) return s.or_throw();
  log::warn("the list of photos is made anew: {}", s.message());
  for (const char* const beside : {"-wal", "-shm", ""}) {
    if (fs.exists(path + beside)) fs.remove(path + beside).or_throw();
  }
}

}  // namespace

HostedStore::HostedStore(const PipeStoreConfig& config, Shared shared)
    : shared_(std::move(shared)),
      batch_(config.batch),
      rados_(is_rados_url(config.photos) ? config.rados : nullptr),
      state_(StateDirectory::open(shared_.fs, config.state, "pipestore").or_throw()),
      trash_(shared_.fs, state_.file("trash.bin")) {
  Fs& fs = shared_.fs;
  check_photos(fs, config);
  log_ = UploadLog::open(fs, state_.file("uploads")).or_throw();
  check_collection(fs, config.state, config.collection, log_->counts().photos > 0);
  check_catalogue(fs, catalogue_directory(state_.file("cache"), config.photos));
  scrub_ = std::make_unique<PhotoScrub>(
      PhotoScrub::Setting{
          .photos = config.photos,
          .state = config.state,
          .period = config.scrub,
          .put_back = [this](const Digest& photo,
                             const std::string& file) { return uploads_->put_back(photo, file); }},
      fs, shared_.clock, open_catalogue(fs, state_.file("cache"), config.photos));
  if (rados_ && config.rados_labels) {
    object_labels_ = std::make_unique<ObjectLabels>(
        ObjectLabels::Setting{
            .photos = config.photos, .rados = *rados_, .log = *log_, .clock = shared_.clock},
        open_catalogue(fs, state_.file("cache"), config.photos));
  }
  producer_ =
      std::make_unique<PhotoRowProducer>(row_config(config), shared_.devices, fs, shared_.clock);
  uploads_ = std::make_unique<Uploads>(
      upload_config(config), fs, shared_.clock, *log_, producer_->cache(),
      open_catalogue(fs, state_.file("cache"), config.photos), shared_.upload_priority, [this] {
        if (object_labels_) object_labels_->look();
        shared_.wake();
      });
  similar_ = std::make_unique<SimilarPhotos>(producer_->cache(), *uploads_, shared_.clock);
  lanes_ = std::make_unique<ThreadLanes>(PipeStoreService::kLanes, shared_.wake);
  const uint64_t drawn = random_bits();
  service_ = std::make_unique<PipeStoreService>(setting(config),
                                                hello_of(config, shared_.devices, drawn), drawn);
  for (const auto& [task, v] : service_->in_force()) {
    if (v.version > 0) put_in_force(task);
  }
  if (config.watch) follow(config);
  scrubbing_ = std::make_unique<StepThread>(
      "scrub", [this] { return scrub_->step(); }, shared_.clock);
  if (!object_labels_) return;
  labelling_ = std::make_unique<StepThread>(
      "labels of objects", [this] { return object_labels_->step(); }, shared_.clock);
}

HostedStore::~HostedStore() {
  scrubbing_.reset();
  labelling_.reset();
  folder_.reset();
  lanes_.reset();  // its tasks use the service
  similar_.reset();
  uploads_.reset();
  service_.reset();
}

UploadConfig HostedStore::upload_config(const PipeStoreConfig& config) {
  UploadConfig upload = config.uploads;
  upload.photos = config.photos;
  upload.collection = config.collection;
  upload.state = config.state;
  upload.compress_crops = config.compress_crops;
  upload.decoder = shared_.decoder;
  upload.trash = &trash_;
  upload.forget = shared_.forget;
  upload.suspect = [this](const std::string& path) { scrub_->suspect(path); };
  upload.online.batch = static_cast<size_t>(config.batch);
  return upload;
}

PhotoRowConfig HostedStore::row_config(const PipeStoreConfig& config) {
  PhotoRowConfig rows{.photos = config.photos,
                      .state = config.state,
                      .labels = config.labels,
                      .cache = state_.file("cache"),
                      .cache_bytes = config.cache_bytes,
                      .compress_crops = config.compress_crops,
                      .batch = config.batch,
                      .ring = &ring_,
                      .shard = config.shard,
                      .shards = config.shards,
                      .uploads = log_.get(),
                      .trash = &trash_,
                      .forget = [this](auto deleted) { return uploads_->forget(deleted); },
                      .upload_priority = &shared_.upload_priority,
                      .models = &shared_.models,
                      .decoder = shared_.decoder,
                      .check = shared_.check};
  rows.suspect = [this](const std::string& path) { scrub_->suspect(path); };
  if (rados_) rows.gained = [this, photos = config.photos] { return rados_->gained(photos); };
  if (object_labels_) {
    rows.labelled = [this](JobLabels labels) { object_labels_->take(std::move(labels)); };
  }
  if (config.watch) rows.found = [this](auto found) { return uploads_->take_in(found); };
  return rows;
}

namespace {

DeltaApplier delta_applier(ModelCheck* sandbox) {
  if (!sandbox) return apply_delta;
  return [sandbox](std::string_view base, std::string_view delta) {
    return sandbox->apply(base, delta);
  };
}

}  // namespace

PipeStoreService::Setting HostedStore::setting(const PipeStoreConfig& config) {
  return {.fs = shared_.fs,
          .clock = shared_.clock,
          .state = state_,
          .lanes = *lanes_,
          .producer = *producer_,
          .dial = shared_.dial,
          .last_retry = shared_.last_retry,
          .uploads = log_.get(),
          .space = [this, directory = config.state] { return space(directory); },
          .in_force_changed = [this](const std::string& task) { put_in_force(task); },
          .apply = delta_applier(shared_.check),
          .forget = [this](auto deleted) { return forget(deleted); },
          .tokens = shared_.tokens,
          .trash = &trash_,
          .trash_changed =
              [this](bool back) {
                if (back) uploads_->restored();
                if (folder_) folder_->count_soon();
              },
          .files = {.damaged = [this] { return scrub_->damaged_uploads(); },
                    .read = [this](const Digest& photo) { return uploads_->read(photo); },
                    .put_back =
                        [this](const Digest& photo, const std::string& file) {
                          const Status s = uploads_->put_back(photo, file);
                          if (s.ok()) scrub_->restored(photo);
                          return s;
                        }}};
}

// What this store may not remove keeps no session from going on: it is used for nothing any more.
Status HostedStore::forget(std::span<const Digest> deleted) {
  Status s = uploads_->forget(deleted);
  if (s.code() != Code::kUnsupported) return s;
  log::warn("files of deleted photos stay, unused: {}", s.message());
  return {};
}

void HostedStore::follow(const PipeStoreConfig& config) {
  follower_ = std::make_unique<FolderFollower>(
      FolderFollower::Ports{.clock = shared_.clock,
                            .look =
                                [this](const DirectoryChanges& changes) {
                                  Result<FolderLook> look = producer_->inventory().follow(
                                      changes, shared_.clock, [this] { return ending_.load(); });
                                  const bool changed = look.ok() && look->changed;
                                  if (changed && object_labels_) object_labels_->look();
                                  return look;
                                },
                            .count = [this] { producer_->inventory().count(); }},
      folder_options(config));
  std::unique_ptr<DirectoryWatch> watch;
  if (rados_) {
    watch = std::make_unique<OsdMapWatch>(*rados_, config.photos, shared_.clock);
  } else if (is_s3_url(config.photos)) {
    watch = std::make_unique<SilentWatch>();
  } else {
    watch = watch_directory(config.photos);
  }
  folder_ = std::make_unique<FolderThread>(std::move(watch), *follower_, shared_.clock, ending_);
}

void HostedStore::tick() {
  for (const Continuation& after : lanes_->take_finished()) after();
  service_->tick();
}

// Where uploads go.
wire::Space HostedStore::space(const std::string& directory) const {
  wire::Space s;
  s.set_http(shared_.http());
  const Result<Space> volume = shared_.fs.space(directory);
  const int64_t spare = volume.ok() ? volume->free - volume->total / 20 : 0;
  s.set_free(static_cast<uint64_t>(std::max<int64_t>(0, spare)));
  s.set_photos(producer_->photos());
  s.set_gained(producer_->inventory().gained());
  s.set_damaged(static_cast<uint64_t>(scrub_->counts().damaged));
  return s;
}

// Its files are here.
void HostedStore::put_in_force(const std::string& task) {
  const auto in_force = service_->in_force().find(task);
  const VersionInForce v =
      in_force == service_->in_force().end() ? VersionInForce() : in_force->second;
  if (object_labels_) {
    const std::string model =
        v.extractor ? bytes_of(*v.extractor) + (v.head ? bytes_of(*v.head) : "") : "";
    object_labels_->put_in_force(task, v.extractor ? v.version : 0, model);
  }
  if (!v.extractor) return uploads_->put_in_force(task, [] { return nullptr; });
  uploads_->put_in_force(task, [this, v, file = service_->model_path(*v.extractor),
                                head_file = v.head ? service_->model_path(*v.head) : ""] {
    auto model = std::make_shared<OnlineModel>();
    model->version = v.version;
    model->extractor = bytes_of(*v.extractor);
    if (v.head) model->head = bytes_of(*v.head);
    const Device& device = shared_.devices.get(false);
    const EngineOptions options{.batch = batch_, .decoder = shared_.decoder};
    const bool whole = !v.head;
    const auto checked = [&](const std::string& f) {
      return load_checked_model(shared_.fs, f, shared_.check);
    };
    const auto load = [&] { return std::make_shared<const ModelFile>(checked(file)); };
    const auto extractor = shared_.extractors.get({model->extractor, whole}, [&] {
      return std::make_shared<Extractor>(shared_.models.get(model->extractor, load), whole, device,
                                         options);
    });
    model->network = std::make_unique<Network>(
        extractor, whole ? nullptr : std::make_unique<ModelFile>(checked(head_file)), device,
        options);
    return model;
  });
}

}  // namespace ndtrain::ndp
