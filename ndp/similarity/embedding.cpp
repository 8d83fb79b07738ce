#include "ndp/similarity/embedding.h"

#include <cmath>

#include "framework/core/dtype.h"

namespace ndtrain::ndp {
namespace {

// An output as [channels, places] or, where tokens come first, [places, channels].
struct Pooling {
  int64_t channels = 0, places = 1;
  bool places_first = false;
};

Pooling pooling_of(const Shape& shape) {
  if (shape.rank() == 3) return {shape[2], shape[1], true};
  if (shape.rank() < 3) return {shape.count(1, shape.rank()), 1, false};
  return {shape[1], shape.count(2, shape.rank()), false};
}

}  // namespace

size_t embedding_size(std::span<const TensorType> outputs) {
  int64_t size = 0;
  for (const TensorType& t : outputs) size += pooling_of(t.shape).channels;
  return static_cast<size_t>(size);
}

std::optional<Embedding> embedding_of(std::span<const TensorType> outputs,
                                      std::span<const std::byte> row) {
  Embedding embedding;
  embedding.reserve(embedding_size(outputs));
  std::vector<double> values;
  for (const TensorType& t : outputs) {
    const Pooling p = pooling_of(t.shape);
    const auto channels = static_cast<size_t>(p.channels), places = static_cast<size_t>(p.places);
    values.resize(channels * places);
    load(row.data(), values.size(), t.dtype, values.data());
    row = row.subspan(values.size() * size_of(t.dtype));
    for (size_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (size_t i = 0; i < places; ++i) {
        sum += p.places_first ? values[i * channels + c] : values[c * places + i];
      }
      embedding.push_back(static_cast<float>(sum / static_cast<double>(places)));
    }
  }
  return normalise(embedding) ? std::optional(std::move(embedding)) : std::nullopt;
}

float cosine(const Embedding& a, const Embedding& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return static_cast<float>(sum);
}

bool normalise(Embedding& embedding) {
  double squares = 0;
  for (const float x : embedding) squares += double{x} * double{x};
  const double length = std::sqrt(squares);
  if (!std::isfinite(length) || length == 0) return false;
  for (float& x : embedding) x = static_cast<float>(x / length);
  return true;
}

}  // namespace ndtrain::ndp
