// The photos of a PipeStore: those of its photo directory, and those that people uploaded. Uploads
// lie below the store's state, as uploads/5f/5f70….jpg, never among folders that somebody takes
// for classes. Older versions kept them under the same paths in the photo directory, where they
// are found still.
#pragma once

#include <string>

#include "ndp/photos/photo_source.h"

namespace ndtrain::ndp {

class StorePhotos final : public PhotoSource {
 public:
  // `state` "": nobody uploads here.
  StorePhotos(Fs& fs, std::string photos, std::string state);

  Result<PhotoPage> list(const std::string& cursor, size_t limit) override;
  // The cursor behind which uploads alone are listed; "": there are none below the state.
  std::string first_upload() const;
  Result<std::string> open(const std::string& path) override;

  // Any thread.
  std::string file_of(const std::string& path) const;  // where the photo is
  bool is_upload(const std::string& path) const;       // below the state
  // How many uploads are in the photo directory, as of the last listing.
  int64_t left_by_older() const { return left_by_older_; }

 private:
  std::string uploaded_file(const std::string& path) const;  // "" when the photo is no upload

  Fs& fs_;
  const std::string photos_, state_;
  DirectorySource collection_, uploads_;
  int64_t left_by_older_ = 0;
};

// What to say to people who may mean the folders of a photo directory as classes; "" where there
// are no such folders.
std::string class_folders_hint(Fs& fs, const std::string& photos);

// Throws Error when uploads below `state` would lie among the photos.
void check_apart(const std::string& state, const std::string& photos);

}  // namespace ndtrain::ndp
