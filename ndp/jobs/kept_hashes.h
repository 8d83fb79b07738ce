// What photos look like: hashes of them (ndp/photos/perceptual_hash.h), kept beside features so
// that the next time decodes only what is new.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/hash.h"
#include "ndp/photos/photo_decoder.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

// Of a photo file, decoded no larger than a hash needs. Thread-safe.
Result<uint64_t> hash_photo(const std::string& name, std::string_view file,
                            PhotoDecoder& by = decoder_in_process());

// One thread at a time.
class KeptHashes {
 public:
  // Which outlives this. Photos of other decoders have other hashes.
  explicit KeptHashes(SegmentStore& store);

  std::optional<uint64_t> get(const Digest& photo) const;
  // Durable after the store's next flush. No feature goes for it: where there is no room it is not
  // kept, which is said once.
  void put(const Digest& photo, uint64_t hash);

 private:
  SegmentStore& store_;
  const Digest group_;
  bool full_ = false;
};

}  // namespace ndtrain::ndp
