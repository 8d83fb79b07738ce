// Model files of the Tuner and the deltas between them, by SHA-256: DIR/<hex>.onnx. Nothing here is
// ever changed, but that a damaged file is replaced when its model is added again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "ndp/jobs/model_check.h"

namespace ndtrain::tuner {
using namespace ndp;

class ModelStore {
 public:
  // `directory` is made if absent. `check`, borrowed, is asked before a model is imported; null:
  // nobody is. Throws Error.
  ModelStore(Fs& fs, std::string directory, ModelCheck* check = nullptr);

  bool has(const Digest& model) const { return fs_.exists(path(model)); }
  std::string path(const Digest& model) const;
  // Durable on return. kTooLarge, kNoSpace, kIo.
  Result<Digest> add(std::string_view bytes);
  Result<Digest> add_file(const std::string& path);  // by read_as_one_file()
  // Both compare the bytes with the digest, since a disk may have changed them.
  Result<std::string> read_all(const Digest& model) const;  // kNotFound, kIo, kCorrupt
  ModelFile load(const Digest& model) const;                // throws Error
  int64_t size(const Digest& model) const;                  // 0: it is not here
  std::vector<Digest> list() const;                         // all there are
  Status remove(const Digest& model);
  // Up to `limit` bytes from `offset` on, and how many there are in all. kNotFound.
  struct Part {
    std::string bytes;
    int64_t total = 0;
  };
  Result<Part> read(const Digest& model, int64_t offset, size_t limit) const;

 private:
  Fs& fs_;
  std::string directory_;
  ModelCheck* const check_;
};

}  // namespace ndtrain::tuner
