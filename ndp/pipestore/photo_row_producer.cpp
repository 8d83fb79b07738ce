#include "ndp/pipestore/photo_row_producer.h"

#include <algorithm>
#include <utility>

#include "framework/core/log.h"
#include "ndp/jobs/low_precision.h"
#include "ndp/labels/top_k_row.h"
#include "ndp/pipestore/photo_job_rows.h"
#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {
namespace {

std::unique_ptr<Network> network_of(const wire::Job& job, const std::string& extractor,
                                    const std::string& head, const PhotoRowConfig& config,
                                    Devices& devices, Fs& fs) {
  const auto load = [&] {
    return std::make_shared<const ModelFile>(load_checked_model(fs, extractor, config.check));
  };
  const bool shared = config.models && !job.extractor().empty();
  return std::make_unique<Network>(
      shared ? config.models->get(job.extractor(), load) : load(),
      head.empty() ? nullptr
                   : std::make_unique<ModelFile>(load_checked_model(fs, head, config.check)),
      job.rows() == wire::Job::LABELS, devices.get(job.deterministic()), config.engine());
}

// Throws Error.
ViewRule views_of(const wire::Job& job) {
  if (!job.has_views()) return {};
  if (job.rows() != wire::Job::FEATURES) throw Error("views are of features, and of no other rows");
  return {.what = augmentation_named(job.views().changes()),
          .seed = job.views().seed(),
          .views = job.views().count()};
}

RowDelivery::RowSize size_of_files(const StoreInventory& photos) {
  uint64_t bytes = 1;
  for (const StorePhoto& p : photos.photos) bytes += static_cast<uint64_t>(p.bytes);
  const size_t n = std::max<size_t>(1, photos.photos.size());
  return {.bytes = bytes / n + 1, .varies = true};
}

}  // namespace

PhotoRowProducer::PhotoRowProducer(PhotoRowConfig config, Devices& devices, Fs& fs, Clock& clock)
    : config_(std::move(config)), devices_(devices), fs_(fs), inventory_(config_, fs) {
  auto cache = SegmentStore::open(fs_, clock, join(config_.cache, "features"),
                                  {.budget_bytes = config_.cache_bytes});
  if (!cache.ok()) throw Error("feature cache: ", cache.status().message());
  cache_ = std::move(*cache);
  if (!is_s3_url(config_.photos)) return;  // what is in RADOS is on this host's disks already
  fetched_ = std::make_unique<FetchedFiles>(*cache_);
  inventory_.keep_in(*fetched_);
}

PhotoRowProducer::~PhotoRowProducer() {
  if (const Status s = cache_->close(); !s.ok()) log::warn("feature cache: {}", s.message());
}

Result<std::unique_ptr<JobRows>> PhotoRowProducer::open(
    const wire::Job& job, std::shared_ptr<const StoreInventory> inventory,
    const std::string& extractor, const std::string& head) {
  PhotoJobRows::What what{.job = job, .photos = std::move(inventory), .views = views_of(job)};
  if (job.rows() == wire::Job::FEATURES || job.rows() == wire::Job::LABELS) {
    if (extractor.empty()) return Status(Code::kCorrupt, "the job names no model");
    what.network = network_of(job, extractor, head, config_, devices_, fs_);
    what.row.bytes = job.rows() == wire::Job::LABELS ? job.top_k() * kRankedClassBytes
                                                     : what.network->row_bytes();
    what.row.views = static_cast<size_t>(std::max<int64_t>(1, what.views.views));
  } else if (job.rows() == wire::Job::FILES) {
    what.row = size_of_files(*what.photos);
  } else {
    const auto declared = from_metadata({job.preprocessing().begin(), job.preprocessing().end()});
    if (!declared) {
      return Status(Code::kCorrupt, "the job does not say how photos are preprocessed");
    }
    what.preprocess = *declared;
    what.row = {.bytes = declared->values(), .varies = job.rows() == wire::Job::PACKED_CROPS};
  }
  const PhotoJobRows::Ports ports{config_, fs_, inventory_, *cache_};
  return std::unique_ptr<JobRows>(std::make_unique<PhotoJobRows>(ports, std::move(what)));
}

double PhotoRowProducer::bf16_gain() { return ndtrain::ndp::bf16_gain(devices_.get(false)); }

}  // namespace ndtrain::ndp
