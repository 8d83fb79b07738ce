// What our ONNX files say of themselves: metadata_props under keys of ours. The values' meaning is
// their owners' business (photos know what preprocessing is); here are the names and the forms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/graph/model.h"

namespace ndtrain::metadata {

inline constexpr const char* kClasses =
    "ndtrain.classes";  // JSON array, in the order of the logits
inline constexpr const char* kPreprocessing = "ndtrain.preprocessing";
inline constexpr const char* kParent = "ndtrain.parent";  // the version this one was trained from
inline constexpr const char* kVersion = "ndtrain.version";
inline constexpr const char* kExtractorId = "ndtrain.extractor_id";  // hex digests
inline constexpr const char* kHeadId = "ndtrain.head_id";
inline constexpr const char* kFeatureDtype = "ndtrain.feature_dtype";

std::optional<std::string> get(const Model& model, const std::string& key);

// Empty when the model names none. Throws Error when the entry is no list of distinct names.
std::vector<std::string> classes(const Model& model);
void set_classes(Model& model, const std::vector<std::string>& names);  // UTF-8, distinct

std::optional<Digest> digest(const Model& model, const std::string& key);  // throws Error: not hex
void set_digest(Model& model, const std::string& key, const Digest& digest);

}  // namespace ndtrain::metadata
