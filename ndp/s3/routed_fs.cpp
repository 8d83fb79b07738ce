#include "ndp/s3/routed_fs.h"

#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {
namespace {

Status read_only(const std::string& path) {
  return {Code::kUnsupported, path + ": this is not done to S3; name a directory of this machine"};
}

}  // namespace

Result<std::unique_ptr<File>> RoutedFs::open(const std::string& path, Mode mode) {
  if (!is_s3_url(path)) return others_.open(path, mode);
  if (mode == Mode::kCreate) return create_s3(path);
  return mode == Mode::kRead ? open_s3(path) : read_only(path);
}

Result<FileInfo> RoutedFs::info(const std::string& path) {
  return is_s3_url(path) ? info_s3(path) : others_.info(path);
}

Result<std::vector<std::string>> RoutedFs::list(const std::string& directory) {
  return is_s3_url(directory) ? list_s3(directory) : others_.list(directory);
}

Status RoutedFs::make_directories(const std::string& path) {
  return is_s3_url(path) ? read_only(path) : others_.make_directories(path);
}

Status RoutedFs::rename(const std::string& from, const std::string& to) {
  if (is_s3_url(from)) return read_only(from);
  return is_s3_url(to) ? read_only(to) : others_.rename(from, to);
}

Status RoutedFs::remove(const std::string& path) {
  return is_s3_url(path) ? remove_s3(path) : others_.remove(path);
}

Result<Space> RoutedFs::space(const std::string& path) {
  if (!is_s3_url(path)) return others_.space(path);
  return Status(Code::kUnsupported, path + ": S3 does not say how much room it has");
}

Result<std::unique_ptr<FileLock>> RoutedFs::lock(const std::string& path) {
  if (is_s3_url(path)) return read_only(path);
  return others_.lock(path);
}

Status RoutedFs::try_sync_directory(const std::string& path) {
  // What an S3 has answered is durable.
  if (!is_s3_url(path)) others_.sync_directory(path);
  return {};
}

}  // namespace ndtrain::ndp
