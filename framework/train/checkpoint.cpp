#include "framework/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>

#include "framework/core/checksummed_json.h"
#include "framework/core/hash.h"

namespace ndtrain {
namespace {

constexpr std::string_view kFormat = "ndtrain-checkpoint-2", kInBuckets = "ndtrain-checkpoint-1";
constexpr std::string_view kParameter = "parameter.", kState = "state.", kOptimizer = "optimizer.";
constexpr const char* kChecksum = "checksum";

void add(TensorFile& file, std::string_view prefix, const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, t] : tensors) file.tensors[std::string(prefix) + name] = t;
}

// Of all but itself.
std::string checksum_of(const TensorFile& file) {
  uint64_t sum = 0;
  const auto add_bytes = [&sum](const void* bytes, size_t n) { sum = xxh3(bytes, n, sum); };
  const auto add_text = [&](const std::string& text) { add_bytes(text.data(), text.size()); };
  for (const auto& [name, t] : file.tensors) {
    add_text(name);
    std::ostringstream type;
    type << t.type();
    add_text(type.str());
    add_bytes(t.data(), t.bytes());
  }
  for (const auto& [key, value] : file.metadata) {
    if (key == kChecksum) continue;
    add_text(key);
    add_text(value);
  }
  return fmt::format("{:016x}", sum);
}

}  // namespace

std::string checkpoint_bytes(const Checkpoint& c) {
  TensorFile file;
  add(file, kParameter, c.parameters);
  add(file, kState, c.states);
  add(file, kOptimizer, c.optimizer);
  auto exact = [](double x) { return fmt::format("{:.17g}", x); };
  file.metadata = {{"format", std::string(c.in_buckets ? kInBuckets : kFormat)},
                   {"optimizer_steps", std::to_string(c.optimizer_steps)},
                   {"epoch", std::to_string(c.epoch)},
                   {"step", std::to_string(c.step)},
                   {"loss_sum", exact(c.loss_sum)},
                   {"correct", exact(c.correct)},
                   {"correct_top5", exact(c.correct_top5)},
                   {"rows", exact(c.rows)},
                   {"loss_scale", exact(c.loss_scale.value)},
                   {"loss_scale_steps", std::to_string(c.loss_scale.steps)},
                   {"best_top1", exact(c.best_top1)},
                   {"best_epoch", std::to_string(c.best_epoch)},
                   {"config", c.config}};
  if (c.used > 0) file.metadata["used_rows"] = std::to_string(c.used);
  file.metadata[kChecksum] = checksum_of(file);
  return to_safetensors(file);
}

Result<Checkpoint> parse_checkpoint(std::string_view bytes) {
  Result<TensorFile> file = from_safetensors(bytes);
  if (!file.ok()) return file.status();
  const auto sum = file->metadata.find(kChecksum);
  const bool has_one = std::ranges::any_of(
      file->metadata, [](const auto& entry) { return is_checksum_key(entry.first); });
  // Older ones have none.
  if (has_one && (sum == file->metadata.end() || sum->second != checksum_of(*file))) {
    return Status(Code::kCorrupt, "is damaged: its checksum is wrong");
  }
  Checkpoint c;
  for (const auto& [name, t] : file->tensors) {
    for (const auto& [prefix, group] :
         {std::pair{kParameter, &c.parameters}, {kState, &c.states}, {kOptimizer, &c.optimizer}}) {
      if (name.starts_with(prefix)) group->emplace(name.substr(prefix.size()), t);
    }
  }
  bool whole = false;
  try {
    const auto& m = file->metadata;
    c.optimizer_steps = std::stoll(m.at("optimizer_steps"));
    c.epoch = std::stoll(m.at("epoch"));
    c.step = std::stoll(m.at("step"));
    if (m.contains("used_rows")) c.used = std::stoll(m.at("used_rows"));
    c.loss_sum = std::stod(m.at("loss_sum"));
    c.correct = std::stod(m.at("correct"));
    c.rows = std::stod(m.at("rows"));
    if (m.contains("correct_top5")) {
      c.correct_top5 = std::stod(m.at("correct_top5"));
    } else if (c.rows > 0) {  // older ones did not count it
      c.correct_top5 = std::numeric_limits<double>::quiet_NaN();
    }
    if (m.contains("loss_scale")) {  // older ones trained in f32
      c.loss_scale = {.value = std::stod(m.at("loss_scale")),
                      .steps = std::stoll(m.at("loss_scale_steps"))};
    }
    c.best_top1 = std::stod(m.at("best_top1"));
    c.best_epoch = std::stoll(m.at("best_epoch"));
    c.config = m.at("config");
    const std::string& format = m.at("format");
    c.in_buckets = format == kInBuckets;
    whole = (c.in_buckets || format == kFormat) && c.optimizer_steps >= 0 && c.epoch >= 0 &&
            c.step >= 0;
  } catch (const std::exception&) {  // out_of_range, invalid_argument: not one of our checkpoints
    whole = false;
  }
  if (!whole) return Status(Code::kCorrupt, "not a checkpoint of ndtrain");
  return c;
}

Status save_checkpoint(Fs& fs, const std::string& path, const Checkpoint& c) {
  return publish(fs, path, checkpoint_bytes(c));
}

Result<Checkpoint> load_checkpoint(Fs& fs, const std::string& path) {
  const Result<std::string> bytes = fs.read(path);
  if (!bytes.ok()) return bytes.status();
  Result<Checkpoint> c = parse_checkpoint(*bytes);
  if (!c.ok()) return Status(c.status().code(), path + ": " + c.status().message());
  return c;
}

}  // namespace ndtrain
