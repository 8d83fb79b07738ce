// A rank of the tests by mpirun: `mpi_ranks WHAT`. Exits with 0 where all is as it should be, with
// 4 where a rank is lost, with 1 otherwise.
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "framework/comm/comm_plugin.h"
#include "framework/comm/plugin_transport.h"
#include "framework/comm/sum_tree.h"
#include "tests/comm/rank_threads.h"
#include "tests/comm/tree_oracle.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using Kind = CommOp::Kind;
using Values = std::vector<float>;

size_t z(int i) { return static_cast<size_t>(i); }

void expect(bool holds, const std::string& what) {
  if (!holds) throw Error("wrong: ", what);
}

// Each rank has its leaves' sums; short messages, long ones, and none at all.
void expect_sums(Communicator& comm, size_t values, int shards) {
  const int ranks = comm.ranks(), me = comm.rank();
  const Leaves leaves = random_leaves(shards, values, 5);
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
    CommOp op{.kind = kind, .group = first_ranks(ranks), .name = "sum", .root = ranks - 1};
    op.leaf_begin = share_out(shards, ranks);
    Leaves partials;
    for (const Subtree& s : subtrees_of(op.leaf_begin[z(me)], op.leaf_begin[z(me) + 1], shards)) {
      partials.push_back(tree_sum(leaves, s.begin, s.end));
    }
    for (size_t i = 1; i < partials.size(); ++i) op.more_subtrees.push_back(partials[i].data());
    op.data = partials[0];
    carry_out(comm, op);
    const Values sum = tree_sum(leaves, 0, shards);
    const auto parts = equal_parts(static_cast<int64_t>(values), z(ranks));
    const bool all = kind == Kind::kAllReduce || (kind == Kind::kReduce && me == op.root);
    const auto begin = all ? 0 : parts[z(me)], end = all ? std::ssize(sum) : parts[z(me) + 1];
    if (kind == Kind::kReduce && !all) continue;
    expect(std::equal(sum.begin() + begin, sum.begin() + end, partials[0].begin() + begin),
           "the sum of " + std::to_string(values) + " values on rank " + std::to_string(me));
  }
}

void expect_copies(Communicator& comm, size_t values) {
  const int ranks = comm.ranks(), me = comm.rank();
  const Leaves leaves = random_leaves(ranks, values, 6);
  Values mine = leaves[z(me)];
  carry_out(comm, {.kind = Kind::kBroadcast,
                   .group = first_ranks(ranks),
                   .name = "broadcast",
                   .data = mine,
                   .root = ranks - 1});
  expect(mine == leaves.back(), "what is broadcast");
  mine = leaves[z(me)];
  carry_out(comm,
            {.kind = Kind::kAllGather, .group = first_ranks(ranks), .name = "AG", .data = mine});
  const auto parts = equal_parts(static_cast<int64_t>(values), z(ranks));
  for (int r = 0; r < ranks; ++r) {
    expect(std::equal(mine.begin() + parts[z(r)], mine.begin() + parts[z(r) + 1],
                      leaves[z(r)].begin() + parts[z(r)]),
           "what is gathered");
  }
  carry_out(comm, {.kind = Kind::kBarrier, .group = first_ranks(ranks), .name = "barrier"});
}

// Each rank has its leaves' sums. In another order each of the additions is off by half a unit in
// the last place of a partial sum at most, so by that of the sum of the magnitudes.
void expect_native_sums(Communicator& comm, size_t values, int shards,
                        const std::vector<int64_t>& parts) {
  const int ranks = comm.ranks(), me = comm.rank();
  const Leaves leaves = random_leaves(shards, values, 7);
  const Values sum = tree_sum(leaves, 0, shards);
  Values bound(values);
  for (const Values& leaf : leaves) {
    for (size_t i = 0; i < values; ++i) bound[i] += std::abs(leaf[i]);
  }
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
    CommOp op{.kind = kind, .group = first_ranks(ranks), .name = "native", .root = ranks - 1};
    if (kind != Kind::kReduce) op.part_begin = parts;
    op.leaf_begin = share_out(shards, ranks);
    op.native = true;
    Leaves partials;
    for (const Subtree& s : subtrees_of(op.leaf_begin[z(me)], op.leaf_begin[z(me) + 1], shards)) {
      partials.push_back(tree_sum(leaves, s.begin, s.end));
    }
    for (size_t i = 1; i < partials.size(); ++i) op.more_subtrees.push_back(partials[i].data());
    const Values before = partials[0];
    op.data = partials[0];
    carry_out(comm, op);
    for (int64_t i = 0; i < std::ssize(sum); ++i) {
      const bool mine = kind == Kind::kAllReduce || (kind == Kind::kReduce && me == op.root) ||
                        (kind == Kind::kReduceScatter && i >= parts[z(me)] && i < parts[z(me) + 1]);
      const auto at = static_cast<size_t>(i);
      const float off = mine ? static_cast<float>(shards) * 0x1p-23F * bound[at] : 0;
      expect(std::abs(partials[0][at] - (mine ? sum[at] : before[at])) <= off,
             "the library's sum on rank " + std::to_string(me));
    }
    if (kind != Kind::kAllReduce) continue;
    Values of_0 = partials[0];
    carry_out(
        comm,
        {.kind = Kind::kBroadcast, .group = first_ranks(ranks), .name = "broadcast", .data = of_0});
    expect(of_0 == partials[0], "the library's sum is not the same on all ranks");
  }
}

void expect_native_copies(Communicator& comm, size_t values, const std::vector<int64_t>& parts) {
  const int me = comm.rank();
  const Leaves leaves = random_leaves(comm.ranks(), values, 8);
  Values mine = leaves[z(me)];
  carry_out(comm, {.kind = Kind::kAllGather,
                   .group = first_ranks(comm.ranks()),
                   .name = "AG",
                   .data = mine,
                   .part_begin = parts,
                   .native = true});
  for (int r = 0; r < comm.ranks(); ++r) {
    expect(std::equal(mine.begin() + parts[z(r)], mine.begin() + parts[z(r) + 1],
                      leaves[z(r)].begin() + parts[z(r)]),
           "what the library gathers");
  }
}

// Equal parts, such as differ by one, and the last rank's that is all.
void native(Communicator& comm) {
  const auto ranks = z(comm.ranks());
  for (const size_t values : {size_t{0}, size_t{1}, 60 * ranks, 60 * ranks + 1, size_t{100'003}}) {
    std::vector<int64_t> last(ranks + 1, 0);
    last.back() = static_cast<int64_t>(values);
    for (const auto& parts : {equal_parts(static_cast<int64_t>(values), ranks), last}) {
      expect_native_sums(comm, values, comm.ranks(), parts);
      expect_native_sums(comm, values, 8, parts);
      expect_native_copies(comm, values, parts);
    }
  }
}

// What has begun before the last rank falls silent, and what has not.
void native_without_the_last(Communicator& comm) {
  Values data(100'000, 1.0F);
  carry_out(comm, {.kind = Kind::kBarrier, .group = first_ranks(comm.ranks()), .name = "barrier"});
  if (comm.rank() + 1 == comm.ranks()) kill(getpid(), SIGSTOP);
  carry_out(comm, {.kind = Kind::kAllReduce,
                   .group = first_ranks(comm.ranks()),
                   .name = "sum",
                   .data = data,
                   .native = true});
}

void suite(Communicator& comm) {
  for (const size_t values : {0, 1, 61, 1024, 5000, 2'000'003}) {
    expect_sums(comm, values, comm.ranks());
    expect_sums(comm, values, 8);
    expect_copies(comm, values);
  }
}

// Many at once, of all ranks in one order.
void many(Communicator& comm) {
  std::vector<Values> data(200, Values(3001));
  std::vector<Communicator::Op> ops;
  for (Values& values : data) {
    values.assign(values.size(), 1.0f);
    ops.push_back(comm.enqueue({.kind = Kind::kAllReduce,
                                .group = first_ranks(comm.ranks()),
                                .name = "AR",
                                .data = values}));
    comm.release(ops.back());
  }
  for (const auto op : ops) comm.wait(op);
  const Values all(3001, static_cast<float>(comm.ranks()));
  expect(data == std::vector<Values>(200, all), "sums of many operations");
}

// The last rank ends or falls silent when the others wait for it.
void without_the_last(Communicator& comm, int signal) {
  expect_copies(comm, 10);
  if (comm.rank() + 1 == comm.ranks()) kill(getpid(), signal);
  expect_copies(comm, 10);
}

int run(const std::string& what) {
  const ndt_comm_plugin& mpi = find_comm_plugin("mpi");
  ndt_comm* const world = launched_world(mpi);
  ndt_comm* second = nullptr;
  expect(mpi.world(nullptr, 0, -1, -1, &second) == NDT_COMM_INVALID, "a second world");
  const auto silence = what.starts_with("stopped") ? 2s : 60s;
  Communicator comm(plugin_transport(mpi, world, {.silence = silence, .farewell = 60s}),
                    {.in_flight = 4});
  if (what == "suite") suite(comm);
  if (what == "suite") many(comm);
  if (what == "native") native(comm);
  if (what == "stopped-native") native_without_the_last(comm);
  if (what == "killed") without_the_last(comm, SIGKILL);
  if (what == "stopped") without_the_last(comm, SIGSTOP);
  if (what == "error" && comm.rank() == 1) {
    // Before the others miss it: mpirun ends all, and what they have not said yet is lost.
    std::fprintf(stderr, "error: this rank has a problem\n");
    throw Error("this rank has a problem");
  }
  if (what == "error") expect_copies(comm, 10);
  return 0;
}

}  // namespace
}  // namespace ndtrain::comm_tests

int main(int words, char** word) {
  try {
    return ndtrain::comm_tests::run(words > 1 ? word[1] : "suite");
  } catch (const ndtrain::RankLost& lost) {
    std::fprintf(stderr, "lost: %s\n", lost.what());
    return 4;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    std::this_thread::sleep_for(std::chrono::seconds(1));  // then mpirun ends those that are left
    return 1;
  }
}
