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
  explicit KeptUploads(Fs& fs) : fs_(fs), labels_(on(fs)), hidden_(hidden_on(fs)) {}

  // By digest; as a file on `fs` has it.
  using Labels = std::map<std::string, std::string>;
  static Labels on(Fs& fs) {
    const Result<std::string> text = fs.read(kFile);
    return text.ok() ? parse(*text) : Labels();
  }

  Status keep(const StorePlace&, std::span<const wire::Upload> lines,
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
    if (Status s = save(std::move(next)); !s.ok()) return s;
    return restore_from_trash(photos);
  }

  Status remove_task(const std::string&) override { return {}; }

  // Photos in the trash keep what was said of them.
  Status put_in_trash(const std::vector<Digest>& photos) override {
    std::set<std::string> next = hidden_;
    for (const Digest& photo : photos) next.insert(to_hex(photo));
    return hide(std::move(next));
  }
  Status restore_from_trash(const std::vector<Digest>& photos) override {
    std::set<std::string> next = hidden_;
    for (const Digest& photo : photos) next.erase(to_hex(photo));
    return hide(std::move(next));
  }
  static std::set<std::string> hidden_on(Fs& fs) {
    const Result<std::string> text = fs.read(kHidden);
    std::set<std::string> photos;
    if (!text.ok()) return photos;
    for (size_t at = 0, end; (end = text->find('\n', at)) != std::string::npos; at = end + 1) {
      photos.insert(text->substr(at, end - at));
    }
    return photos;
  }

  static std::string hex_of(const std::string& digest) {
    return to_hex({reinterpret_cast<const uint8_t*>(digest.data()), digest.size()});
  }

 private:
  static constexpr char kFile[] = "state/uploads.txt", kHidden[] = "state/hidden.txt";

  Status hide(std::set<std::string> next) {
    std::string text;
    for (const std::string& photo : next) text += photo + "\n";
    if (Status s = publish(fs_, kHidden, text); !s.ok()) return s;
    hidden_ = std::move(next);
    return {};
  }

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
  std::set<std::string> hidden_;
};

}  // namespace ndtrain::sim
