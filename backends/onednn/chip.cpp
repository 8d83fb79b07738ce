#include "backends/onednn/chip.h"

#include <cpuid.h>

#include <cstring>

namespace ndtrain::onednn {

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
  return name;
}

}  // namespace ndtrain::onednn
