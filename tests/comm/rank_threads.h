// Ranks as threads of a test, each with a Communicator.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/communicator.h"
#include "tests/comm/transports.h"

namespace ndtrain::comm_tests {

inline RankGroup first_ranks(int ranks) {
  RankGroup group(static_cast<size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  return group;
}

// Calls `body` for each rank in a thread of its own, and at the end waits for all of them.
inline void run_ranks(Ranks transports, const Communicator::Options& options,
                      const std::function<void(Communicator&)>& body) {
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&options, &body, t = std::move(transport)]() mutable {
      Communicator comm(std::move(t), options);
      body(comm);
    });
  }
}

inline void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  run_ranks(memory_transports(ranks), {}, body);
}

// Enqueued, released and done.
inline void carry_out(Communicator& comm, CommOp op) {
  const Communicator::Op id = comm.enqueue(std::move(op));
  comm.release(id);
  comm.wait(id);
}

// Leaves of each of so many ranks that have them in turn.
inline std::vector<int> share_out(int leaves, int ranks) {
  std::vector<int> begins;
  for (int p = 0; p <= ranks; ++p) begins.push_back(leaves * p / ranks);
  return begins;
}

}  // namespace ndtrain::comm_tests
