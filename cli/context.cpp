#include "cli/context.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "cli/args.h"
#include "cli/progress_bar.h"
#include "framework/core/log.h"

namespace ndtrain::cli {
using namespace ndp;

Context::Context(const Args& args)
    : json_(args.on("json")),
      quiet_(args.on("quiet")),
      seed_(args.has("seed") ? static_cast<uint64_t>(args.integer("seed")) : 0),
      device_name_(args.text("device")),
      device_options_{.deterministic = args.on("deterministic"),
                      .tuning_file = args.text("tuning"),
                      .less_memory = args.on("less-memory"),
                      .tf32 = args.on("tf32")} {
  // Weights that are freed go back to the system at once.
  if (device_options_.less_memory) mallopt(M_MMAP_THRESHOLD, 1 << 20);
  if (device_options_.deterministic && !device_options_.tuning_file.empty()) {
    log::warn("--deterministic follows a fixed rule: --tuning {} is not used",
              device_options_.tuning_file);
  }
  const int64_t threads = args.has("threads") ? args.integer("threads") : 0;
  if (threads < 0 || threads > 1024)
    throw UsageError("--threads " + args.text("threads") + ": 0 to 1024");
  set_threads(threads > 0 ? static_cast<int>(threads)
                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  progress_ = std::make_unique<ProgressBar>();
  if (quiet_) be_quiet();
}

Context::~Context() = default;

void Context::be_quiet() {
  quiet_ = true;
  progress_ = std::make_unique<QuietProgress>();
}

const Device& Context::device() {
  if (!device_) {
    device_ = std::make_unique<Device>(Backend::find(device_name()), device_options_);
  }
  return *device_;
}

void Context::print(const Json& json, const std::string& text) const {
  print(json_ ? json_text(json, 2) + "\n" : text);
}

void Context::print(const std::string& text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void declare_deterministic(ArgsSpec& args, bool features) {
  const ArgsSpec::Heading heading(args, "Computing");
  args.flag("deterministic",
            std::string("the same bytes for any number of threads on one kind of processor: "
                        "kernels and the order of sums by a fixed rule") +
                (features ? ", and no cached features that another kind of processor, backend or "
                            "version computed"
                          : ""));
}

std::string plain(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : json_text(value);
}

std::string table(const Json& json) {
  size_t width = 0;
  for (const auto& [key, value] : json.items()) width = std::max(width, key.size());
  std::string out;
  for (const auto& [key, value] : json.items()) {
    out += fmt::format("{:<{}}  {}\n", key, width, plain(value));
  }
  return out;
}

}  // namespace ndtrain::cli
