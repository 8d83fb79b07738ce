// Numbers both sides of the wire agree on. See docs/wire.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/core/limits.h"

namespace ndtrain::ndp {

// What this program speaks, newest first. 2: deletions. 3: rows in pieces. 4: the trash.
// 5: tasks and collections. 6: a store makes rows for several jobs at once.
inline constexpr uint32_t kProtocols[] = {6, 5, 4, 3, 2, 1};
inline constexpr uint32_t kSpeaksOfPieces = 3;
inline constexpr uint32_t kSpeaksOfTrash = 4;
inline constexpr uint32_t kSpeaksOfTasks = 5;
inline constexpr uint32_t kSpeaksOfJobsAtOnce = 6;

// Three of them unheard, and a peer that stands still or is cut off is given up: after 9 s.
inline constexpr std::chrono::milliseconds kHeartbeat{3000};
inline constexpr uint64_t kWindow = uint64_t{8} << 20;  // bytes unacknowledged
// A ModelWanted is answered with this many parts of this many bytes, or what there is.
inline constexpr size_t kModelPart = size_t{256} << 10;
inline constexpr int kModelParts = 16;
// A peer for whom more bytes than this wait to be written is answered no more: it asks for more
// than it takes.
inline constexpr size_t kMostWaiting = size_t{64} << 20;
// A row larger than this comes in pieces of that many bytes, each a Rows with its number alone.
inline constexpr auto kWholeRow = static_cast<size_t>(limits::kMessage) - (size_t{64} << 10);
inline constexpr size_t kRowPiece = size_t{1} << 20;
inline constexpr size_t kStoreNameBytes = 64;

// Letters, digits, '.', '_' and '-', not beginning with '.' or '-': safe in paths and in logs.
bool is_store_name(std::string_view name);
// A store of a process that has several is called COLLECTION@PROCESS, each of the two as above, at
// most so long together; a store that is alone has the name of its process. By that the certificate
// knows it.
std::string store_in_process(std::string_view collection, std::string_view process);
std::string_view process_of(std::string_view store);
bool names_store(std::string_view name);  // a store of either kind

}  // namespace ndtrain::ndp
