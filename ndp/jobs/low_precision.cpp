#include "ndp/jobs/low_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "framework/passes/inference.h"
#include "framework/quantize/quantize.h"
#include "framework/runtime/batch_plans.h"
#include "framework/runtime/product_rate.h"
#include "framework/train/head.h"
#include "ndp/engine/numerics.h"

namespace ndtrain::ndp {
namespace {

constexpr double kWorthIt = 1.2;  // times as fast, for less precision

constexpr int64_t kRows = 8;

bool has_scales(const Model& m) {
  return std::ranges::any_of(m.nodes, [](const ModelNode& n) { return n.op == "QuantizeLinear"; });
}

std::vector<size_t> range(size_t from, size_t to) {
  std::vector<size_t> all(to - from);
  std::iota(all.begin(), all.end(), from);
  return all;
}

// Batches of one size.
std::vector<Tensor> calibration_batches(const PhotoSample& sample) {
  std::vector<Tensor> batches;
  const std::vector<size_t> photos = range(0, std::min(sample.size(), kCalibrationPhotos));
  const auto n = std::min<int64_t>(kRows, static_cast<int64_t>(photos.size()));
  if (n == 0) throw Error(sample.source, ": there are no photos to measure scales on");
  sample.read(photos, n, [&](const PhotoBatch& b) {
    if (b.inputs.shape()[0] == n) batches.push_back(b.inputs);
    return true;
  });
  if (batches.empty()) throw Error(sample.source, ": no photos can be read to measure scales on");
  return batches;
}

// With scales: those that did not make them, when there are enough others.
std::vector<size_t> compared_photos(const PhotoSample& sample, int64_t n, bool scales) {
  if (!scales) return range(0, std::min(sample.size(), static_cast<size_t>(n)));
  const size_t all = std::min(sample.size(), sample_size(n));
  return range(all >= 2 * kCalibrationPhotos ? kCalibrationPhotos : 0, all);
}

int64_t best_class(const Tensor& logits, size_t row, size_t rows) {
  const std::span<const float> all = logits.as<float>();
  const auto of = all.subspan(row * (all.size() / rows), all.size() / rows);
  return std::ranges::max_element(of) - of.begin();
}

Tensor row_of(const Tensor& t, size_t row) {
  const std::vector<double> all = t.to_doubles();
  const size_t width = all.size() / static_cast<size_t>(t.shape()[0]);
  return Tensor::from_doubles({DType::kF64, {1, static_cast<int64_t>(width)}},
                              std::span(all).subspan(row * width, width));
}

// Features, then logits.
BatchPlans plans_of(const Model& model, const std::vector<std::string>& features,
                    const Device& device) {
  Model both = model;
  both.outputs = features;
  both.outputs.push_back(model.outputs.at(0));
  return {[both = std::move(both)](int64_t b) { return inference_graph(both, b); }, device, kRows};
}

std::string text_of(const Digest& d) { return {reinterpret_cast<const char*>(d.data()), d.size()}; }

// Named by all that decides what a comparison finds; "" when there is no cache.
std::string kept_in(const PrecisionConfig& config, const ModelFile& f32, const ModelFile& low,
                    const PhotoSample& sample, const Device& device) {
  if (config.cache.empty()) return "";
  Sha256 hash;
  hash.field("comparison of precisions").field(text_of(f32.id())).field(text_of(low.id()));
  hash.field(feature_numerics(device)).field(config.photos);
  for (size_t i = 0; i < sample.size(); ++i) {
    hash.field(text_of(sample.digests[i])).field(sample.labels[i]);
  }
  return join(join(config.cache, "precision"), to_hex(hash.finish()) + ".json");
}

std::optional<PrecisionCheck> known_check(const std::string& file, Fs& fs) {
  if (file.empty()) return std::nullopt;
  const Result<std::string> text = fs.read(file);
  if (!text.ok()) return std::nullopt;
  const auto j = try_parse_json(*text);
  PrecisionCheck c;
  try {
    c.photos = j.at("photos"), c.agree = j.at("agree"), c.labelled = j.at("labelled");
    c.lost = j.at("lost"), c.gained = j.at("gained"), c.cosine_sum = j.at("cosine_sum");
  } catch (const Json::exception&) {
    return std::nullopt;  // as good as none
  }
  return c;
}

void keep_check(const std::string& file, const PrecisionCheck& c, Fs& fs) {
  if (file.empty()) return;
  const Json j = {{"photos", c.photos}, {"agree", c.agree},   {"labelled", c.labelled},
                  {"lost", c.lost},     {"gained", c.gained}, {"cosine_sum", c.cosine_sum}};
  fs.make_directories(parent_of(file)).or_throw();
  publish(fs, file, json_text(j) + "\n").or_throw();
}

// From the cache, where it is known; an interrupted one is not kept.
PrecisionCheck checked(const ModelFile& f32, const ModelFile& low, const PrecisionConfig& config,
                       const PhotoSample& sample, const Device& device, Fs& fs,
                       Progress& progress) {
  const std::string kept = kept_in(config, f32, low, sample, device);
  if (const std::optional<PrecisionCheck> known = known_check(kept, fs)) return *known;
  PrecisionCheck check = compare_precision(f32.model, low.model, features_of(f32.model), sample,
                                           config.photos, device, progress);
  if (!progress.interrupted()) keep_check(kept, check, fs);
  return check;
}

}  // namespace

double bf16_gain(const Device& device) {
  if (device.backend().name() == "cpu") return 1;
  return product_rate(device, DType::kBF16) / product_rate(device, DType::kF32);
}

bool worth_bf16(double gain) { return gain > kWorthIt; }

bool needs_photos(const Model& model, const std::string& precision) {
  if (has_scales(model)) return false;
  return precision == "auto" || (precision.empty() ? declared_precision(model)
                                                   : precision_named(precision)) != Precision::kF32;
}

Precision chosen_precision(const std::string& name, const Device& device, std::string& why) {
  if (name != "auto") return precision_named(name);
  if (device.backend().name() == "cpu") {
    why = "f32: the cpu backend has no faster arithmetic for less precision";
    return Precision::kF32;
  }
  const double gain = bf16_gain(device);
  why = fmt::format("just now this machine computed {:.2f} times as fast in bf16 as in f32", gain);
  Precision p = worth_bf16(gain) ? Precision::kBF16 : Precision::kF32;
  if (p == Precision::kF32 && !device.shares_host_memory()) {  // a GPU, perhaps one without bf16
    const double half = product_rate(device, DType::kF16) / product_rate(device, DType::kF32);
    if (worth_bf16(half)) p = Precision::kF16;
    why += fmt::format(", and {:.2f} times in f16", half);
  }
  why = fmt::format("{}: {}", name_of(p), why);
  return p;
}

std::vector<std::string> features_of(const Model& model) {
  std::string name = find_classifier(model).features;
  for (size_t i = model.nodes.size(); i-- > 0;) {  // what does nothing at inference may be removed
    const ModelNode& n = model.nodes[i];
    if (n.outputs[0] == name && (n.op == "Dropout" || n.op == "Identity")) name = n.inputs[0];
  }
  return {name};
}

Model lowered(const Model& model, Precision precision, const std::vector<std::string>& until,
              const PhotoSample& sample, const Device& device, Progress& progress,
              const std::function<bool(const Model&)>& accepts) {
  Model low = model;
  if (precision != Precision::kInt8 || has_scales(model)) {
    declare_precision(low, precision, until);
    return low;
  }
  progress.say("measuring the scales of int8");
  const Quantization q =
      quantize(model, calibration_batches(sample), device, {.until = until, .accepts = accepts},
               [&](const auto& text) { progress.say(text); });
  progress.say(
      fmt::format("{} convolutions compute on bytes and {} products of matrices, {} stay f32",
                  q.convolutions, q.products, q.kept.size()));
  if (q.smoothed > 0) progress.say(fmt::format("{} layer normalisations are smoothed", q.smoothed));
  return q.model;
}

PrecisionCheck compare_precision(const Model& f32, const Model& low,
                                 const std::vector<std::string>& features,
                                 const PhotoSample& sample, int64_t photos, const Device& device,
                                 Progress& progress) {
  Model plain = f32;
  declare_precision(plain, Precision::kF32);
  BatchPlans high_plans = plans_of(plain, features, device);
  BatchPlans low_plans = plans_of(low, features, device);
  const std::vector<size_t> chosen = compared_photos(sample, photos, has_scales(low));
  PrecisionCheck check;
  progress.begin("comparing precisions", static_cast<int64_t>(chosen.size()), "photos");
  sample.read(chosen, kRows, [&](const PhotoBatch& b) {
    const std::vector<Tensor> x = high_plans.run({&b.inputs, 1}), y = low_plans.run({&b.inputs, 1});
    for (size_t r = 0; r < b.photos.size(); ++r) {
      double cosine = 0;
      for (size_t k = 0; k < features.size(); ++k) {
        const Tensor one = row_of(x[k], r), other = row_of(y[k], r);
        cosine += mean_cosine({&one, 1}, {&other, 1}) / static_cast<double>(features.size());
      }
      check.add(best_class(x.back(), r, b.photos.size()), best_class(y.back(), r, b.photos.size()),
                sample.labels[b.photos[r]], cosine);
    }
    progress.update(check.photos);
    return !progress.interrupted();
  });
  progress.end();
  return check;
}

ModelFile in_precision(const ModelFile& file, const PrecisionConfig& config, const PhotoSet& set,
                       const Device& device, Fs& fs, Progress& progress) {
  const PhotoSample sample = sample_of(set, sample_size(config.photos), file.preprocess, fs);
  return in_precision(file, config, sample, device, fs, progress);
}

ModelFile in_precision(const ModelFile& file, const PrecisionConfig& config,
                       const PhotoSample& sample, const Device& device, Fs& fs,
                       Progress& progress) {
  std::string why;
  const Precision declared = declared_precision(file.model);
  const Precision p =
      config.precision.empty() ? declared : chosen_precision(config.precision, device, why);
  if (!why.empty()) progress.say("precision " + why);
  if (p == Precision::kInt8) {
    const std::string slow = why_bytes_gain_nothing(device);
    const char* instead = has_scales(file.model) ? "the model it was quantised from is as fast here"
                                                 : "--precision f32 is as fast here";
    if (!slow.empty()) progress.say(fmt::format("int8 gains nothing: {}; {}", slow, instead));
  }
  if (has_scales(file.model)) {
    if (p == Precision::kInt8) return file;  // compared when its scales were measured
    throw Error(file.path, ": has scales of int8 and cannot compute in ", name_of(p),
                "; give the model it was quantised from");
  }
  ModelFile low = file;
  if (p == Precision::kF32) {
    declare_precision(low.model, p);
    return low;
  }
  const std::vector<std::string> until = precision_until(file.model);
  std::optional<PrecisionCheck> check;
  std::string text;
  const auto accepts = [&](const Model& model) {
    low.model = model;
    check = checked(file, low, config, sample, device, fs, progress);
    if (progress.interrupted()) return true;
    text = fmt::format("{}: {}", name_of(p), describe(*check, config.max_drop));
    return judge(*check, config.max_drop) != PrecisionVerdict::kRefused;
  };
  ModelFile made = file;
  made.model = lowered(file.model, p, until, sample, device, progress, accepts);
  if (!check || made.id() != low.id()) (void)accepts(made.model);
  if (progress.interrupted()) return low;
  if (judge(*check, config.max_drop) == PrecisionVerdict::kRefused) {
    throw Error(text, ": refused; --precision f32, or a larger --max-drop");
  }
  progress.say(text);
  return low;
}

}  // namespace ndtrain::ndp
