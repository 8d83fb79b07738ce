#include "framework/train/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/testing/memory_fs.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::random_tensor;

Checkpoint example() {
  Checkpoint c;
  c.parameters["w"] = random_tensor({DType::kF32, {3, 4}}, 1, "w");
  c.parameters["state.w"] = random_tensor({DType::kF32, {2}}, 1, "w2");
  c.states["mean"] = random_tensor({DType::kF32, {4}}, 1, "mean");
  c.optimizer["w.m"] = random_tensor({DType::kF32, {16}}, 1, "m");
  c.optimizer_steps = 41;
  c.epoch = 3;
  c.step = 5;
  c.loss_sum = 0.1 + 0.2;
  c.correct = 17;
  c.correct_top5 = 23;
  c.rows = 1.0 / 3;
  c.best_top1 = 0.875;
  c.best_epoch = 2;
  c.config = "the \"config\"\nof two lines";
  return c;
}

TEST(Checkpoint, ComesBackExactly) {
  MemoryFs fs;
  const Checkpoint c = example();
  save_checkpoint(fs, "/last", c).or_throw();
  const Checkpoint d = load_checkpoint(fs, "/last").or_throw();
  for (auto [a, b] : {std::pair{&c.parameters, &d.parameters},
                      {&c.states, &d.states},
                      {&c.optimizer, &d.optimizer}}) {
    ASSERT_EQ(a->size(), b->size());
    for (const auto& [name, t] : *a) EXPECT_TRUE(t.same_bytes(b->at(name))) << name;
  }
  EXPECT_EQ(d.optimizer_steps, c.optimizer_steps);
  EXPECT_EQ(d.epoch, c.epoch);
  EXPECT_EQ(d.step, c.step);
  EXPECT_EQ(d.loss_sum, c.loss_sum);
  EXPECT_EQ(d.correct, c.correct);
  EXPECT_EQ(d.correct_top5, c.correct_top5);
  EXPECT_EQ(d.rows, c.rows);
  EXPECT_EQ(d.best_top1, c.best_top1);
  EXPECT_EQ(d.best_epoch, c.best_epoch);
  EXPECT_EQ(d.config, c.config);
  EXPECT_FALSE(d.in_buckets);
}

TEST(Checkpoint, KeepsItsFormat) {
  MemoryFs fs;
  Checkpoint c = example();
  c.in_buckets = true;
  save_checkpoint(fs, "/last", c).or_throw();
  EXPECT_TRUE(load_checkpoint(fs, "/last").or_throw().in_buckets);
}

// Where it lies in the middle of an epoch, nobody knows it any more.
TEST(Checkpoint, OfAnEarlierVersionHasNoTop5) {
  for (const double rows : {0.0, 12.0}) {
    Checkpoint c = example();
    c.rows = rows;
    TensorFile file = from_safetensors(checkpoint_bytes(c)).or_throw();
    file.metadata.erase("correct_top5");
    file.metadata.erase("checksum");
    const Checkpoint d = parse_checkpoint(to_safetensors(file)).or_throw();
    EXPECT_EQ(std::isnan(d.correct_top5), rows > 0);
    EXPECT_EQ(d.correct, c.correct);
  }
}

TEST(Checkpoint, WhatIsNoCheckpointIsCorruptAndNamed) {
  MemoryFs fs;
  EXPECT_EQ(load_checkpoint(fs, "/none").status().code(), Code::kNotFound);
  save_checkpoint(fs, "/last", example()).or_throw();
  const std::string whole = fs.read("/last").or_throw();
  const auto refused = [&](const std::string& bytes) {
    publish(fs, "/bad", bytes).or_throw();
    const Result<Checkpoint> r = load_checkpoint(fs, "/bad");
    return r.status().code() == Code::kCorrupt &&
           r.status().message().find("/bad") != std::string::npos;
  };
  EXPECT_TRUE(refused(to_safetensors({})));
  EXPECT_TRUE(refused(whole.substr(0, whole.size() - 1)));
  TensorFile file = from_safetensors(whole).or_throw();
  for (const auto& [key, value] : {std::pair{"format", "another-1"},
                                   {"step", "-1"},
                                   {"epoch", "-7"},
                                   {"step", "many"},
                                   {"epoch", "99999999999999999999"}}) {
    TensorFile changed = file;
    changed.metadata[key] = value;
    EXPECT_TRUE(refused(to_safetensors(changed))) << key << " " << value;
  }
}

TEST(Checkpoint, NoBitOfOneIsAnotherUnnoticed) {
  const std::string whole = checkpoint_bytes(example());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    const Result<Checkpoint> read = parse_checkpoint(bytes);
    if (read.ok()) {
      EXPECT_EQ(checkpoint_bytes(*read), whole) << "byte " << at;
    }
  }
}

TEST(Checkpoint, OneWithoutAChecksumIsTakenAsItIs) {
  TensorFile file = from_safetensors(checkpoint_bytes(example())).or_throw();
  EXPECT_EQ(file.metadata.erase("checksum"), 1U);
  EXPECT_EQ(checkpoint_bytes(parse_checkpoint(to_safetensors(file)).or_throw()),
            checkpoint_bytes(example()));
}

TEST(Checkpoint, AFullDiskLeavesTheOldOne) {
  MemoryFs fs;
  Checkpoint c = example();
  save_checkpoint(fs, "/last", c).or_throw();
  c.epoch = 4;
  fs.set_capacity(static_cast<int64_t>(fs.read("/last").or_throw().size()) + 100);
  EXPECT_EQ(save_checkpoint(fs, "/last", c).code(), Code::kNoSpace);
  EXPECT_EQ(load_checkpoint(fs, "/last").or_throw().epoch, 3);
}

}  // namespace
}  // namespace ndtrain
