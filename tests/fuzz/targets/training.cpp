#include <nlohmann/json.hpp>

#include "framework/comm/frame.h"
#include "framework/parallel/comm_plan_json.h"
#include "framework/parallel/led_training.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/sparse/control/convergence_profile.h"
#include "framework/sparse/selection/selection_codec.h"
#include "framework/train/checkpoint.h"
#include "ndp/deltas/delta.h"
#include "ndp/deltas/delta_format.h"
#include "ndp/jobs/notes.h"
#include "ndp/jobs/run_directory.h"
#include "tests/deltas/some_model.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/parallel/random_costs.h"
#include "tests/support/files.h"

namespace ndtrain::fuzz {
namespace {

constexpr int64_t kElements = 100;  // of the tensor that a selection is of

bool read_checkpoint(std::string_view input) { return parse_checkpoint(input).ok(); }

std::vector<std::string> checkpoints() {
  Checkpoint c;
  c.parameters["w"] = testing::drawn(DType::kF32, {2, 3}, Rng(1));
  c.states["mean"] = testing::drawn(DType::kF32, {3}, Rng(2));
  c.optimizer["w.m"] = testing::drawn(DType::kF32, {2, 3}, Rng(3));
  c.config = "{}";
  return {checkpoint_bytes(c)};
}

// What follows a delta's header: the digests there would let nothing else through.
bool read_delta(std::string_view input) {
  static const std::string base = export_model(testing::some_model());
  ndp::delta_ends(input).ok();
  ndp::delta_format::rebuild(base, ByteReader(input));
  return true;
}

std::vector<std::string> deltas() {
  const std::string base = export_model(testing::some_model());
  std::vector<std::string> seeds;
  Model changed = testing::some_model();
  changed.initialisers["fc.w"] = testing::drawn(DType::kF32, {10, 32}, Rng(8));
  changed.metadata["note"] = "another";
  for (const Model& model : {testing::some_model(), testing::some_model(12), changed}) {
    const ndp::Delta delta = ndp::make_delta(base, export_model(model)).or_throw();
    seeds.push_back(delta.bytes.substr(ndp::delta_format::kHeaderBytes));
  }
  return seeds;
}

bool read_selection(std::string_view input) {
  Selection selection;
  return decode(input, kElements, selection).ok();
}

std::vector<std::string> selections() {
  Selection few, all;
  for (uint32_t i = 0; i < kElements; ++i) {
    const auto value = static_cast<float>(i + 1);
    if (i % 7 == 0) few.indices.push_back(i), few.values.push_back(value);
    all.indices.push_back(i), all.values.push_back(value);
  }
  std::vector<std::string> seeds;
  for (const Selection& s : {few, all}) {
    for (const ValueCoding coding : {ValueCoding::kF32, ValueCoding::kBF16}) {
      seeds.push_back(encode(s, kElements, coding));
    }
  }
  return seeds;
}

bool read_frame(std::string_view input) { return open_whole_frame(support::bytes_of(input)).ok(); }

std::vector<std::string> frames() {
  const std::vector<std::byte> frame =
      sealed_frame({.kind = FrameHeader::Kind::kPart, .total = 4}, support::bytes_of("body"));
  return {{reinterpret_cast<const char*>(frame.data()), frame.size()}};
}

bool read_order(std::string_view input) {
  TrainingOrder::parse(std::string(input));
  return true;
}

std::vector<std::string> orders() {
  return {TrainingOrder{.number = 7, .kind = TrainingOrder::Kind::kRestore, .bytes = "ab"}.text()};
}

bool read_comm_plan(std::string_view input) {
  parse_comm_plan(input);
  return true;
}

std::vector<std::string> comm_plans() {
  std::vector<std::string> seeds;
  const CostProfile costs = testing::random_costs(1, 4);
  for (const NamedSchedule& s : schedules()) {
    seeds.push_back(to_json(make_comm_plan(s.name, costs, {.evaluations = 20})));
  }
  return seeds;
}

bool read_convergence(std::string_view input) {
  parse_convergence_profile(input, "c.profile");
  return true;
}

std::vector<std::string> convergences() {
  return {
      "ndtrain-convergence-1\nmodel resnet18\nover bandwidth\nreference_batch 256\n"
      "reference_drop 0.9\nlargest_batch 1024\npoint 0.25 0.5 0.0125\npoint 1 1.5 0.5\n"};
}

bool read_metrics(std::string_view input) { return !ndp::parse_metrics(input).empty(); }

std::vector<std::string> metrics() {
  return {ndp::to_json(ndp::EpochRow{.epoch = 1, .val = ndp::EpochRow::Validation{}}).dump() +
          "\n"};
}

bool read_notes(std::string_view input) {
  ndp::parse_notes_change(input);
  return true;
}

std::vector<std::string> notes() {
  return {R"({"name": "best", "note": "n", "add": ["a"], "remove": ["b"]})"};
}

}  // namespace

std::vector<FuzzTarget> training_targets() {
  return {{"checkpoint", read_checkpoint, checkpoints},
          {"delta", read_delta, deltas},
          {"selection", read_selection, selections},
          {"frame", read_frame, frames},
          {"training_order", read_order, orders},
          {"comm_plan", read_comm_plan, comm_plans},
          {"convergence_profile", read_convergence, convergences},
          {"metrics", read_metrics, metrics},
          {"notes", read_notes, notes}};
}

}  // namespace ndtrain::fuzz
