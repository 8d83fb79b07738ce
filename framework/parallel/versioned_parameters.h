// Several versions of the values of parameters, for steps that compute with an earlier one
// than the newest. Nothing is copied: plans are given addresses, and the optimizer writes the next
// version over the oldest.
#pragma once

#include <vector>

#include "framework/runtime/device_tensor.h"
#include "framework/train/parameter_range.h"

namespace ndtrain {

// A ring of as many buffers as there are versions at once, the next among them. Versions count from
// 0, the values as they are when this is made. Not thread-safe.
class VersionedParameters {
 public:
  // At least two versions of so many elements. `first`, device memory that outlives this, is one of
  // the buffers, that of any version until restart(). Throws Error.
  VersionedParameters(float* first, int64_t size, int versions, const Device& device);

  int64_t newest() const { return newest_; }
  // Device address of a version's first element: of the newest and those before it that are still
  // there, and of the next once it is begun. Throws Error of others.
  const float* values(int64_t version) const;

  // A version stays while it is held: from a forward pass to its backward pass, say.
  void hold(int64_t version);
  void give_back(int64_t version);

  // Where version newest() + 1 is written, the first call begins it. Throws Error while the oldest
  // version, which lies there, is held.
  float* next();
  // A range of it is written, each element once; with the last it is the newest.
  void publish(ParameterRange range);
  // Whether all of the range can be read in that version.
  bool published(ParameterRange range, int64_t version) const;

  // With nothing held or begun: the newest version is version 0, and in the first buffer.
  void restart();

 private:
  size_t place(int64_t version) const;
  bool is_there(int64_t version) const;

  const int64_t size_;
  const Device& device_;
  std::vector<DeviceTensor> own_;  // the buffers besides the first
  std::vector<float*> ring_;
  std::vector<int> holders_;  // by place in the ring
  int64_t newest_ = 0;
  bool begun_ = false;                     // the next version
  std::vector<ParameterRange> published_;  // of it: sorted, with gaps between them
};

}  // namespace ndtrain
