// The photos of a directory that is far away, as a scan reads them: what was fetched to be hashed
// need not be fetched again to be used. The scan goes ahead on a thread of its own, by as much as
// one part (ScanOptions); while the source is away it waits and says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ndp/photos/catalogue.h"

namespace ndtrain::ndp {

class PhotoFeed {
 public:
  // Until it is destroyed, `catalogue` is its own. `again`: from a look at a source that is away to
  // the next.
  PhotoFeed(PhotoSource& source, Catalogue& catalogue, std::chrono::nanoseconds again);
  ~PhotoFeed();  // ends the scan
  PhotoFeed(const PhotoFeed&) = delete;
  PhotoFeed& operator=(const PhotoFeed&) = delete;

  // The next photos that are new or changed, and whole. Nullopt: that was all, or `stop` is true.
  // Throws Error for what ended the scan.
  std::optional<std::vector<PhotoRead>> next(const std::function<bool()>& stop);
  // After the last part.
  const ScanReport& report() const { return report_; }

 private:
  void run();
  Result<ScanReport> scan();
  void there();  // the source, if it was away
  bool give(std::vector<PhotoRead> part);

  PhotoSource& source_;
  Catalogue& catalogue_;
  const std::chrono::nanoseconds again_;
  ScanReport report_;
  bool away_ = false;  // the thread's

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::optional<std::vector<PhotoRead>> part_;
  bool ending_ = false, over_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace ndtrain::ndp
