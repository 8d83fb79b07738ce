#include "tests/sandbox/hostile_pool.h"

#include "tests/support/paths.h"

namespace ndtrain::testing {

DecoderPool::Config hostile_config() {
  DecoderPool::Config config;
  config.worker.program = support::build_path("/bin/ndt_hostile_decoder");
  config.worker.limits.memory = int64_t{512} << 20;
  config.worker.deadline = std::chrono::seconds(60);
  config.workers = 1;
  return config;
}

ModelSandbox::Config hostile_models() {
  return {.program = support::build_path("/bin/ndt_hostile_decoder"),
          .memory = int64_t{512} << 20,
          .deadline = std::chrono::seconds(60)};
}

}  // namespace ndtrain::testing
