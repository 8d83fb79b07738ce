#include "tests/nccl/fake_nccl_world.h"

#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ndtrain::fake {
namespace {

template <typename Holds>
void wait_until(const Holds& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool all_have(const std::atomic<uint64_t>* of, int ranks, uint64_t number) {
  return std::all_of(of, of + ranks, [&](const auto& n) { return n >= number; });
}

void size_file(int file) {
  if (file < 0 || ftruncate(file, sizeof(SharedWorld)) != 0) {
    throw std::runtime_error(std::string("the file of a world: ") + std::strerror(errno));
  }
  close(file);
}

}  // namespace

size_t size_of_type(int32_t type) {
  return type == ncclChar ? 1 : type == ncclFloat16 || type == ncclBfloat16 ? 2 : 4;
}

std::string text_of(const NcclCall& call) {
  static constexpr const char* kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Reduce",
                                           "Broadcast", "Send",          "Recv"};
  std::string text = kNames[static_cast<size_t>(call.kind)];
  text += " " + std::to_string(call.count);
  if (call.type != ncclFloat) text += " of type " + std::to_string(call.type);
  if (call.root >= 0) text += " at " + std::to_string(call.root);
  return text;
}

std::string NcclMember::make_world() {
  std::string path = std::filesystem::temp_directory_path() / "ndt_fake_nccl_XXXXXX";
  size_file(mkstemp(path.data()));
  return path;
}

void NcclMember::make_world(const std::string& path) {
  size_file(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
}

NcclMember::NcclMember(const std::string& path, int rank, int ranks, int device)
    : path_(path), rank_(rank), ranks_(ranks), device_(device) {
  const int file = open(path.c_str(), O_RDWR);
  if (file < 0) throw std::runtime_error("no such world: " + path);
  void* const memory =
      mmap(nullptr, sizeof(SharedWorld), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  shared_ = static_cast<SharedWorld*>(memory);
  shared_->ranks = ranks;
  shared_->device[rank] = device;
  if (++shared_->joined == ranks) unlink(path.c_str());
  wait_until([&] { return shared_->joined == ranks; });
  const int* const devices = shared_->device;
  if (std::count(devices, devices + ranks, device) > 1) {
    munmap(shared_, sizeof(SharedWorld));
    throw std::runtime_error("duplicate GPU: several ranks are on device " +
                             std::to_string(device));
  }
}

NcclMember::~NcclMember() { munmap(shared_, sizeof(SharedWorld)); }

std::string NcclMember::call(const NcclCall& call) {
  const uint64_t n = shared_->called[rank_];
  shared_->calls[rank_][n % kCallsKept] = call;
  shared_->called[rank_] = n + 1;
  for (int r = 0; r < ranks_; ++r) {
    const uint64_t theirs = shared_->called[r];
    if (theirs <= n || theirs - n >= kCallsKept) continue;
    const NcclCall& other = shared_->calls[r][n % kCallsKept];
    if (other == call) continue;
    break_world("ranks call different collectives: call " + std::to_string(n) + " is " +
                text_of(call) + " on rank " + std::to_string(rank_) + ", " + text_of(other) +
                " on rank " + std::to_string(r));
  }
  return broken();
}

void NcclMember::break_world(const std::string& why) {
  if (shared_->breaking.exchange(1) != 0) return;
  why.copy(shared_->why, sizeof shared_->why - 1);
  shared_->broken = 1;
}

std::string NcclMember::broken() const { return shared_->broken != 0 ? shared_->why : ""; }

bool NcclWork::advance() {
  if (member->aborted() || !member->broken().empty()) return true;
  if (call.kind == NcclKind::kSend) return advance_send();
  if (call.kind == NcclKind::kReceive) return advance_receive();
  return advance_collective();
}

bool NcclWork::advance_collective() {
  SharedWorld& s = member->shared();
  const int me = member->rank();
  if (phase == kBefore && s.posted[me] == number - 1 &&
      all_have(s.taken, member->ranks(), number - 1)) {
    size_t bytes = call.count * size_of_type(call.type);
    if (call.kind == NcclKind::kReduceScatter) bytes *= static_cast<size_t>(member->ranks());
    if (call.kind != NcclKind::kBroadcast || call.root == me) std::memcpy(s.room[me], in, bytes);
    s.posted[me] = number;
    phase = kPosted;
  }
  if (phase == kPosted && all_have(s.posted, member->ranks(), number)) {
    take();
    s.taken[me] = number;
    phase = kDone;
  }
  return phase == kDone;
}

void NcclWork::take() {
  const SharedWorld& s = member->shared();
  const int me = member->rank();
  const size_t bytes = call.count * size_of_type(call.type);
  if (call.kind == NcclKind::kBroadcast) {
    std::memcpy(out, s.room[call.root], bytes);
    return;
  }
  if (call.kind == NcclKind::kAllGather) {
    for (int r = 0; r < member->ranks(); ++r) {
      std::memcpy(static_cast<char*>(out) + static_cast<size_t>(r) * bytes, s.room[r], bytes);
    }
    return;
  }
  if (call.kind == NcclKind::kReduce && call.root != me) return;
  const size_t first = call.kind == NcclKind::kReduceScatter ? static_cast<size_t>(me) * bytes : 0;
  std::vector<float> sum(call.count), summand(call.count);
  for (int r = 0; r < member->ranks(); ++r) {
    std::memcpy(summand.data(), s.room[r] + first, bytes);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = r == 0 ? summand[i] : sum[i] + summand[i];
  }
  if (bytes > 0) std::memcpy(out, sum.data(), bytes);
}

bool NcclWork::advance_send() {
  SharedWorld& s = member->shared();
  const int from = member->rank(), to = call.root;
  if (phase == kBefore && s.sent[from][to] == number - 1 && s.received[from][to] == number - 1) {
    std::memcpy(s.messages[from][to], in, call.count);
    s.length[from][to] = call.count;
    s.sent[from][to] = number;
    phase = kPosted;
  }
  if (phase == kPosted && s.received[from][to] >= number) phase = kDone;
  return phase == kDone;
}

// A message of another length the real one would never end.
bool NcclWork::advance_receive() {
  SharedWorld& s = member->shared();
  const int from = call.root, to = member->rank();
  if (phase == kBefore && s.sent[from][to] >= number && s.received[from][to] == number - 1 &&
      s.length[from][to] == call.count) {
    std::memcpy(out, s.messages[from][to], call.count);
    s.received[from][to] = number;
    phase = kDone;
  }
  return phase == kDone;
}

}  // namespace ndtrain::fake
