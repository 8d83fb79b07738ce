// What a store says of itself at /metrics.
#include "ndp/pipestore/hosted_store.h"

namespace ndtrain::ndp {
namespace {

// Each metric is also of the store that says it.
class StoreMetrics {
 public:
  StoreMetrics(MetricsText& to, const MetricLabels& of) : to_(to), of_(of) {}

  template <typename T>
  void gauge(const char* name, const char* help, T value, const MetricLabels& labels = {}) {
    to_.gauge(name, help, with(labels), static_cast<double>(value));
  }
  template <typename T>
  void counter(const char* name, const char* help, T value, const MetricLabels& labels = {}) {
    to_.counter(name, help, with(labels), static_cast<double>(value));
  }

 private:
  MetricLabels with(MetricLabels labels) const {
    labels.insert(labels.end(), of_.begin(), of_.end());
    return labels;
  }

  MetricsText& to_;
  const MetricLabels& of_;
};

void add_photos_by_state(StoreMetrics& m, uint64_t photos, const UploadLog::Counts& logged,
                         size_t in_trash) {
  const auto here = static_cast<int64_t>(photos);
  const std::pair<const char*, int64_t> states[] = {
      {"labelled", logged.photos - logged.unlabelled},
      {"unlabelled", logged.unlabelled},
      {"left_to_jobs", std::max<int64_t>(0, here - logged.photos)},
      {"trash", static_cast<int64_t>(in_trash)}};
  for (const auto& [name, n] : states) {
    m.gauge("ndtrain_photos_by_state",
            "Photos here: labelled as they came, waiting for that, labelled by jobs alone; in the "
            "trash, which any of these may be",
            n, {{"state", name}});
  }
}

}  // namespace

void HostedStore::add_metrics(MetricsText& to, const MetricLabels& of) const {
  StoreMetrics m(to, of);
  m.gauge("ndtrain_photos", "Photos that can be read", producer_->photos());
  m.gauge("ndtrain_session_up", "Whether there is a session with the Tuner", service_->connected());
  m.gauge("ndtrain_jobs", "Jobs in progress", service_->jobs());
  for (const auto& [task, v] : service_->in_force()) {
    m.gauge("ndtrain_version_in_force", "Version in force", v.version, {{"task", task}});
  }
  m.counter("ndtrain_rows_total", "Rows made for the Tuner", service_->rows_made());
  for (const auto& [name, seconds] : service_->stages()) {
    m.counter("ndtrain_stage_seconds_total", "Time spent in the engine's steps", seconds,
              {{"stage", name}});
  }
  // Rows go out, models and uploads come in, and photos are read.
  const auto uploaded = static_cast<uint64_t>(uploads_->counts().bytes);
  for (const auto& [kind, bytes] :
       {std::pair("rows", service_->row_bytes()), std::pair("models", service_->model_bytes()),
        std::pair("photos", service_->photo_bytes()), std::pair("uploads", uploaded)}) {
    m.counter("ndtrain_bytes_total", "Bytes received, sent and read, by kind", bytes,
              {{"kind", kind}});
  }
  for (const RadosReads& r : rados_ ? rados_->reads() : std::vector<RadosReads>()) {
    const MetricLabels osd = {
        {"pool", r.pool}, {"osd", std::to_string(r.osd)}, {"here", r.here ? "true" : "false"}};
    m.counter("ndtrain_rados_read_bytes_total",
              "Bytes of objects that were read, by the OSD which was their acting primary then",
              r.bytes, osd);
    m.counter("ndtrain_rados_read_objects_total", "Objects of which these are", r.objects, osd);
  }
  if (object_labels_) {
    const ObjectLabels::Counts c = object_labels_->counts();
    m.counter("ndtrain_rados_labels_total", "Labels that are on their objects", c.written);
    m.counter("ndtrain_rados_labels_lost_total", "Labels of jobs that waited for too long", c.lost);
    m.gauge("ndtrain_rados_labels_waiting", "Labels of jobs that are to be written still",
            c.waiting);
  }
  m.gauge("ndtrain_lane_tasks", "Tasks that wait or run, by lane", lanes_->lengths().at(kStoreLane),
          {{"lane", "store"}});
}

void HostedStore::add_upload_metrics(MetricsText& to, const MetricLabels& of) const {
  StoreMetrics m(to, of);
  const Uploads::Counts c = uploads_->counts();
  add_photos_by_state(m, producer_->photos(), c.log, trash_.size());
  for (const auto& [queue, batches] :
       {std::pair("loaded", ring_.loaded.load()), std::pair("ready", ring_.ready.load())}) {
    m.gauge("ndtrain_ring_batches",
            "Batches in the engine's ring: loaded, which wait to be preprocessed, and ready",
            batches, {{"queue", queue}});
  }
  std::vector<std::string> tasks = uploads_->tasks();
  if (tasks.empty()) tasks.emplace_back(kDefaultTask);
  for (const std::string& task : tasks) {
    m.gauge("ndtrain_upload_version", "Version that labels uploads", uploads_->version(task),
            {{"task", task}});
  }
  m.gauge("ndtrain_upload_photos", "Photos that were uploaded here, or found in the directory",
          c.log.photos);
  m.counter("ndtrain_photos_found_total", "New photos that were found in the directory", c.found);
  m.counter("ndtrain_photos_waited_labelled_total",
            "Photos labelled after they waited: found ones, and uploads without a version",
            c.waited);
  m.gauge("ndtrain_upload_unlabelled", "Those that the version of some task has yet to label",
          c.log.unlabelled);
  m.gauge("ndtrain_upload_outbox", "Lines that the Tuner has not acknowledged",
          c.log.unacknowledged);
  m.gauge("ndtrain_uploads_in_progress", "Uploads that are not answered yet", c.in_progress);
  m.counter("ndtrain_uploads_refused_total", "Uploads answered with 429", c.refused);
  m.counter("ndtrain_uploads_unreadable_total", "Uploads that are no photo", c.unreadable);
  m.counter("ndtrain_uploads_labelled_total", "Photos labelled as they came", c.online.photos);
  m.counter("ndtrain_upload_batches_total", "Batches in which they were", c.online.batches);
  const PhotoScrub::Counts s = scrub_->counts();
  m.gauge("ndtrain_photos_damaged", "Photos whose files a disk has changed", s.damaged);
  m.counter("ndtrain_photos_restored_total", "Damaged uploads that were put right", s.restored);
  m.counter("ndtrain_scrubbed_photos_total", "Photos that were read to see that they are whole",
            s.photos);
  m.counter("ndtrain_scrubbed_bytes_total", "Bytes of these", s.bytes);
  m.counter("ndtrain_scrub_unreadable_total", "Of these, those that the disk does not give",
            s.unreadable);
  m.counter("ndtrain_uploads_not_cached_total", "Whose crop and feature were not kept",
            c.not_cached);
}

}  // namespace ndtrain::ndp
