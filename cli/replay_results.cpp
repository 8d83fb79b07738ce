#include "cli/replay_results.h"

#include "framework/core/error.h"
#include "framework/core/log.h"

namespace ndtrain::cli {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;

// {"settings": {…}, "result": {"schedule": …, …}}
bool is_result(const Json& line) {
  return line.is_object() && line.contains("settings") && line.contains("result") &&
         line["settings"].is_object() && line["result"].is_object() &&
         line["result"].contains("schedule");
}

}  // namespace

ReplayResults::ReplayResults(Fs& fs, const std::string& directory)
    : path_(join(directory, "results.jsonl")) {
  fs.make_directories(directory).or_throw();
  file_ = fs.open(path_, Fs::Mode::kAppend).or_throw();
  const Status locked = file_->lock();
  if (locked.code() == Code::kExists) throw Error(path_, ": another bench writes it");
  locked.or_throw();
  read(fs);
}

void ReplayResults::read(Fs& fs) {
  const std::string text = fs.read(path_, kMostBytes).or_throw();
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    Json line = try_parse_json(std::string_view(text).substr(at, end - at));
    if (end == std::string::npos || (!is_result(line) && end + 1 == text.size())) {
      log::warn("{}: the last line is damaged, and dropped", path_);
      file_->truncate(static_cast<int64_t>(at)).or_throw();
      return;
    }
    if (!is_result(line)) {
      throw Error(path_, ": line ", lines_.size() + 1,
                  " is no result; remove it, and what it was is measured again");
    }
    lines_.push_back(std::move(line));
    at = end + 1;
  }
}

std::optional<Json> ReplayResults::find(const Json& settings, const std::string& schedule) const {
  for (const Json& line : lines_) {
    if (line["settings"] == settings && line["result"]["schedule"] == schedule) {
      return line["result"];
    }
  }
  return std::nullopt;
}

void ReplayResults::add(const Json& settings, const Json& result) {
  lines_.push_back({{"settings", settings}, {"result", result}});
  const std::string line = json_text(lines_.back()) + "\n";
  file_->append(std::as_bytes(std::span(line.data(), line.size()))).or_throw();
  file_->sync();
}

}  // namespace ndtrain::cli
