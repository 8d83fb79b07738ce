#include "ndp/sandbox/decode_worker.h"

#include <malloc.h>

#include <ctime>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "ndp/sandbox/worker_start.h"

namespace ndtrain::ndp {
namespace {

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
  std::string whole;
  const std::optional<std::string_view> file = received(channel, photo, whole);
  if (!file) return false;
  PhotoCost cost;
  const Result<Image> image = decoded(decoder, photo, *file, cost);
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
  std::optional<WorkerChannel> channel = begin_work(kDecodeWorker, [] {
    load_decoders();
    keep_memory();
  });
  if (!channel) return kWorkerFailed;
  while (const std::optional<WorkerRecord> next = channel->receive()) {
    if (next->kind != WorkerRecord::kPhoto || !serve_photo(*channel, decoder, *next)) {
      return kWorkerFailed;
    }
  }
  return kWorkerDone;
}

}  // namespace ndtrain::ndp
