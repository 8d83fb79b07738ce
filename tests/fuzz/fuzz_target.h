// Readers of bytes that others wrote, each as a fuzzer calls it: with anything. What one may do is
// return, or throw Error; whatever else is thrown, a crash, what a sanitizer says, a hang, and
// memory out of proportion to the input are findings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::fuzz {

struct FuzzTarget {
  std::string name;  // and of the directory in corpus/ that has more inputs
  // Whether the input was one that is taken.
  bool (*read)(std::string_view input);
  // Small inputs that are taken, from which a fuzzer sets out.
  std::vector<std::string> (*seeds)();
};

// Each of these is a file of targets/.
std::vector<FuzzTarget> onnx_targets();
std::vector<FuzzTarget> photo_targets();     // and what is known of them
std::vector<FuzzTarget> training_targets();  // checkpoints, deltas, what ranks send each other
std::vector<FuzzTarget> plan_targets();
std::vector<FuzzTarget> store_targets();  // files of a PipeStore
std::vector<FuzzTarget> tuner_targets();  // files of a Tuner, what clients and operators give it
std::vector<FuzzTarget> wire_targets();   // messages, HTTP
std::vector<FuzzTarget> job_targets();    // what a Tuner keeps of a job
std::vector<FuzzTarget> group_targets();  // what Tuners say to each other, and ranks
std::vector<FuzzTarget> s3_targets();     // what an S3 answers; none in a build without S3

std::vector<FuzzTarget> all_targets();

// False where it throws Error.
bool read_by(const FuzzTarget& target, std::string_view input);

}  // namespace ndtrain::fuzz
