// Photos that people upload to a PipeStore: taken, labelled at once by the version in force of each
// task, looked at, corrected, deleted. What is answered is durable: the photo under uploads/ in the
// store's state, or in the object store that its photos are in, named by its SHA-256, and the label
// in the log. A photo that was found in the photo directory is an upload that stays where it is:
// first there is a line for it, then its label.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "framework/core/clock.h"
#include "ndp/http/rate_limiter.h"
#include "ndp/photos/catalogue.h"
#include "ndp/photos/photo_decoder.h"
#include "ndp/pipestore/cache_writer.h"
#include "ndp/pipestore/found_photo.h"
#include "ndp/pipestore/online_labeler.h"
#include "ndp/pipestore/store_photos.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/pipestore/upload_files.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/pipestore/upload_priority.h"

namespace ndtrain::ndp {

struct UploadConfig {
  std::string photos;                                        // the photo directory
  std::string collection = std::string(kDefaultCollection);  // that they are in
  std::string state;                                         // the directory that uploads/ is in
  int64_t most_bytes = 32 << 20;                             // of one photo
  size_t queue = 64;                                         // uploads in progress at once
  double quota = 0;  // uploads per second from one address; 0: any number
  bool compress_crops = false;
  // What others keep of deleted photos goes; durable on return. On a thread of Uploads.
  std::function<Status(const std::set<Digest>&)> forget = {};
  // See PhotoRowConfig.
  std::function<void(const std::string& path)> suspect = {};
  PhotoDecoder* decoder = nullptr;  // of all photos; null: this process decodes them
  StoreTrash* trash = nullptr;      // photos in it are not shown; null: there is none
  OnlineLabeler::Options online = {};
};

class Uploads {
 public:
  // `catalogue`: of the store's photos, for this alone. `changed`: the log has a new line. Throws
  // Error.
  Uploads(const UploadConfig& config, Fs& fs, Clock& clock, UploadLog& log, SegmentStore& cache,
          std::unique_ptr<Catalogue> catalogue, UploadPriority& upload_priority,
          std::function<void()> changed);
  ~Uploads();

  // A version of the task is in force; `load` makes it ready to run, on a thread of this. What it
  // throws is logged, and the version before stays.
  void put_in_force(const std::string& task, std::function<std::shared_ptr<OnlineModel>()> load);
  // That labels uploads now; 0: none.
  uint64_t version(std::string_view task = kDefaultTask) const;
  std::shared_ptr<OnlineModel> model(std::string_view task) const { return online_.model(task); }
  std::vector<std::string> tasks() const;  // in which a version labels them, by extractor

  // A place for one upload of at most so many bytes, held until it is answered; null when all are
  // taken.
  std::shared_ptr<void> admit(int64_t bytes);
  bool within_quota(const std::string& client);
  void count_unreadable() { ++unreadable_; }  // one that is no photo; waits for nothing
  int64_t most_bytes() const { return config_.most_bytes; }
  const std::string& collection() const { return config_.collection; }

  struct Photo {
    Digest id{};
    UploadLog::Known known;  // in the task that was asked for
  };
  // One that is in the trash is restored by it, here at once, elsewhere when the Tuner hears of it.
  // kCorrupt, kUnsupported, kTooLarge: it cannot be read, and is not kept. kExists: it was deleted.
  // kNoSpace. kUnavailable: the object store is away, and nothing is kept.
  Result<Photo> add(const std::string& file);

  // What the model's extractor makes of a photo that is not taken in: its features, as the cache
  // has them. A Status as add() has it.
  Result<std::string> feature(const std::string& file, OnlineModel& model);

  // Photos of the photo directory: those that are new are labelled soon, those of which there is a
  // line elsewhere, and no file there any more, keep what was said of them. Durable on return; once
  // more is harmless. Nothing here waits for the catalogue: a scan calls it.
  Status take_in(std::span<const FoundPhoto> found);

  // The file of an upload, written anew since the disk has changed it. kNotFound: it is no upload
  // on the disk of this store, or was deleted; kCorrupt: the file is another photo's.
  Status put_back(const Digest& id, const std::string& file);

  // Photos are back from the trash: they are labelled, where they wait for that.
  void restored();

  // All of these: kNotFound when there is no such photo here, and but for remove() when it is in
  // the trash; kUnavailable when that cannot be told, as the object store is away.
  Result<Photo> find(const Digest& id, std::string_view task = kDefaultTask);
  // kIo when no file here has its bytes any more.
  Result<std::string> read(const Digest& id);
  // Of a file that read() gave: its pixels as PhotoDecoder has them, whatever the photo's name
  // says.
  Result<Image> decode(const Digest& id, std::string_view file, const DecodeOptions& options,
                       const Preprocess* crop);
  Result<Photo> say(const Digest& id, const std::string& truth,
                    std::string_view task = kDefaultTask);
  // kUnsupported: the photo is gone, but for an object that this store may not remove.
  Status remove(const Digest& id);
  // Deleted elsewhere: gone from here if they are here, and not taken in again. Once more is
  // harmless. kUnsupported as remove() has it, of some; the others are gone.
  Status forget(std::span<const Digest> photos);

  struct Counts {
    UploadLog::Counts log;
    OnlineLabeler::Counts online;
    int64_t in_progress = 0, refused = 0, unreadable = 0, not_cached = 0;
    int64_t bytes = 0;              // of uploaded photos that were taken
    int64_t found = 0, waited = 0;  // in the directory; of those that waited: labelled since
  };
  Counts counts() const;

 private:
  // Alone with one photo, while this lives.
  class Busy {
   public:
    Busy(Uploads& uploads, const Digest& id);
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Uploads& uploads_;
    const Digest id_;
  };

  using AllModels = std::vector<std::shared_ptr<const OnlineModels>>;
  // What comes of one photo, of those that share an extractor.
  struct Labelling {
    AllModels models;
    std::vector<std::future<OnlineLabeler::Labelled>> labelled;
  };

  Result<std::string> crop(const std::string& name, const std::string& file,
                           const Preprocess& preprocess);
  bool has(const std::string& path, const std::string& file) const;
  Result<std::string> keep(const std::optional<UploadLog::Known>& known, const std::string& path,
                           const std::string& file);  // where
  void take_back(const std::string& path);
  Result<std::vector<std::string>> places(const Digest& id);  // paths of the photo
  Result<std::vector<std::string>> shown(const Digest& id);   // and it is not in the trash
  bool in_trash(const Digest& id) const { return config_.trash && config_.trash->has(id); }
  wire::Upload line_of(const Digest& id, const std::string& path) const;
  bool is_labelled(const Digest& id, const AllModels& all) const;  // by each of them
  Result<Labelling> begin_labels(const std::string& path, const std::string& file);
  std::vector<wire::Upload> labels_at(const FoundPhoto& photo) const;
  std::vector<wire::Upload> labels_of(const wire::Upload& taken, Labelling labelling);
  // False, and without a label, where the model makes none of the photo.
  static bool put_label(wire::Upload& line, OnlineModel& model, const std::vector<ClassScore>& top);
  Status erase(const Digest& id, std::vector<std::string> paths);
  Status erase_file(const Digest& id, const std::string& file, bool any_bytes);

  void chores();
  void load_versions();
  bool is_coming(const std::string& task) const;  // a version is to be loaded
  bool label_waiting();                           // whether nothing failed
  bool label_waiting(const std::shared_ptr<OnlineModel>& model);
  class WaitingBatch;
  void tidy();
  void forget_traces(const std::set<Digest>& erased);

  const UploadConfig config_;
  PhotoDecoder& decoder_;
  Fs& fs_;
  const StorePhotos photos_;
  Clock& clock_;
  UploadLog& log_;
  UploadFiles files_;
  SegmentStore& cache_;
  UploadPriority& upload_priority_;
  const std::function<void()> changed_;
  OnlineLabeler online_;
  CacheWriter cache_writer_;
  std::counting_semaphore<> decoders_;

  std::mutex catalogue_mutex_;
  const std::unique_ptr<Catalogue> catalogue_;

  std::atomic<int64_t> unreadable_{0};

  mutable std::mutex mutex_;  // of all below
  std::condition_variable freed_, woken_;
  std::set<Digest> busy_;
  RateLimiter rate_limiter_;
  int64_t in_progress_ = 0, held_bytes_ = 0, refused_ = 0, bytes_ = 0;
  int64_t found_ = 0, waited_ = 0;
  std::map<std::string, std::function<std::shared_ptr<OnlineModel>()>> coming_;  // by task
  bool unlabelled_ = true, stopping_ = false;
  std::set<Digest> erased_;  // since the last time that files were tidied up

  // Of the thread.
  std::chrono::nanoseconds tidied_{0};
  std::set<Digest> undecodable_;  // of those that wait
  std::jthread thread_;
};

}  // namespace ndtrain::ndp
