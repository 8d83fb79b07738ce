// Where a PipeStore keeps a photo that was uploaded: under a name that says nothing but its bytes,
// so that nobody takes the folder for a class.
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

// Whether a path ends in what upload_path() gives, and of which photo that is.
bool is_upload_path(std::string_view path);
std::optional<Digest> photo_of_upload_path(std::string_view path);

}  // namespace ndtrain::ndp
