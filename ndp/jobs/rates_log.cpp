#include "ndp/jobs/rates_log.h"

#include <span>

#include "framework/core/log.h"

namespace ndtrain::ndp {

std::function<void(const std::string& line)> rates_log(Fs& fs, const std::string& directory) {
  return [&fs, path = join(directory, kRatesLog)](const std::string& line) {
    const auto file = fs.open(path, Fs::Mode::kAppend);
    const std::string text = line + "\n";
    const Status written =
        file.ok() ? (*file)->append(std::as_bytes(std::span(text))) : file.status();
    if (!written.ok()) log::warn("{}: {}", path, written.message());
  };
}

}  // namespace ndtrain::ndp
