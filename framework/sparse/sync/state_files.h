// What a rank keeps of a training besides its checkpoints, in files of its own: gradients that were
// not sent yet are as large as the model, and other ranks have no use for them.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/tensor.h"

namespace ndtrain {

// "rank1-epoch3-step0.safetensors" and so on in a directory, one of each position of the training
// that a checkpoint was made of. One thread.
class StateFiles {
 public:
  struct Position {
    int64_t epoch = 0, step = 0;  // the next ones, as in the Checkpoint
    auto operator<=>(const Position&) const = default;
  };

  // Keeps a reference. The directory may be absent until something is written.
  StateFiles(Fs& fs, std::string directory, int rank);
  // The same with `prefix` for "rank1-": for a rank whose number changes.
  StateFiles(Fs& fs, std::string directory, std::string prefix);

  // Replaces what there is of the position, atomically. Throws Error: a full disk, say.
  void write(const Position& at, const std::map<std::string, Tensor>& state);
  // None where there is no such file. Throws Error where it is broken.
  std::optional<std::map<std::string, Tensor>> read(const Position& at) const;
  // Removes this rank's others. What cannot be removed stays.
  void keep_only(const std::vector<Position>& these);

 private:
  std::string name_of(const Position& at) const;

  Fs& fs_;
  const std::string directory_, prefix_;
};

}  // namespace ndtrain
