#include "backends/plugin/tuning.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace ndtrain::plugin {
namespace {

std::string one_word(std::string s) {
  for (char& c : s) {
    if (c <= ' ') c = '_';
  }
  return s;
}

}  // namespace

Tuning::Tuning(std::string path, Owner owner)
    : path_(std::move(path)),
      owner_(std::move(owner)),
      heading_("ndtrain " + owner_.plugin + " choices 1"),
      here_(one_word(owner_.chip) + ' ' + one_word(owner_.library) + ' ') {
  read();
}

void Tuning::read() {
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line) || line != heading_) return;
  while (std::getline(file, line)) {
    const size_t space = line.rfind(' ');
    if (space != std::string::npos) choices_.emplace(line.substr(0, space), line.substr(space + 1));
  }
}

// Replaced whole, with what others have added meanwhile.
void Tuning::write() {
  read();
  const std::string draft = path_ + "." + std::to_string(getpid());
  {
    std::ofstream file(draft);
    file << heading_ << '\n';
    for (const auto& [key, choice] : choices_) file << key << ' ' << choice << '\n';
    file.close();
    if (!file) {
      std::remove(draft.c_str());
      return owner_.log(owner_.plugin + ": cannot write the tuning file " + draft);
    }
  }
  if (std::rename(draft.c_str(), path_.c_str()) != 0) {
    std::remove(draft.c_str());
    owner_.log(owner_.plugin + ": cannot replace the tuning file " + path_);
  }
}

std::string Tuning::choose(const std::string& key, const std::string& rule,
                           const std::function<std::string()>& measure) {
  const std::lock_guard lock(mutex_);
  const std::string whole = here_ + key;
  auto known = choices_.find(whole);
  if (known == choices_.end()) {
    known = choices_.emplace(whole, measure()).first;
    write();
  }
  if (known->second != rule && unruly_.emplace(whole, known->second).second) {
    owner_.publish(unruly_);
  }
  return known->second;
}

}  // namespace ndtrain::plugin
