#include "tuner/model_store.h"

#include "framework/core/limits.h"
#include "framework/core/publish.h"

namespace ndtrain {

ModelStore::ModelStore(Fs& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {
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
  if (has(digest)) return digest;
  if (const Status s = publish(fs_, path(digest), bytes); !s.ok()) return s;
  return digest;
}

Result<Digest> ModelStore::add_file(const std::string& file) {
  const Result<std::string> bytes = fs_.read(file, limits::kModelFile);
  if (!bytes.ok()) return bytes.status();
  return add(*bytes);
}

Result<ModelStore::Part> ModelStore::read(const Digest& model, int64_t offset, size_t limit) const {
  const Result<std::unique_ptr<File>> file = fs_.open(path(model), Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  const Result<int64_t> total = (*file)->size();
  if (!total.ok()) return total.status();
  Part part{.total = *total};
  part.bytes.resize(limit);
  const Result<size_t> n = (*file)->read_at(offset, std::as_writable_bytes(std::span(part.bytes)));
  if (!n.ok()) return n.status();
  part.bytes.resize(*n);
  return part;
}

}  // namespace ndtrain
