#include "tests/sim/collection.h"

#include <algorithm>
#include <set>

#include "framework/core/dtype.h"
#include "framework/core/rng.h"
#include "framework/onnx/export.h"

namespace ndtrain::sim {
using namespace ndp;

namespace {

void add_weight(Model& m, const std::string& name, Shape shape) {
  Tensor t({DType::kF32, std::move(shape)});
  const Rng rng(1, name);
  auto values = t.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(rng.uniform(i) - 0.5);
  }
  m.initialisers[name] = t;
}

}  // namespace

Collection::Collection(uint64_t kind) : stores_(kStores) {
  Rng rng(kind, "collection");
  const bool everything_twice = kind % 4 == 0;
  for (size_t i = 0; i < kPhotos; ++i) {
    const Digest digest = sha256("photo " + std::to_string(i) + " of " + std::to_string(kind));
    const size_t first = rng.next_below(kStores);
    const size_t copies = everything_twice || rng.next_below(2) == 0 ? 2 + rng.next_below(2) : 1;
    for (size_t c = 0; c < copies; ++c) {
      // One in thirty copies is under another label than the photo should have.
      const size_t label = rng.next_below(30) == 0 ? rng.next_below(3) : digest[0] % 3;
      stores_[(first + c) % kStores].push_back(
          {.digest = digest,
           .path = std::to_string(i) + ".jpg",
           .label = "class " + std::to_string(label),
           .source = rng.next_below(8) == 0 ? LabelSource::kHuman : LabelSource::kFolder,
           .bytes = 1000});
    }
  }
  for (auto& photos : stores_) std::ranges::sort(photos, {}, &StorePhoto::digest);
}

bool Collection::bad(size_t store, const Digest& photo) {
  return xxh3(photo.data(), photo.size(), 1000 + store) % 25 == 0;
}

bool Collection::holds(size_t store, const Digest& photo) const {
  return std::ranges::binary_search(stores_.at(store), photo, {}, &StorePhoto::digest);
}

bool Collection::readable(const Digest& photo, size_t lost) const {
  for (size_t s = 0; s < kStores; ++s) {
    if (s != lost && !bad(s, photo) && holds(s, photo)) return true;
  }
  return false;
}

std::string Collection::row(const Digest& photo) {
  std::string row;
  for (size_t i = 0; i < kFeatures; ++i) {
    const float noise = static_cast<float>(photo[i + 1]) / 256.0F;
    const uint16_t half = f16_from_f32(noise + (i % 3 == photo[0] % 3 ? 0.5F : 0.0F));
    row.append(reinterpret_cast<const char*>(&half), sizeof(half));
  }
  return row;
}

size_t Collection::rows() const {
  std::set<Digest> all;
  for (const auto& photos : stores_) {
    for (const StorePhoto& p : photos) {
      if (readable(p.digest)) all.insert(p.digest);
    }
  }
  return all.size();
}

bool Collection::remove(size_t store, size_t place) {
  std::vector<StorePhoto>& mine = stores_[store];
  for (size_t i = 0; i < 20 && place + i < mine.size(); ++i) {
    const StorePhoto photo = mine[place + i];
    bool same = readable(photo.digest, store);
    for (const auto& photos : stores_) {
      const auto at = std::ranges::lower_bound(photos, photo.digest, {}, &StorePhoto::digest);
      if (at == photos.end() || at->digest != photo.digest) continue;
      same = same && at->label == photo.label && at->source == photo.source;
    }
    if (!same) continue;
    mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(place + i));
    return true;
  }
  return false;
}

const std::string& tiny_model() {
  static const std::string bytes = [] {
    Model m;
    m.inputs = {{"x", DType::kF32, {kBatch, 3, 4, 4}}};
    m.outputs = {"logits"};
    add_weight(m, "conv.w", {Collection::kFeatures, 3, 4, 4});
    add_weight(m, "fc.w", {3, Collection::kFeatures});
    add_weight(m, "fc.b", {3});
    m.nodes = {{"Conv", {"x", "conv.w"}, {"c"}, {}},
               {"Relu", {"c"}, {"r"}, {}},
               {"Flatten", {"r"}, {"f"}, {{"axis", int64_t{1}}}},
               {"Gemm", {"f", "fc.w", "fc.b"}, {"logits"}, {{"transB", int64_t{1}}}}};
    return export_model(m);
  }();
  return bytes;
}

}  // namespace ndtrain::sim
