#include "ndp/sandbox/decode_worker.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "ndp/sandbox/confinement.h"
#include "ndp/sandbox/worker_channel.h"

namespace ndtrain::ndp {
namespace {

constexpr int kOk = 0, kFailed = 1;

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool refuse(WorkerChannel& channel, const Status& why) {
  return channel.send_all(
      {.kind = WorkerRecord::kRefusal, .code = static_cast<uint32_t>(why.code())},
      bytes_in(std::string_view(why.message()).substr(0, kRefusalBytes)), {});
}

// None: the whole photo.
std::optional<Preprocess> crop_of(const WorkerRecord& photo) {
  if (photo.crop == 0) return std::nullopt;
  return Preprocess{.img_size = photo.img_size,
                    .resize = photo.resize,
                    .interpolation = static_cast<Interpolation>(photo.interpolation),
                    .squash = photo.squash != 0};
}

Result<Image> decoded(PhotoDecoder& decoder, const WorkerRecord& photo, std::string_view file,
                      PhotoCost& cost) {
  const std::optional<Preprocess> crop = crop_of(photo);
  const std::string name = std::string("photo") + photo.extension;
  try {
    return decoder.decode(name, file, {.min_shorter_side = photo.min_shorter_side},
                          crop ? &*crop : nullptr, cost);
  } catch (const std::bad_alloc&) {
    return Status(Code::kTooLarge, "decoding it takes more memory than a decode worker may have");
  } catch (const Error& e) {
    return Status(Code::kCorrupt, e.what());
  }
}

// False: the other end is gone.
bool serve_photo(WorkerChannel& channel, PhotoDecoder& decoder, const WorkerRecord& photo) {
  std::string whole;  // where it does not fit the window
  std::string_view file(reinterpret_cast<const char*>(channel.window().data()), photo.part);
  if (photo.part < photo.total) {
    whole.resize(photo.total);
    if (!channel.receive_all(photo, std::as_writable_bytes(std::span(whole)), {})) return false;
    file = whole;
  }
  PhotoCost cost;
  const Result<Image> image = decoded(decoder, photo, file, cost);
  if (!image.ok()) return refuse(channel, image.status());
  return channel.send_all({.kind = WorkerRecord::kImage,
                           .width = image->width,
                           .height = image->height,
                           .warnings = cost.warnings,
                           .decode_s = cost.decode_s,
                           .resize_s = cost.resize_s},
                          std::as_bytes(std::span(image->rgb)), {});
}

// What loads plugins and looks at the machine does so now: it could not later.
void load_decoders() {
  (void)photo_libraries();
  tzset();  // lcms dates what it makes
}

// What a photo took is there for the next: to the kernel and back costs as much as the photo's way
// to this process and back.
void keep_memory() {
  constexpr int kKept = 64 << 20, kMapped = 32 << 20;  // bytes; larger ones are mapped each
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kMapped);
}

}  // namespace

int serve_decoding(PhotoDecoder& decoder) {
  void* window = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, kWorkerWindow, 0);
  if (window == MAP_FAILED) {
    std::fputs("ndtrain: decode-worker is a part of `ndtrain pipestore serve`, which starts it\n",
               stderr);
    return kFailed;
  }
  close(kWorkerWindow);
  WorkerChannel channel(kWorkerSocket, static_cast<std::byte*>(window));
  const std::optional<WorkerRecord> limits = channel.receive();
  if (!limits || limits->kind != WorkerRecord::kLimits) return kFailed;
  load_decoders();
  keep_memory();
  const Result<Confinement> is = confine(kWorkerSocket, {.memory = limits->memory,
                                                         .cpu_seconds = limits->cpu_seconds,
                                                         .filter = limits->filter != 0,
                                                         .landlock = limits->landlock != 0});
  if (!is.ok()) {
    (void)refuse(channel, is.status());
    return kFailed;
  }
  std::string missing;
  for (const std::string& m : is->missing) missing += (missing.empty() ? "" : ", ") + m;
  if (!channel.send_all({.kind = WorkerRecord::kReady,
                         .filter = is->filter,
                         .landlock = static_cast<uint32_t>(is->landlock),
                         .limited = is->memory},
                        bytes_in(missing), {})) {
    return kFailed;
  }
  while (const std::optional<WorkerRecord> next = channel.receive()) {
    if (next->kind != WorkerRecord::kPhoto || !serve_photo(channel, decoder, *next)) return kFailed;
  }
  return kOk;
}

}  // namespace ndtrain::ndp
