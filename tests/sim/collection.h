// The photos of a simulation: who holds which, who cannot read which, and the row of each.
#pragma once

#include <string>
#include <vector>

#include "ndp/pipestore/row_producer.h"

namespace ndtrain::sim {
using namespace ndp;

class Collection {
 public:
  static constexpr size_t kStores = 3, kPhotos = 300;
  static constexpr uint32_t kClasses = 3;
  static constexpr size_t kFeatures = 8, kRow = 2 * kFeatures;  // f16
  static constexpr size_t kKinds = 16;                          // collections that differ

  // A function of `kind` alone. In every fourth one each photo is on two stores at least; in the
  // others about half.
  explicit Collection(uint64_t kind);

  static std::string name_of(size_t store) {
    return std::string(1, static_cast<char>('a' + store));
  }
  const std::vector<StorePhoto>& of(size_t store) const { return stores_.at(store); }
  bool holds(size_t store, const Digest& photo) const;
  // The store's copy cannot be read.
  static bool bad(size_t store, const Digest& photo);
  // Whether one of the stores, but for `lost` (kStores: none is), can deliver the photo.
  bool readable(const Digest& photo, size_t lost = kStores) const;
  static std::string row(const Digest& photo);
  // How many photos have a row, when no store is lost.
  size_t rows() const;
  // Deletes a photo from a store, of which another has a copy that is as good. False: there is none
  // near `place`.
  bool remove(size_t store, size_t place);

 private:
  std::vector<std::vector<StorePhoto>> stores_;
};

// A network of a convolution and a classifier, as an ONNX file.
const std::string& tiny_model();

}  // namespace ndtrain::sim
