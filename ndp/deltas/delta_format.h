// The parts that a delta is made of, for its writer and its reader. What throws, throws Error: the
// bytes are not what they should be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/byte_reader.h"
#include "framework/onnx/tensor_extents.h"

namespace ndtrain::ndp::delta_format {

inline constexpr std::string_view kMagic = "NDTDELTA";
inline constexpr uint8_t kFormat = 1;
inline constexpr size_t kDigestBytes = 32;
inline constexpr size_t kHeaderBytes = kMagic.size() + 1 + 2 * kDigestBytes;
// Tensors with less raw data are part of the skeleton.
inline constexpr uint64_t kSmallestTensor = 64;

// A model file as its tensors and what is left without them. The frame is their extents (how many;
// for each the skeleton's bytes before it, its length, its element size), then the skeleton.
struct ModelParts {
  std::vector<TensorExtent> tensors;
  std::string frame;
};
ModelParts dissect(std::string_view onnx);

// Of a frame: tensors without names, offsets as in the file; the skeleton is a part of `frame`.
struct Frame {
  std::vector<TensorExtent> tensors;
  std::string_view skeleton;
  uint64_t file_bytes = 0;
};
// Throws when the file would be larger than `limit`.
Frame read_frame(std::string_view frame, uint64_t limit);

// The result, which is not verified, of what follows a delta's header.
std::string rebuild(std::string_view base, ByteReader delta);

// Bytes as themselves or by zstd, whichever is shorter; nothing at all for zeros. `prefix` is what
// the reader has too, and the bytes may look like. Unpacking needs the number of bytes.
std::string pack(std::string_view bytes, std::string_view prefix = {});
void unpack(ByteReader& from, std::string_view prefix, char* to, size_t bytes);

}  // namespace ndtrain::ndp::delta_format
