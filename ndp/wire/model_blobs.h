// Models on a PipeStore's disk (and, while they are needed, the deltas that make one of another),
// by SHA-256 of the file, and how they get there: in parts, from wherever an earlier attempt
// stopped, and under their name only once every byte is verified.
//
// DIR/<hex>.onnx    a whole model
// DIR/<hex>.part    the first bytes of one
//
// One process per directory. One thread, but for check().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::ndp {

class ModelBlobs {
 public:
  // `directory` is made if absent.
  ModelBlobs(Fs& fs, std::string directory);

  bool has(const Digest& model) const;
  // Whether the bytes that are here are the model's: before they are used, as a disk may have
  // changed them. kCorrupt; any thread.
  Status check(const Digest& model) const;
  std::vector<Digest> list() const;  // whole ones
  // Whole ones and the parts of others, but for `keep`. What cannot be removed stays.
  void sweep(std::span<const Digest> keep);
  void remove(const Digest& model);
  std::string path(const Digest& model) const;  // where it is, or will be
  // How many bytes of a model that is not here yet are.
  Result<int64_t> offset(const Digest& model) const;

  // The bytes from `offset` on of a model of `total` bytes. kCancelled when `offset` is not where
  // the file ends (a part of an earlier session: ignore it); kCorrupt when the last part is there
  // and the file is not the model: what there was of it is gone, ask again from 0. kTooLarge, kIo,
  // kNoSpace. True when the model is whole now.
  Result<bool> add(const Digest& model, int64_t offset, int64_t total, std::string_view bytes);

 private:
  std::vector<std::string> names() const;  // none when they cannot be read
  std::string part(const Digest& model) const;
  Result<bool> finish(const Digest& model);

  Fs& fs_;
  std::string directory_;
};

}  // namespace ndtrain::ndp
