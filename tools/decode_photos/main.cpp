// ndt_decode_photos OUT FILE…: the pixels of photos, as the program sees them, in OUT/0.ppm, 1.ppm
// and so on. A line of each: its number, and "ok WARNINGS" or why it cannot be read. For
// bench/peers/photos.py.
#include <cstdio>
#include <string>

#include "framework/core/fs.h"
#include "framework/core/limits.h"
#include "ndp/photos/decode.h"

namespace {
using namespace ndtrain;
using namespace ndtrain::ndp;

Result<Decoded> read(const std::string& path) {
  const Result<std::string> file = real_fs().read(path, limits::kPhotoFile);
  if (!file.ok()) return file.status();
  return decode(std::as_bytes(std::span(*file)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s OUT FILE...\n", argv[0]);
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    const Result<Decoded> photo = read(argv[i]);
    if (!photo.ok()) {
      std::printf("%d %s\n", i - 2, photo.status().message().c_str());
      continue;
    }
    const Image& image = photo->image;
    const std::string path = join(argv[1], std::to_string(i - 2) + ".ppm");
    std::FILE* out = std::fopen(path.c_str(), "wb");
    if (out == nullptr) {
      std::perror(path.c_str());
      return 1;
    }
    std::fprintf(out, "P6\n%d %d\n255\n", image.width, image.height);
    const size_t written = std::fwrite(image.rgb.data(), 1, image.rgb.size(), out);
    if (std::fclose(out) != 0 || written != image.rgb.size()) {
      std::perror(path.c_str());
      return 1;
    }
    std::printf("%d ok %d\n", i - 2, photo->warnings);
  }
  return 0;
}
