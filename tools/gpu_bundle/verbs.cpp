// The verbs of the program that goes into the bundle.
#include <vector>

#include "cli/verb.h"

namespace ndtrain::cli {

std::span<const Verb> verbs() {
  static const std::vector<Verb> all = [] {
    std::vector<Verb> list;
    for (const auto& part : {local_verbs(), local_model_verbs(), local_bench_verbs()}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

}  // namespace ndtrain::cli
