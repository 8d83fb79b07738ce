// The file that the ranks of a world share, and what they do there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace ndtrain::fake {

inline constexpr int kMostRanks = 20;
inline constexpr size_t kCallsKept = 4096;
inline constexpr size_t kRoom = size_t{16} << 20, kMessageRoom = size_t{256} << 10;

enum class NcclKind : int32_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kReduce,
  kBroadcast,
  kSend,
  kReceive
};

struct NcclCall {
  NcclKind kind;
  int32_t type, root;
  uint64_t count;
  bool operator==(const NcclCall&) const = default;
};
std::string text_of(const NcclCall& call);

// Zero at first.
struct SharedWorld {
  std::atomic<int> ranks, joined;
  int device[kMostRanks];
  std::atomic<int> breaking, broken;
  char why[512];
  // Of collectives: as they are called; as streams come to them, and have their results.
  std::atomic<uint64_t> called[kMostRanks];
  NcclCall calls[kMostRanks][kCallsKept];
  std::atomic<uint64_t> posted[kMostRanks], taken[kMostRanks];
  // Of messages of each pair.
  std::atomic<uint64_t> sent[kMostRanks][kMostRanks], received[kMostRanks][kMostRanks];
  uint64_t length[kMostRanks][kMostRanks];
  // Of splits: as they are called, as their worlds are there.
  std::atomic<uint64_t> splits[kMostRanks], split[kMostRanks];
  int color[kMostRanks], key[kMostRanks];
  char room[kMostRanks][kRoom];
  char messages[kMostRanks][kMostRanks][kMessageRoom];
};

// One rank's.
class NcclMember {
 public:
  static std::string make_world();  // the path of its file
  static void make_world(const std::string& path);
  // Waits for the others. Throws std::runtime_error where there is no such world, or a device has
  // two ranks.
  NcclMember(const std::string& path, int rank, int ranks, int device);
  ~NcclMember();
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_; }
  const std::string& path() const { return path_; }
  SharedWorld& shared() const { return *shared_; }

  // Empty, or how the call differs from another rank's; the world is broken then.
  std::string call(const NcclCall& call);
  std::string broken() const;
  void abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }

 private:
  void break_world(const std::string& why);

  const std::string path_;
  const int rank_, ranks_, device_;
  SharedWorld* shared_ = nullptr;
  std::atomic<bool> aborted_ = false;
};

// An operation on a stream. Operations of a world, and messages of a pair, take turns.
struct NcclWork {
  std::shared_ptr<NcclMember> member;
  NcclCall call;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t number = 0;  // from 1
  enum { kBefore, kPosted, kDone } phase = kBefore;

  bool advance();  // does what it can now; whether it is done

 private:
  bool advance_collective();
  bool advance_send();
  bool advance_receive();
  void take();
};

size_t size_of_type(int32_t type);

}  // namespace ndtrain::fake
