#include "backends/onednn/tuning.h"

#include <cpuid.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "backends/onednn/dnnl_v2.h"
#include "backends/onednn/kernel.h"

namespace ndtrain::onednn {
namespace {

constexpr const char* kHeading = "ndtrain onednn choices 1";

void log(const std::string& message) {
  if (host().log) host().log(1, message.c_str());
}

std::string one_word(std::string s) {
  for (char& c : s) {
    if (c <= ' ') c = '_';
  }
  return s;
}

}  // namespace

std::string chip_name() {
  unsigned words[12] = {};
  for (unsigned i = 0; i < 3; ++i) {
    if (!__get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                     &words[4 * i + 3])) {
      return "unknown";
    }
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name(text);
  name.erase(0, name.find_first_not_of(' '));
  return one_word(name);
}

Tuning::Tuning(std::string path) : path_(std::move(path)) { read(); }

void Tuning::read() {
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line) || line != kHeading) return;
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
    file << kHeading << '\n';
    for (const auto& [key, choice] : choices_) file << key << ' ' << choice << '\n';
    file.close();
    if (!file) {
      std::remove(draft.c_str());
      return log("onednn: cannot write the tuning file " + draft);
    }
  }
  if (std::rename(draft.c_str(), path_.c_str()) != 0) {
    std::remove(draft.c_str());
    log("onednn: cannot replace the tuning file " + path_);
  }
}

std::string Tuning::choose(const std::string& key, const std::string& rule,
                           const std::function<std::string()>& measure) {
  static const std::string here = chip_name() + ' ' + one_word(library_name()) + ' ';
  const std::lock_guard lock(mutex_);
  const std::string whole = here + key;
  auto known = choices_.find(whole);
  if (known == choices_.end()) {
    known = choices_.emplace(whole, measure()).first;
    write();
  }
  if (known->second != rule && unruly_.emplace(whole, known->second).second) {
    publish_choices(unruly_);
  }
  return known->second;
}

}  // namespace ndtrain::onednn
