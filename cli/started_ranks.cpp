#include "cli/started_ranks.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "framework/core/error.h"

namespace ndtrain::cli {

ScratchDirectory::ScratchDirectory(const std::string& name)
    : path_(std::filesystem::temp_directory_path() / (name + "-XXXXXX")) {
  if (::mkdtemp(path_.data()) == nullptr) {
    throw Error("cannot make the directory ", path_, ": ", std::strerror(errno),
                "; TMPDIR names another place");
  }
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

StartedRanks::~StartedRanks() {
  for (const ProcessId& p : processes_) wait_for(p);
}

void StartedRanks::start(const std::vector<std::string>& words, int ranks,
                         const std::string& rendezvous, int64_t threads) {
  scratch_.emplace("ndtrain-ranks");
  for (int r = 1; r < ranks; ++r) {
    std::vector<std::string> all = words;
    const std::string more[] = {"--rank",  std::to_string(r), "--rendezvous",         rendezvous,
                                "--quiet", "--threads",       std::to_string(threads)};
    all.insert(all.end(), std::begin(more), std::end(more));
    processes_.push_back(start_beside(all, scratch_->path()));
  }
}

void StartedRanks::end(const std::vector<int>& ranks) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (std::ranges::count(ranks, static_cast<int>(i) + 1) > 0) end_now(processes_[i]);
  }
}

}  // namespace ndtrain::cli
