// What a PipeStore makes of its photos when a job asks: its inventory, and a row for each photo.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  std::vector<StorePhoto> photos;  // by digest, each once
  uint64_t unreadable = 0;         // files that are no whole photos
  double seconds = 0;              // that it took to list and hash them
};

// One thread at a time, but for photos() and give_up().
class RowProducer {
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
    std::optional<double> joules;  // that the machine's processors used meanwhile
  };

  virtual ~RowProducer() = default;

  // What there is: as of the last scan, or, before one, as a look at the directory says.
  virtual uint64_t photos() const = 0;
  // What is there now. A Status when the photo directory cannot be read.
  virtual Result<StoreInventory> scan() = 0;
  // A job begins; `extractor` and `head` are the paths of its models, where it has them. How large
  // a row is; a Status when the job cannot be done here.
  virtual Result<RowDelivery::RowSize> open(const wire::Job& job, const std::string& extractor,
                                            const std::string& head) = 0;
  // Rows of the job that was opened last, for photos of the inventory that was scanned last.
  virtual Result<Made> make(std::span<const size_t> places) = 0;
  // Rows of the extractor of the job that was opened last, one after the other, for these photo
  // files, which are in no inventory.
  virtual Result<std::string> sample(std::span<const std::string> /*photos*/) {
    return Status(Code::kUnsupported, "there is no extractor");
  }
  // Times as fast as in f32 that this store computes in bf16.
  virtual double bf16_gain() { return 1; }
  // From any thread: what make() gives for this job is of no use any more, until open() begins it
  // again; it returns soon.
  virtual void give_up(uint64_t /*job*/) {}
  // Nobody wants rows now: what open() made ready may go.
  virtual void close() {}
};

}  // namespace ndtrain::ndp
