// The difference between two model files, and how a file is made of another and the difference.
// The result has every byte of the file it stands for. Format: docs/deltas.md. Functions of their
// arguments; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/status.h"

namespace ndtrain::ndp {

// What became of one tensor, and how a delta says it.
struct TensorChange {
  enum class Kind : uint8_t {
    kUnchanged,   // the base's bytes
    kSparse,      // the base's but for some elements
    kDifference,  // from the base's tensor, element by element
    kNew          // the base has nothing like it, or that does not help
  };
  std::string name;
  Kind kind = Kind::kNew;
  uint64_t tensor_bytes = 0, delta_bytes = 0;
};
const char* name_of(TensorChange::Kind kind);

struct Delta {
  std::string bytes;
  std::vector<TensorChange> tensors;  // of the result, as in its file
};

// What a delta is between. kCorrupt, kUnsupported (a younger format).
struct DeltaEnds {
  Digest base{}, result{};
};
Result<DeltaEnds> delta_ends(std::string_view delta);

// A result is at most this large; larger ones are sent as they are.
uint64_t largest_result(uint64_t base_bytes);

// Both are ONNX files; kCorrupt when one is not. kTooLarge when `result` is beyond
// largest_result().
Result<Delta> make_delta(std::string_view base, std::string_view result);

// kNotFound when `base` is not the delta's; kCorrupt when the delta is damaged or does not make the
// file it names; kUnsupported for a younger format. Takes memory in proportion to `base`, whatever
// the delta says. Untrusted input.
Result<std::string> apply_delta(std::string_view base, std::string_view delta);

}  // namespace ndtrain::ndp
