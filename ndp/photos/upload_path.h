// Where a PipeStore keeps a photo that was uploaded: under a name that says nothing but its bytes,
// so that nobody takes the folder for a class. On disks there are folders in between, as some file
// systems are slow with many files in one; in an S3 there are none, as each is a request to list.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

inline constexpr std::string_view kUploadDirectory = "uploads";

// "uploads/5f/5f70….jpg"; `extension` has its dot.
std::string upload_path(const Digest& photo, std::string_view extension);

// The same by what the file holds; as a JPEG where this build does not read it.
std::string upload_path_of(const Digest& photo, std::string_view file);

// Of the same photo in an S3: "uploads/5f70….jpg".
std::string upload_key(std::string_view upload_path);

// Whether a path ends in what upload_path() or upload_key() gives, and of which photo that is.
bool is_upload_path(std::string_view path);
std::optional<Digest> photo_of_upload_path(std::string_view path);

}  // namespace ndtrain::ndp
