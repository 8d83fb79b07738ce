#include "framework/sparse/sync/state_files.h"

#include <algorithm>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/train/safetensors.h"

namespace ndtrain {

StateFiles::StateFiles(Fs& fs, std::string directory, int rank)
    : StateFiles(fs, std::move(directory), "rank" + std::to_string(rank) + "-") {}

StateFiles::StateFiles(Fs& fs, std::string directory, std::string prefix)
    : fs_(fs), directory_(std::move(directory)), prefix_(std::move(prefix)) {}

std::string StateFiles::name_of(const Position& at) const {
  return prefix_ + "epoch" + std::to_string(at.epoch) + "-step" + std::to_string(at.step) +
         ".safetensors";
}

void StateFiles::write(const Position& at, const std::map<std::string, Tensor>& state) {
  fs_.make_directories(directory_).or_throw();
  publish(fs_, join(directory_, name_of(at)), to_safetensors({.tensors = state, .metadata = {}}))
      .or_throw();
}

std::optional<std::map<std::string, Tensor>> StateFiles::read(const Position& at) const {
  const std::string file = join(directory_, name_of(at));
  Result<std::string> bytes = fs_.read(file);
  if (bytes.status().code() == Code::kNotFound) return std::nullopt;
  Result<TensorFile> read = from_safetensors(std::move(bytes).or_throw());
  if (!read.ok()) throw Error(file, ": ", read.status().message());
  return std::move(read).or_throw().tensors;
}

void StateFiles::keep_only(const std::vector<Position>& these) {
  Result<std::vector<std::string>> there = fs_.list(directory_);
  if (!there.ok()) return;
  std::vector<std::string> kept;
  for (const Position& at : these) kept.push_back(name_of(at));
  for (const std::string& name : std::move(there).or_throw()) {
    if (!name.starts_with(prefix_ + "epoch") || std::ranges::count(kept, name) > 0) continue;
    const Status removed = fs_.remove(join(directory_, name));
    if (!removed.ok()) log::debug("{}", removed.message());
  }
}

}  // namespace ndtrain
