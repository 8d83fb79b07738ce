// Some places of a directory of photos, as DirectorySource would list them: each is the path of a
// photo, or that of a directory with all that is below it. What is not there, is no photo or has a
// part that starts with a dot, is not listed. A place below another is left to that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ndp/photos/photo_source.h"

namespace ndtrain::ndp {

class PlacesSource final : public PhotoSource {
 public:
  PlacesSource(Fs& fs, std::string root, const std::vector<std::string>& places);

  Result<PhotoPage> list(const std::string& cursor, size_t limit) override;
  Result<std::string> open(const std::string& path) override;

 private:
  Status visit(const std::string& place, PhotoPage& page);
  Status list_below(size_t limit, PhotoPage& page);  // of directory_

  Fs& fs_;
  const std::string root_;
  std::vector<std::string> places_;  // sorted
  size_t next_ = 0;                  // of these
  // The place that is being listed, if it is a directory.
  std::string at_, cursor_;
  std::unique_ptr<DirectorySource> directory_;
};

}  // namespace ndtrain::ndp
