// What a PipeStore makes of its photos when jobs ask: its inventory, and a row for each photo.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ndp/jobs/photo_set.h"
#include "ndp/labels/label_db.h"
#include "ndp/pipestore/row_delivery.h"

namespace ndtrain::ndp {

struct StorePhoto {
  Digest digest{};
  std::string path;   // below the photo directory
  std::string label;  // "": none
  LabelSource source = LabelSource::kFolder;
  int64_t bytes = 0;
};

struct StoreInventory {
  std::vector<StorePhoto> photos;                  // by digest, each once
  uint64_t unreadable = 0;                         // files that are no whole photos
  std::vector<QuarantinedPhoto> unreadable_files;  // the first wire::kUnreadableFiles of these
  double seconds = 0;                              // that it took to list and hash them
};

// The rows of one job, of the photos of one inventory. One thread at a time, but for give_up().
class JobRows {
 public:
  struct Bad {
    size_t place = 0;  // in the inventory
    std::string reason;
  };
  struct Made {
    std::vector<std::string> rows;  // of the photos that could be read, in order
    std::vector<Bad> bad;
    double busy = 0;                       // seconds
    std::map<std::string, double> stages;  // seconds by the engine's steps
    // Rows of features and labels by what was at hand: "features", "crops", "photos".
    std::map<std::string, uint64_t> made_from;
    uint64_t photo_bytes = 0;      // of files that the engine read
    std::optional<double> joules;  // that the machine's processors used meanwhile
  };

  virtual ~JobRows() = default;

  virtual RowDelivery::RowSize row() const = 0;  // how large one is
  virtual Result<Made> make(std::span<const size_t> places) = 0;
  // Of a job with views: of each photo the features of all of them, one after the other.
  virtual Result<Made> make_views(std::span<const size_t> /*places*/) {
    return Status(Code::kUnsupported, "there are no views");
  }
  // Rows of the job's extractor, one after the other, for these photo files, which are in no
  // inventory.
  virtual Result<std::string> sample(std::span<const std::string> /*photos*/) {
    return Status(Code::kUnsupported, "there is no extractor");
  }
  // What these photos look like (ndp/photos/perceptual_hash.h); nullopt: one cannot be decoded.
  virtual Result<std::vector<std::optional<uint64_t>>> hashes(std::span<const size_t> /*places*/) {
    return Status(Code::kUnsupported, "photos have no hashes");
  }
  // From any thread: what make() gives is of no use any more; it returns soon.
  virtual void give_up() {}
};

// One thread at a time, which its JobRows share, but for photos().
class RowProducer {
 public:
  virtual ~RowProducer() = default;

  // What there is: as of the last scan, or, before one, as a look at the directory says.
  virtual uint64_t photos() const = 0;
  // What is there now. A Status when the photo directory cannot be read.
  virtual Result<StoreInventory> scan() = 0;
  // A job begins, beside those that are open, on the photos of `inventory`; `extractor` and `head`
  // are the paths of its models, where it has them. A Status when it cannot be done here. The
  // producer must outlive what it gives.
  virtual Result<std::unique_ptr<JobRows>> open(const wire::Job& job,
                                                std::shared_ptr<const StoreInventory> inventory,
                                                const std::string& extractor,
                                                const std::string& head) = 0;
  // Times as fast as in f32 that this store computes in bf16.
  virtual double bf16_gain() { return 1; }
};

}  // namespace ndtrain::ndp
