#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <iterator>

namespace ndtrain::fuzz {

std::vector<FuzzTarget> all_targets() {
  std::vector<FuzzTarget> all;
  for (auto* of_file : {onnx_targets, photo_targets, training_targets, plan_targets, store_targets,
                        tuner_targets, wire_targets, job_targets, group_targets, s3_targets}) {
    std::vector<FuzzTarget> more = of_file();
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

bool read_by(const FuzzTarget& target, std::string_view input) {
  try {
    return target.read(input);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ndtrain::fuzz
