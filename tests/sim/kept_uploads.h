// Where the simulated Tuner keeps what stores say of uploads: in place of a label database, a file
// on its disk. A photo has what was said of it last.
#pragma once

#include <map>
#include <set>
#include <string>

#include "framework/core/publish.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class KeptUploads final : public UploadSink {
 public:
  explicit KeptUploads(Fs& fs) : fs_(fs), labels_(on(fs)) {}

  // By digest; as a file on `fs` has it.
  using Labels = std::map<std::string, std::string>;
  static Labels on(Fs& fs) {
    const Result<std::string> text = fs.read(kFile);
    return text.ok() ? parse(*text) : Labels();
  }

  Status keep(const std::string&, std::span<const wire::Upload> lines,
              const std::map<uint64_t, PublishedModel>&) override {
    Labels next = labels_;
    for (const wire::Upload& line : lines) next[hex_of(line.digest())] = line.truth();
    return save(std::move(next));
  }

  Result<std::vector<std::set<std::string>>> holders(std::span<const Digest> photos) override {
    return std::vector<std::set<std::string>>(photos.size());
  }

  Status forget(const std::vector<Digest>& photos) override {
    Labels next = labels_;
    for (const Digest& photo : photos) next.erase(to_hex(photo));
    return save(std::move(next));
  }

  static std::string hex_of(const std::string& digest) {
    return to_hex({reinterpret_cast<const uint8_t*>(digest.data()), digest.size()});
  }

 private:
  static constexpr char kFile[] = "state/uploads.txt";

  Status save(Labels next) {
    std::string text;
    for (const auto& [photo, truth] : next) text += photo + " " + truth + "\n";
    if (Status s = publish(fs_, kFile, text); !s.ok()) return s;
    labels_ = std::move(next);
    return {};
  }
  static Labels parse(const std::string& text) {
    Labels labels;
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      const std::string line = text.substr(at, end - at);
      labels[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
    }
    return labels;
  }

  Fs& fs_;
  Labels labels_;
};

}  // namespace ndtrain::sim
