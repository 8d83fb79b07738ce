// Every limit on untrusted input, in one place. Each is tested at L-1, L and L+1.
#pragma once

#include <cstdint>

namespace ndtrain::limits {

inline constexpr int kRank = 8;                         // dims of a tensor (NDT_MAX_RANK)
inline constexpr int64_t kElements = int64_t{1} << 40;  // elements of a tensor
inline constexpr int kPorts = 64;                       // inputs or outputs of a node
inline constexpr int64_t kWindow = int64_t{1} << 24;    // kernel extent, stride, dilation or pad
inline constexpr int64_t kModelFile = (int64_t{2} << 30) - 1;  // bytes; protobuf's own limit
inline constexpr int64_t kModelNodes = 1 << 20;                // nodes after inlining
inline constexpr int64_t kAttentionMask = 1 << 22;             // queries x keys of a causal mask
inline constexpr int kFunctionDepth = 32;                      // nested local functions
inline constexpr int kGraphDepth = 16;       // nested branches and bodies of loops
inline constexpr int64_t kLoopTrips = 1024;  // of a Loop that is unrolled

inline constexpr int64_t kPhotoFile = int64_t{256} << 20;  // bytes of one photo file
inline constexpr int64_t kPhotoSide = 32768;               // pixels
inline constexpr int64_t kPhotoPixels = int64_t{1} << 28;  // width x height

inline constexpr int64_t kLabelsFile = int64_t{1} << 30;  // bytes of a labels.csv or classes.txt
inline constexpr int64_t kClasses = 1 << 20;              // classes of a data set

inline constexpr int kRanks = 64;    // of one training
inline constexpr int kShards = 256;  // of one batch
inline constexpr int kStagesOfRank = 32;
// Elements of a tensor whose gradient is sent sparsely: their indices have 32 bits.
inline constexpr int64_t kSparseElements = (int64_t{1} << 32) - 1;
inline constexpr int kSparseStaleness = 16;        // steps
inline constexpr int64_t kInnerSteps = 1'000'000;  // of ranks that agree now and then
inline constexpr int kPowerSgdRank = 64;

inline constexpr int64_t kFlushMicroBatches = int64_t{1} << 22;  // of a pipeline, until a flush
inline constexpr int64_t kPlannedMicroBatches = 32;              // of a mini-batch, by the planner
inline constexpr int kPlannedStates = 1'000'000;                 // that it searches
inline constexpr int kPlannedVersions = 1 << 20;                 // of a stage's parameters
inline constexpr int kProfiledSteps = 100'000;

inline constexpr int64_t kProfileFile = int64_t{4} << 20;  // bytes of a planner's profile
inline constexpr int64_t kMessage = int64_t{4} << 20;      // bytes of one message between roles
inline constexpr int64_t kHttpHead = int64_t{64} << 10;    // bytes of a request before its body
inline constexpr int64_t kHttpPath = 1024;                 // bytes of its path
inline constexpr int64_t kHttpAnswer = int64_t{64} << 20;  // bytes of a body that a client takes
inline constexpr int64_t kHttpConnections = 128;           // that one server has open
inline constexpr int64_t kPemFile = int64_t{1} << 20;      // bytes of certificates or of a key
inline constexpr int64_t kRecord = int64_t{1} << 30;       // bytes of one segment record
inline constexpr int64_t kSafetensorsHeader = int64_t{64} << 20;
inline constexpr int kPathBytes = 4096;

}  // namespace ndtrain::limits
