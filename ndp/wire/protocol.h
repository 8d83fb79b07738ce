// Numbers both sides of the wire agree on. See docs/wire.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace ndtrain {

// What this program speaks, newest first. 2: deletions.
inline constexpr uint32_t kProtocols[] = {2, 1};

inline constexpr std::chrono::milliseconds kHeartbeat{5000};
inline constexpr uint64_t kWindow = uint64_t{8} << 20;  // bytes unacknowledged
// A ModelWanted is answered with this many parts of this many bytes, or what there is.
inline constexpr size_t kModelPart = size_t{256} << 10;
inline constexpr int kModelParts = 16;
inline constexpr size_t kStoreNameBytes = 64;

// Letters, digits, '.', '_' and '-', not beginning with '.' or '-': safe in paths and in logs.
bool is_store_name(std::string_view name);

}  // namespace ndtrain
