#include "cli/verb.h"

#include <algorithm>
#include <vector>

namespace ndtrain::cli {

std::span<const Verb> verbs() {
  static const std::vector<Verb> all = [] {
    std::vector<Verb> list;
    for (const VerbSection& section : verb_sections()) {
      list.insert(list.end(), section.verbs.begin(), section.verbs.end());
    }
    return list;
  }();
  return all;
}

const Verb* find_verb(std::span<const std::string> words, size_t& taken) {
  for (taken = std::min<size_t>(2, words.size()); taken > 0; --taken) {
    const std::string name = taken == 2 ? words[0] + " " + words[1] : words[0];
    for (const Verb& v : verbs()) {
      if (v.name == name) return &v;
    }
  }
  return nullptr;
}

}  // namespace ndtrain::cli
