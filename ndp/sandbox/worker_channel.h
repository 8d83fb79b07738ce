// What a process and its worker, which decodes photos or imports models for it, say to each other:
// records of one size over a socket, and bytes, of files one way and pixels the other, through a
// window of memory that both have mapped. A sender fills the window and says how much there is; the
// receiver takes that, and asks for more where there is more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ndtrain::ndp {

inline constexpr size_t kWindowBytes = size_t{16} << 20;  // bytes
inline constexpr size_t kRefusalBytes = 8192;             // at most, of a message

struct WorkerRecord {
  enum Kind : uint32_t {
    kLimits = 1,
    kReady,
    kPhoto,
    kPart,
    kMore,
    kImage,
    kRefusal,
    kModel,
    kImported,
    kDelta,
    kFile
  };
  uint32_t kind = 0;
  uint32_t part = 0;   // bytes in the window
  uint64_t total = 0;  // of all parts

  // kLimits
  int64_t memory = 0, cpu_seconds = 0;
  uint32_t filter = 0, landlock = 0;  // kReady: what is in force; the window says what is missing
  uint32_t limited = 0;

  // kPhoto
  char extension[16] = {};  // of the file's name
  int32_t min_shorter_side = 0;
  uint32_t crop = 0;  // to what these four say
  int32_t img_size = 0, resize = 0;
  uint32_t interpolation = 0, squash = 0;

  uint64_t base = 0;  // kDelta: so many of the bytes are its base's, which come first

  // kImage
  int32_t width = 0, height = 0;
  int64_t warnings = 0;
  double decode_s = 0, resize_s = 0;

  uint32_t code = 0;  // kRefusal: a Code; the window has the message
};

// One end. A thread at a time.
class WorkerChannel {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Borrowed: a SOCK_SEQPACKET, and kWindowBytes bytes.
  WorkerChannel(int socket, std::byte* window) : socket_(socket), window_(window) {}

  // False: the other end is gone.
  bool send(const WorkerRecord& record);
  // nullopt: it is gone, sent what is no record, or nothing until the deadline, if there is one.
  std::optional<WorkerRecord> receive(std::optional<Time> deadline = {});

  // A record with bytes of any length behind it.
  bool send_all(WorkerRecord record, std::span<const std::byte> bytes,
                std::optional<Time> deadline);
  // The bytes of a record that came, its total of which the caller has found sensible, into `to`.
  bool receive_all(const WorkerRecord& first, std::span<std::byte> to,
                   std::optional<Time> deadline);

  std::span<std::byte> window() const { return {window_, kWindowBytes}; }

 private:
  const int socket_;
  std::byte* const window_;
};

}  // namespace ndtrain::ndp
