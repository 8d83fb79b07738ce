#include <unistd.h>

#include <filesystem>

#include "ndp/photos/catalogue.h"
#include "ndp/photos/decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/photos/golden_formats.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/files.h"

namespace ndtrain::fuzz {
namespace {

using support::bytes_of;

bool read_header(std::string_view input) { return ndp::read_photo_header(bytes_of(input)).ok(); }

bool read_photo(std::string_view input) { return ndp::decode(bytes_of(input)).ok(); }

// Of each format and kind that this build reads.
std::vector<std::string> photos() {
  const ndp::Image image = testing::test_pattern(17, 11);
  const std::string exif = testing::exif_with_orientation(6, true);
  std::vector<std::string> seeds = {
      testing::jpeg_of(image), testing::jpeg_of(image, {.progressive = true, .exif = exif}),
      testing::jpeg_of(image, {.colours = testing::JpegSpec::Colours::kYcck, .restart_rows = 1}),
      testing::png_of(image), testing::png_of(image, exif)};
  for (const testing::GoldenFile& golden : testing::golden_files()) {
    std::string file = testing::from_hex(golden.hex);
    if (read_photo(file)) seeds.push_back(std::move(file));
  }
  return seeds;
}

// SQLite wants a file: in a directory of this process.
std::filesystem::path empty_directory() {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ndt_fuzz_" + std::to_string(getpid()));
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

bool read_catalogue(std::string_view input) {
  const std::filesystem::path directory = empty_directory();
  support::write_file(real_fs(), directory / ndp::Catalogue::kFile, input);
  bool whole = false;
  if (auto opened = ndp::Catalogue::open(real_fs(), directory); opened.ok()) {
    ndp::Catalogue& catalogue = **opened;
    const auto entries = catalogue.entries_after("", 1000);
    whole = entries.ok() && !entries->empty() && catalogue.counts().ok() &&
            catalogue.damaged().ok() && catalogue.with_digest(sha256("a")).ok();
    whole &= catalogue.quarantine(sha256("a"), "no photo").ok();
  }
  std::filesystem::remove_all(directory);
  return whole;
}

std::vector<std::string> catalogues() {
  const std::filesystem::path directory = empty_directory();
  for (const char* const name : {"a", "b"}) {
    support::write_file(real_fs(), directory / "photos" / (name + std::string(".jpg")), name);
  }
  {
    auto catalogue = ndp::Catalogue::open(real_fs(), directory).or_throw();
    ndp::DirectorySource source(real_fs(), directory / "photos");
    ThreadPool threads(1);
    (void)catalogue->scan(source, threads).or_throw();
  }
  std::vector<std::string> seeds = {real_fs().read(directory / ndp::Catalogue::kFile).or_throw()};
  std::filesystem::remove_all(directory);
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> photo_targets() {
  return {{"photo_header", read_header, photos},
          {"photo", read_photo, photos},
          {"catalogue", read_catalogue, catalogues}};
}

}  // namespace ndtrain::fuzz
