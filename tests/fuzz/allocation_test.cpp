// Memory runs out at the n-th allocation of each reader of foreign bytes: it ends in an Error or in
// std::bad_alloc, which the program has a boundary for, and nothing is left behind. Never a crash.
//
// Two libraries cannot do that: a destructor of nlohmann::json allocates, so that the process ends
// by std::terminate, which says why, and one that is being made of a list leaves its value behind;
// so does a message of protobuf's that is being added to another one. Readers that use them are
// listed.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <ostream>
#include <set>

#include "framework/core/log.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/failing_new.h"

namespace ndtrain::fuzz {

void PrintTo(const FuzzTarget& target, std::ostream* os) { *os << target.name; }

namespace {

using support::FailingNew;

constexpr int64_t kMostTries = 300;   // of one seed; spread over its allocations
constexpr double kMostSeconds = 1;    // of one seed
constexpr size_t kSmallestSeeds = 2;  // of a target
constexpr int kTerminated = 42;       // exit status

// By the one, and by the other.
const std::set<std::string> kMayTerminate = {
    "checkpoint",    "comm_plan",      "metrics",    "notes",        "cost_profile",
    "model_profile", "pipeline_plan",  "network",    "plan_profile", "json",
    "job_spec",      "rule_json",      "rule_toml",  "tokens",       "labels_jsonl",
    "labels_json",   "versions",       "trash",      "manifest",     "known_stores",
    "cbor",          "first_numerics", "job_record", "closed_runs",  "quarantine",
    "group_rules",   "rank_hello",     "rank_answer"};  // the last two: what ends a MemoryNet
const std::set<std::string> kMayLeave = {"onnx", "tuner_sessions", "member_sessions", "job_record"};

// Where a child is, and what it has found; its parent sees it.
struct Found {
  size_t seed = 0;
  int64_t next = 0;         // try of the seed
  int64_t allocations = 0;  // of all seeds
  int64_t failed = 0, left_behind = 0;
  int64_t left_at = 0, at = 0;  // allocation
  bool over = false;
};

// Whether the allocation came at all; what was left behind is counted in `left`.
bool fails_at(const FuzzTarget& target, int64_t n, const std::string& input, int64_t& left) {
  const int64_t live = support::live_allocations();
  bool failed = false;
  {
    const FailingNew failing(n);
    try {
      target.read(input);
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
    failed = failing.failed();
  }
  left = support::live_allocations() - live;
  return failed;
}

// Tries the seed from where `found` is.
void try_seed(const FuzzTarget& target, const std::string& seed, Found& found) {
  if (!read_by(target, seed)) std::abort();  // and what is made once is made
  const auto begun = std::chrono::steady_clock::now();
  int64_t all = 0;
  {
    const FailingNew counting(0);
    target.read(seed);
    all = counting.allocations();
  }
  if (found.next == 0) found.allocations += all;
  if (all == 0) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const auto affordable = static_cast<int64_t>(kMostSeconds / std::max(took.count(), 1e-6));
  const int64_t tries = std::clamp<int64_t>(std::min(affordable, all), 1, kMostTries);
  while (found.next < tries) {
    found.at = 1 + found.next++ * all / tries;
    int64_t left = 0, again = 0;
    found.failed += fails_at(target, found.at, seed, left) ? 1 : 0;
    if (left > 0) fails_at(target, found.at, seed, again);  // what is made once is not left behind
    if (left <= 0 || again <= 0) continue;
    ++found.left_behind;
    found.left_at = found.at;
  }
}

[[noreturn]] void run_child(const FuzzTarget& target, Found& found) {
  std::set_terminate([] { ::_exit(kTerminated); });
  log::set_level(log::Level::kOff);
  std::vector<std::string> seeds = target.seeds();
  std::ranges::stable_sort(seeds, {}, &std::string::size);
  seeds.resize(std::min(seeds.size(), kSmallestSeeds));
  for (; found.seed < seeds.size(); ++found.seed, found.next = 0) {
    try_seed(target, seeds[found.seed], found);
  }
  found.over = true;
  ::_exit(0);
}

class OutOfMemory : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(OutOfMemory, EndsInAnErrorAndLeavesNothing) {
  const FuzzTarget& target = GetParam();
  void* const shared =
      ::mmap(nullptr, sizeof(Found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Found& found = *new (shared) Found;
  int64_t terminated = 0;
  while (!found.over) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) run_child(target, found);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (found.over) break;
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kTerminated)
        << "allocation " << found.at << " of seed " << found.seed << ": "
        << (WIFSIGNALED(status) ? "signal " : "status ")
        << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    ++terminated;
    ++found.failed;
    ASSERT_TRUE(kMayTerminate.contains(target.name))
        << "terminates when allocation " << found.at << " of seed " << found.seed << " fails";
  }
  std::printf("%s: %lld allocations failed, %lld ended the process, %lld left something behind\n",
              target.name.c_str(), static_cast<long long>(found.failed),
              static_cast<long long>(terminated), static_cast<long long>(found.left_behind));
  EXPECT_TRUE(found.failed > 0 || found.allocations == 0);
  EXPECT_TRUE(found.left_behind == 0 || kMayLeave.contains(target.name))
      << "something is left behind when allocation " << found.left_at << " fails";
  ::munmap(shared, sizeof(Found));
}

INSTANTIATE_TEST_SUITE_P(Readers, OutOfMemory, ::testing::ValuesIn(all_targets()),
                         [](const auto& target) { return target.param.name; });

}  // namespace
}  // namespace ndtrain::fuzz
