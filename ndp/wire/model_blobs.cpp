#include "ndp/wire/model_blobs.h"

#include <algorithm>
#include <set>

#include "framework/core/file_digest.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kWhole = ".onnx", kPart = ".part";

}  // namespace

ModelBlobs::ModelBlobs(Fs& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {
  fs_.make_directories(directory_).or_throw();
}

std::string ModelBlobs::path(const Digest& model) const {
  return join(directory_, to_hex(model) + std::string(kWhole));
}
std::string ModelBlobs::part(const Digest& model) const {
  return join(directory_, to_hex(model) + std::string(kPart));
}

bool ModelBlobs::has(const Digest& model) const { return fs_.exists(path(model)); }

Status ModelBlobs::check(const Digest& model) const {
  const Result<Digest> digest = sha256_of_file(fs_, path(model));
  if (!digest.ok()) return digest.status();
  if (*digest == model) return {};
  return {Code::kCorrupt, path(model) + ": is damaged: it has the digest " +
                              to_hex(*digest).substr(0, 12) + ", not that of its name"};
}

std::vector<std::string> ModelBlobs::names() const {
  const Result<std::vector<std::string>> names = fs_.list(directory_);
  return names.ok() ? *names : std::vector<std::string>();
}

std::vector<Digest> ModelBlobs::list() const {
  std::vector<Digest> all;
  for (const std::string& name : names()) {
    if (name.size() == kWhole.size() + 64 && name.ends_with(kWhole) && !is_temporary(name)) {
      all.push_back(digest_from_hex(std::string_view(name).substr(0, 64)));
    }
  }
  return all;
}

void ModelBlobs::sweep(std::span<const Digest> keep) {
  std::set<std::string> kept;
  for (const Digest& model : keep) {
    kept.insert(std::string(name_of_path(path(model))));
    kept.insert(std::string(name_of_path(part(model))));
  }
  for (const std::string& name : names()) {
    if (kept.contains(name) || !(name.ends_with(kWhole) || name.ends_with(kPart))) continue;
    const Status s = fs_.remove(join(directory_, name));
    if (!s.ok()) log::warn("{}", s.message());
  }
}

void ModelBlobs::remove(const Digest& model) {
  const Status s = fs_.remove(path(model));
  if (!s.ok() && s.code() != Code::kNotFound) log::warn("{}", s.message());
}

Result<int64_t> ModelBlobs::offset(const Digest& model) const {
  const Result<FileInfo> info = fs_.info(part(model));
  if (info.ok()) return info->size;
  if (info.status().code() == Code::kNotFound) return int64_t{0};
  return info.status();
}

Result<bool> ModelBlobs::add(const Digest& model, int64_t offset, int64_t total,
                             std::string_view bytes) {
  if (total < 1 || total > limits::kModelFile) {
    return Status(Code::kTooLarge, "a model of " + std::to_string(total) + " bytes; the limit is " +
                                       std::to_string(limits::kModelFile));
  }
  if (has(model)) return true;
  const Result<int64_t> here = this->offset(model);
  if (!here.ok()) return here.status();
  if (offset != *here) {
    return Status(Code::kCancelled, "a part from " + std::to_string(offset) + " on, where " +
                                        std::to_string(*here) + " bytes are");
  }
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > total - offset) return Status(Code::kCorrupt, "a part reaches beyond its model");
  {
    Result<std::unique_ptr<File>> file = fs_.open(part(model), Fs::Mode::kAppend);
    if (!file.ok()) return file.status();
    if (const Status s = (*file)->append(std::as_bytes(std::span(bytes))); !s.ok()) return s;
  }
  if (offset + size < total) return false;
  return finish(model);
}

Result<bool> ModelBlobs::finish(const Digest& model) {
  Result<std::unique_ptr<File>> file = fs_.open(part(model), Fs::Mode::kAppend);
  if (!file.ok()) return file.status();
  const Result<Digest> digest = sha256_of_file(fs_, part(model));
  if (!digest.ok()) return digest.status();
  if (*digest != model) {
    file->reset();
    if (const Status s = fs_.remove(part(model)); !s.ok()) return s;
    return Status(Code::kCorrupt, "what arrived as model " + to_hex(model).substr(0, 12) +
                                      " has the digest " + to_hex(*digest).substr(0, 12));
  }
  (*file)->sync();
  file->reset();
  if (const Status s = fs_.rename(part(model), path(model)); !s.ok()) return s;
  fs_.sync_directory(directory_);
  return true;
}

}  // namespace ndtrain::ndp
