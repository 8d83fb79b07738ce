#include "ndp/pipestore/step_thread.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "framework/core/log.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::nanoseconds kGlance = std::chrono::milliseconds(500);

}  // namespace

StepThread::StepThread(const char* name, std::function<std::chrono::nanoseconds()> step,
                       Clock& clock)
    : thread_([name, step = std::move(step), &clock](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any woken;
        std::string failed;
        while (!stop.stop_requested()) {
          std::chrono::nanoseconds wait = kGlance;
          try {
            wait = std::clamp(step() - clock.monotonic(), std::chrono::nanoseconds(0), kGlance);
            failed.clear();
          } catch (const std::exception& e) {
            if (std::exchange(failed, e.what()) != e.what()) log::warn("{}: {}", name, e.what());
          }
          std::unique_lock lock(mutex);
          woken.wait_for(lock, stop, wait, [] { return false; });
        }
      }) {}

}  // namespace ndtrain::ndp
