#include "tuner/models/model_store.h"

#include <algorithm>

#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/onnx/import.h"

namespace ndtrain::tuner {

ModelStore::ModelStore(Fs& fs, std::string directory, ModelCheck* check)
    : fs_(fs), directory_(std::move(directory)), check_(check) {
  fs_.make_directories(directory_).or_throw();
}

std::string ModelStore::path(const Digest& model) const {
  return join(directory_, to_hex(model) + ".onnx");
}

Result<Digest> ModelStore::add(std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > limits::kModelFile) {
    return Status(Code::kTooLarge, "a model of " + std::to_string(bytes.size()) +
                                       " bytes; the limit is " +
                                       std::to_string(limits::kModelFile));
  }
  const Digest digest = sha256(bytes);
  if (read_all(digest).ok()) return digest;
  if (const Status s = publish(fs_, path(digest), bytes); !s.ok()) return s;
  return digest;
}

Result<Digest> ModelStore::add_file(const std::string& file) {
  const Result<std::string> bytes = read_as_one_file(fs_, file);
  if (!bytes.ok()) return bytes.status();
  return add(*bytes);
}

Result<std::string> ModelStore::read_all(const Digest& model) const {
  Result<std::string> bytes = fs_.read(path(model), limits::kModelFile);
  if (!bytes.ok() || sha256(*bytes) == model) return bytes;
  return Status(Code::kCorrupt, path(model) + ": is damaged: its digest is not that of its name; " +
                                    "send the model again (ndtrain job submit -m), or put back a " +
                                    "backup of this file");
}

ModelFile ModelStore::load(const Digest& model) const {
  return checked_model(read_all(model).or_throw(), model, path(model), check_);
}

int64_t ModelStore::size(const Digest& model) const {
  const Result<FileInfo> info = fs_.info(path(model));
  return info.ok() ? info->size : 0;
}

std::vector<Digest> ModelStore::list() const {
  std::vector<Digest> all;
  for (const std::string& name : fs_.list(directory_).or_throw()) {
    if (is_temporary(name) || extension_of(name) != ".onnx" || name.size() != 64 + 5) continue;
    all.push_back(digest_from_hex(std::string_view(name).substr(0, 64)));
  }
  return all;
}

Status ModelStore::remove(const Digest& model) {
  if (Status s = fs_.remove(path(model)); !s.ok()) return s;
  fs_.sync_directory(directory_);
  return {};
}

Result<ModelStore::Part> ModelStore::read(const Digest& model, int64_t offset, size_t limit) const {
  const Result<std::unique_ptr<File>> file = fs_.open(path(model), Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  const Result<int64_t> total = (*file)->size();
  if (!total.ok()) return total.status();
  Part part{.total = *total};
  // No more than is left: a store may ask for the end of a model thousands of times.
  const int64_t left = std::max(*total - std::max(offset, int64_t{0}), int64_t{0});
  part.bytes.resize(std::min(limit, static_cast<size_t>(left)));
  const Result<size_t> n = (*file)->read_at(offset, std::as_writable_bytes(std::span(part.bytes)));
  if (!n.ok()) return n.status();
  part.bytes.resize(*n);
  return part;
}

}  // namespace ndtrain::tuner
