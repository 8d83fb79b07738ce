#include "framework/train/checkpoint_1.h"

#include <cstring>
#include <vector>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr int64_t kBucketElements = (int64_t{25} << 20) / 4, kSlotElements = 16;

// Sizes of buckets in elements, and where each parameter lies in which of them.
struct Buckets {
  struct Place {
    size_t bucket;
    int64_t begin;
  };
  std::vector<int64_t> sizes;
  std::vector<Place> places;

  // A bucket is filled until the next parameter would make it larger than it may be; one that is
  // larger itself has a bucket of its own.
  explicit Buckets(std::span<const std::pair<std::string, Shape>> parameters) {
    for (const auto& [name, shape] : parameters) {
      const int64_t n = (shape.count() + kSlotElements - 1) / kSlotElements * kSlotElements;
      if (sizes.empty() || sizes.back() + n > kBucketElements) sizes.push_back(0);
      places.push_back({sizes.size() - 1, sizes.back()});
      sizes.back() += n;
    }
  }
};

}  // namespace

std::map<std::string, Tensor> moments_by_parameter(
    const std::map<std::string, Tensor>& in_buckets,
    std::span<const std::pair<std::string, Shape>> parameters) {
  const Buckets buckets(parameters);
  std::map<std::string, Tensor> moments;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, shape] = parameters[i];
    const auto [bucket, begin] = buckets.places[i];
    for (const std::string moment : {".m", ".v"}) {
      const auto it = in_buckets.find("bucket" + std::to_string(bucket) + moment);
      if (it == in_buckets.end()) continue;  // SGD has one moment
      const TensorType type{DType::kF32, {buckets.sizes[bucket]}};
      if (it->second.type() != type) {
        throw Error("checkpoint: optimizer state '", it->first, "' is ", it->second.type(),
                    ", not ", type, "; it was written for other parameters");
      }
      Tensor t({DType::kF32, shape});
      std::memcpy(t.mutable_data(), it->second.as<float>().data() + begin, t.bytes());
      moments.emplace(name + moment, std::move(t));
    }
  }
  return moments;
}

}  // namespace ndtrain
