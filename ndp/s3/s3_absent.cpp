#include <utility>

#include "ndp/s3/machine_keys.h"
#include "ndp/s3/routed_fs.h"
#include "ndp/s3/s3_fs.h"
#include "ndp/s3/web_identity.h"

namespace ndtrain::ndp {
namespace {

class NoS3Fs final : public RoutedFs {
 public:
  explicit NoS3Fs(Fs& others) : RoutedFs(others) {}

 private:
  static Status absent(const std::string& path) {
    return {Code::kUnsupported, path +
                                    ": this build does not read S3; build it with -D NDT_S3=ON, "
                                    "with libcurl4-openssl-dev and libpugixml-dev"};
  }
  Result<std::unique_ptr<File>> open_s3(const std::string& path) override { return absent(path); }
  Result<std::unique_ptr<File>> create_s3(const std::string& path) override { return absent(path); }
  Result<FileInfo> info_s3(const std::string& path) override { return absent(path); }
  Result<std::vector<std::string>> list_s3(const std::string& path) override {
    return absent(path);
  }
  Status remove_s3(const std::string& path) override { return absent(path); }
};

}  // namespace

S3Build s3_build() {
  return {.library = "", .option = "NDT_S3", .package = "libcurl4-openssl-dev, libpugixml-dev"};
}

std::shared_ptr<S3KeySource> machine_keys(Fs&, const Environment&, Clock&) { return nullptr; }

std::shared_ptr<S3KeySource> web_identity_keys(Fs&, const Environment&, Clock&) { return nullptr; }

std::unique_ptr<Fs> with_s3(Fs& others, Clock&, const std::function<Result<S3Settings>()>&) {
  return std::make_unique<NoS3Fs>(others);
}

}  // namespace ndtrain::ndp
