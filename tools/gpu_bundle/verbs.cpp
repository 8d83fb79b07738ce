// The verbs of the program that goes into the bundle.
#include <array>

#include "cli/verb.h"

namespace ndtrain::cli {

std::span<const VerbSection> verb_sections() {
  static const std::array kSections = {VerbSection{"On this machine", local_verbs()},
                                       VerbSection{"Models", local_model_verbs()},
                                       VerbSection{"Measurements", local_bench_verbs()},
                                       VerbSection{"This program", local_help_verbs()}};
  return kSections;
}

}  // namespace ndtrain::cli
