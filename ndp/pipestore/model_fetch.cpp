#include "ndp/pipestore/model_fetch.h"

#include <fmt/format.h>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/deltas/delta.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {
namespace {

std::string short_hex(const Digest& d) { return to_hex(d).substr(0, 12); }

bool is_damage(Code code) {
  return code == Code::kNotFound || code == Code::kCorrupt || code == Code::kUnsupported;
}

struct StepFiles {
  std::string base, delta, result;
  DeltaEnds ends;
};

// On copies, verified by `apply`; the result appears whole or not at all.
Status apply_files(Fs& fs, const DeltaApplier& apply, const StepFiles& files) {
  const Result<std::string> from = fs.read(files.base, limits::kModelFile);
  if (!from.ok()) return from.status();
  const Result<std::string> difference = fs.read(files.delta, limits::kModelFile);
  if (!difference.ok()) return difference.status();
  const Result<DeltaEnds> ends = delta_ends(*difference);
  if (!ends.ok()) return ends.status();
  if (ends->base != files.ends.base || ends->result != files.ends.result) {
    return {Code::kCorrupt, "a delta from " + short_hex(ends->base) + " to " +
                                short_hex(ends->result) + " instead of from " +
                                short_hex(files.ends.base) + " to " + short_hex(files.ends.result)};
  }
  const Result<std::string> made = apply(*from, *difference);
  if (!made.ok()) return made.status();
  return publish(fs, files.result, *made);
}

}  // namespace

bool ModelFetch::fetch(std::span<const Digest> models) {
  for (const Digest& model : models) {
    if (setting_.blobs.has(model)) continue;
    if (model_) return false;  // one after the other
    model_ = model;
    bad_ways_ = 0;
    ++serial_;
    wire::ModelWanted wanted;
    for (const Digest& held : setting_.blobs.list()) {
      if (wanted.held_size() < static_cast<int>(kHeld)) wanted.add_held(bytes_of(held));
    }
    want(model, wanted);
    return false;
  }
  return true;
}

void ModelFetch::want(const Digest& file, const wire::ModelWanted& like) {
  const Result<int64_t> offset = setting_.blobs.offset(file);
  if (!offset.ok()) return give_up(offset.status());
  fetching_ = file;
  asked_until_ = *offset + static_cast<int64_t>(kModelPart) * kModelParts;
  wire::FromStore m;
  *m.mutable_model_wanted() = like;
  m.mutable_model_wanted()->set_sha256(bytes_of(file));
  m.mutable_model_wanted()->set_offset(static_cast<uint64_t>(*offset));
  setting_.send(std::move(m));
}

void ModelFetch::way(const wire::Way& way) {
  if (!model_ || digest_of(way.sha256()) != model_ || !steps_.empty()) return;
  std::deque<Step> steps;
  for (const wire::Way::Step& s : way.steps()) {
    const auto delta = digest_of(s.delta()), base = digest_of(s.base()),
               result = digest_of(s.result());
    if (!delta || !base || !result) return by_itself("a way with a digest that is none");
    steps.push_back({*delta, *base, *result});
  }
  if (steps.empty() || steps.size() > kSteps || steps.back().result != model_) {
    return by_itself("a way that does not lead there");
  }
  steps_ = std::move(steps);
  next_step();
}

void ModelFetch::next_step() {
  fetching_.reset();
  while (!steps_.empty() && setting_.blobs.has(steps_.front().result)) steps_.pop_front();
  if (steps_.empty()) {
    model_.reset();
    corrupt_ = 0;
    return setting_.here();
  }
  if (!setting_.blobs.has(steps_.front().base)) return by_itself("its base is not here");
  if (setting_.blobs.has(steps_.front().delta)) return apply_step();
  want(steps_.front().delta, {});
}

void ModelFetch::apply_step() {
  const Step& step = steps_.front();
  const ModelBlobs& blobs = setting_.blobs;
  const StepFiles files{blobs.path(step.base),
                        blobs.path(step.delta),
                        blobs.path(step.result),
                        {step.base, step.result}};
  setting_.lanes.start(setting_.lane, [this, serial = serial_, files]() -> Continuation {
    const Status status = apply_files(setting_.fs, setting_.apply, files);
    return [this, serial, status] {
      if (serial == serial_) applied(status);
    };
  });
}

void ModelFetch::applied(const Status& status) {
  if (!status.ok() && !is_damage(status.code())) return give_up(status);
  const Step step = steps_.front();
  setting_.blobs.remove(step.delta);
  if (status.code() == Code::kNotFound) setting_.blobs.remove(step.base);  // its bytes have changed
  if (!status.ok()) return by_itself(status.message());
  log::info("model {} is here, made of {} and a delta", short_hex(step.result),
            short_hex(step.base));
  next_step();
}

void ModelFetch::by_itself(const std::string& failure) {
  steps_.clear();
  if (++bad_ways_ >= kBadWays) {
    return give_up(
        {Code::kCorrupt, fmt::format("{} ways to model {} that lead nowhere, the last: {}",
                                     kBadWays, short_hex(*model_), failure)});
  }
  log::warn("model {} by deltas: {}; it is fetched as it is", short_hex(*model_), failure);
  wire::ModelWanted wanted;
  wanted.set_failure(wire::as_text(failure));
  for (const Digest& held : setting_.blobs.list()) {
    if (wanted.held_size() < static_cast<int>(kHeld)) wanted.add_held(bytes_of(held));
  }
  want(*model_, wanted);
}

bool ModelFetch::part(const wire::ModelPart& p) {
  const std::optional<Digest> file = digest_of(p.sha256());
  if (!file || file != fetching_) return true;
  bytes_ += p.bytes().size();
  if (xxh3(p.bytes().data(), p.bytes().size()) != p.checksum()) {
    log::warn("a part of model {} has a wrong checksum", short_hex(*file));
    return false;
  }
  const Result<bool> whole = setting_.blobs.add(*file, static_cast<int64_t>(p.offset()),
                                                static_cast<int64_t>(p.total()), p.bytes());
  if (whole.status().code() == Code::kCancelled) return true;
  if (whole.status().code() == Code::kCorrupt && !steps_.empty()) {  // the Tuner's file is bad
    by_itself(whole.status().message());
    return true;
  }
  if (!whole.ok() && (whole.status().code() != Code::kCorrupt || ++corrupt_ >= kCorruptModels)) {
    give_up(whole.status());
    return true;
  }
  if (!whole.ok()) log::warn("{}", whole.status().message());
  const auto here = static_cast<int64_t>(p.offset() + p.bytes().size());
  if (whole.ok() && !*whole && here < asked_until_) return true;
  if (!whole.ok() || !*whole) {
    want(*file, {});  // the rest, or all of it again
  } else {
    if (steps_.empty()) log::info("model {} is here, {} bytes", short_hex(*file), p.total());
    next_step();
  }
  return true;
}

void ModelFetch::session_over() {
  ++serial_;
  model_.reset();
  fetching_.reset();
  steps_.clear();
}

std::optional<ModelFetch::Damage> ModelFetch::damage_in(std::span<const Digest> models) const {
  for (const Digest& model : models) {
    const Status s = setting_.blobs.check(model);
    if (s.code() == Code::kCorrupt) return Damage{model, s.message()};
  }
  return std::nullopt;
}

void ModelFetch::fetch_again(const Damage& damage) {
  log::error("{}; it is fetched again", damage.what);
  setting_.blobs.remove(damage.model);
  if (++damaged_ < kCorruptModels) return setting_.here();
  damaged_ = 0;
  setting_.failed({Code::kCorrupt, damage.what});
}

void ModelFetch::give_up(const Status& why) {
  session_over();
  corrupt_ = 0;
  setting_.failed(why);
}

}  // namespace ndtrain::ndp
