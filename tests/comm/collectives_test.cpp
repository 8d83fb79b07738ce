// What each operation computes, against the serial sum over the tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/comm/exchange.h"
#include "framework/comm/wire_type.h"
#include "tests/comm/rank_threads.h"
#include "tests/comm/tree_oracle.h"

namespace ndtrain::comm_tests {
namespace {

using Kind = CommOp::Kind;
using Values = std::vector<float>;
using RankValues = std::vector<Values>;  // what each rank has at the end

size_t z(int i) { return static_cast<size_t>(i); }

// The parts of all ranks, each taken from where its owner has it.
Values owned(const RankValues& values, const std::vector<int64_t>& parts) {
  Values all;
  for (size_t r = 0; r < values.size(); ++r) {
    all.insert(all.end(), values[r].begin() + parts[r], values[r].begin() + parts[r + 1]);
  }
  return all;
}

// So many ranks, in pieces of so many values.
class GroupsOf : public ::testing::TestWithParam<std::tuple<int, size_t>> {
 protected:
  void run(const std::function<void(Communicator&)>& body) const {
    run_ranks(memory_transports(ranks), {.piece = std::get<1>(GetParam())}, body);
  }

  // Where each of the ranks has one leaf.
  RankValues after(Kind kind, const Leaves& start, const std::vector<int64_t>& parts = {},
                   DType wire = DType::kF32, int root = 0) const {
    RankValues values = start;
    run([&](Communicator& comm) {
      carry_out(comm, {.kind = kind,
                       .group = first_ranks(ranks),
                       .name = "op",
                       .data = values[z(comm.rank())],
                       .part_begin = parts,
                       .wire = wire,
                       .root = root});
    });
    return values;
  }

  const int ranks = std::get<0>(GetParam());
  const Leaves leaves = random_leaves(ranks, 61, 1);
  const Values sum = tree_sum(leaves, 0, ranks);
};

TEST_P(GroupsOf, RanksAddInTheOrderOfTheTree) {
  const auto parts = equal_parts(61, z(ranks));
  EXPECT_EQ(owned(after(Kind::kReduceScatter, leaves), parts), sum);
  EXPECT_EQ(after(Kind::kAllReduce, leaves), RankValues(z(ranks), sum));
  EXPECT_EQ(after(Kind::kReduce, leaves, {}, DType::kF32, ranks - 1).back(), sum);
}

TEST_P(GroupsOf, RanksGetWhatTheOthersHave) {
  const auto parts = equal_parts(61, z(ranks));
  EXPECT_EQ(after(Kind::kAllGather, leaves), RankValues(z(ranks), owned(leaves, parts)));
  const int root = ranks / 2;
  EXPECT_EQ(after(Kind::kBroadcast, leaves, {}, DType::kF32, root),
            RankValues(z(ranks), leaves[z(root)]));
}

TEST_P(GroupsOf, PartsMayBeEmptyAndUnequal) {
  // Every third rank has a part: of what is left all but one.
  std::vector<int64_t> parts = {0};
  for (int r = 0; r < ranks; ++r) {
    parts.push_back(r + 1 == ranks ? 61 : parts.back() + (r % 3 == 1 ? 7 : 0));
  }
  EXPECT_EQ(owned(after(Kind::kReduceScatter, leaves, parts), parts), sum);
  EXPECT_EQ(after(Kind::kAllReduce, leaves, parts), RankValues(z(ranks), sum));
  EXPECT_EQ(after(Kind::kAllGather, leaves, parts), RankValues(z(ranks), owned(leaves, parts)));
}

TEST_P(GroupsOf, ThereMayBeFewerValuesThanRanks) {
  const Leaves few = random_leaves(ranks, 2, 2), none(z(ranks));
  EXPECT_EQ(after(Kind::kAllReduce, few), RankValues(z(ranks), tree_sum(few, 0, ranks)));
  EXPECT_EQ(after(Kind::kAllReduce, none), none);
  EXPECT_EQ(after(Kind::kAllGather, none), none);
}

TEST_P(GroupsOf, ARankOfZerosChangesNothing) {
  Leaves some = leaves;
  for (int r = 1; r < ranks; r += 2) some[z(r)].assign(61, 0.0f);
  EXPECT_EQ(after(Kind::kAllReduce, some), RankValues(z(ranks), tree_sum(some, 0, ranks)));
}

TEST_P(GroupsOf, WhatIsRoundedOnItsWayIsEqualOnAllRanks) {
  for (const DType wire : {DType::kBF16, DType::kF16}) {
    const RankValues all = after(Kind::kAllReduce, leaves, {}, wire);
    EXPECT_EQ(all, RankValues(z(ranks), all[0])) << name_of(wire);
    // Each part as its owner adds it up: its own values are not rounded, the sum is.
    const auto parts = equal_parts(61, z(ranks));
    Values expected;
    for (int owner = 0; owner < ranks; ++owner) {
      Leaves seen = leaves;
      for (int r = 0; r < ranks; ++r) {
        if (r != owner) round_to_wire(seen[z(r)], wire);
      }
      Values s = tree_sum(seen, 0, ranks);
      round_to_wire(s, wire);
      expected.insert(expected.end(), s.begin() + parts[z(owner)], s.begin() + parts[z(owner) + 1]);
    }
    EXPECT_EQ(all[0], expected) << name_of(wire);
  }
}

// Rank a sends rank b a + 2 b values, each 100 a + b.
TEST_P(GroupsOf, EachRankSendsEachWhatIsForIt) {
  const auto length = [](int from, int to) { return from + 2 * to; };
  run([&](Communicator& comm) {
    const int me = comm.rank();
    Values data, received, expected;
    CommOp op{.kind = Kind::kAllToAll, .group = first_ranks(ranks), .name = "swap"};
    op.part_begin = op.received_begin = {0};
    for (int r = 0; r < ranks; ++r) {
      data.insert(data.end(), z(length(me, r)), static_cast<float>(100 * me + r));
      expected.insert(expected.end(), z(length(r, me)), static_cast<float>(100 * r + me));
      op.part_begin.push_back(static_cast<int64_t>(data.size()));
      op.received_begin.push_back(static_cast<int64_t>(expected.size()));
    }
    received.resize(expected.size());
    op.data = data;
    op.received = received;
    carry_out(comm, op);
    EXPECT_EQ(received, expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GroupsOf,
                         ::testing::Combine(::testing::Range(1, 18),
                                            ::testing::Values(1, 3, 1 << 18)));

// Shards of the work are added by whoever has them.
TEST(Collectives, TheNumberOfRanksDecidesNothing) {
  for (const int shards : {8, 13}) {
    const Leaves leaves = random_leaves(shards, 5000, 5);
    const Values sum = tree_sum(leaves, 0, shards);
    for (const int ranks : {1, 2, 3, 4, 8}) {
      RankValues values(z(ranks));
      run_ranks(memory_transports(ranks), {.piece = 300}, [&](Communicator& comm) {
        const size_t me = z(comm.rank());
        CommOp op{.kind = Kind::kAllReduce, .group = first_ranks(ranks), .name = "AR"};
        op.leaf_begin = share_out(shards, ranks);
        RankValues partials;
        for (const Subtree& s : subtrees_of(op.leaf_begin[me], op.leaf_begin[me + 1], shards)) {
          partials.push_back(tree_sum(leaves, s.begin, s.end));
        }
        for (size_t i = 1; i < partials.size(); ++i) op.more_subtrees.push_back(partials[i].data());
        op.data = partials[0];
        carry_out(comm, op);
        values[me] = partials[0];
      });
      EXPECT_EQ(values, RankValues(z(ranks), sum)) << shards << " shards, " << ranks << " ranks";
    }
  }
}

TEST(Collectives, ARankMayHaveNothingToAdd) {
  const Leaves leaves = random_leaves(2, 10, 6);
  const Values sum = tree_sum(leaves, 0, 2);
  RankValues values = {leaves[0], Values(10, 99.0f), leaves[1]};
  run_ranks(3, [&](Communicator& comm) {
    carry_out(comm, {.kind = Kind::kAllReduce,
                     .group = first_ranks(3),
                     .name = "AR",
                     .data = values[z(comm.rank())],
                     .leaf_begin = {0, 1, 1, 2}});
  });
  EXPECT_EQ(values, RankValues(3, sum));
}

TEST(Collectives, ABarrierIsDoneWhenAllHaveBegunIt) {
  std::atomic<int> begun = 0;
  run_ranks(5, [&](Communicator& comm) {
    ++begun;
    carry_out(comm, {.kind = Kind::kBarrier, .group = first_ranks(5), .name = "barrier"});
    EXPECT_EQ(begun, 5);
  });
}

TEST(Collectives, WhatCannotBeIsRefusedByName) {
  run_ranks(2, [](Communicator& comm) {
    Values x(4);
    const auto refused = [&](CommOp op) {
      op.name = "RS 7";
      op.data = x;
      try {
        comm.enqueue(std::move(op));
      } catch (const Error& e) {
        return std::string(e.what()).starts_with("'RS 7': ") ||
               std::string(e.what()).starts_with("wire: ");
      }
      return false;
    };
    const Kind sum = Kind::kReduceScatter;
    EXPECT_TRUE(refused({.kind = sum, .group = {1 - comm.rank()}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {1, 0}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 0, 1}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1, 2}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .part_begin = {0, 4}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .part_begin = {0, 2, 3}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .part_begin = {0, 5, 4}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .leaf_begin = {0, 0, 0}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .leaf_begin = {0, 3, 6}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .more_subtrees = {x.data()}}));
    EXPECT_TRUE(refused({.kind = sum, .group = {0, 1}, .wire = DType::kF64}));
    EXPECT_TRUE(refused({.kind = Kind::kReduce, .group = {0, 1}, .root = 2}));
    EXPECT_TRUE(refused({.kind = Kind::kAllToAll, .group = {0, 1}}));
    EXPECT_FALSE(refused({.kind = sum, .group = {0, 1}}));
  });
}

}  // namespace
}  // namespace ndtrain::comm_tests
