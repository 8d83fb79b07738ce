#include "tests/faults/state_files.h"

#include <fmt/format.h>

#include "ndp/http/audit.h"
#include "ndp/http/tokens.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/store/segment_store.h"
#include "ndp/wire/digests.h"
#include "tuner/models/versions.h"
#include "tuner/service/deletion_log.h"
#include "tuner/service/known_stores.h"
#include "tuner/service/trash_log.h"

namespace ndtrain::faults {
using namespace ndp;
using namespace tuner;

namespace {

constexpr const char* kState = "state";

Digest digest_for(const std::string& name) { return sha256(name); }
std::string name_for(const Digest& digest) {
  for (char c = 'a'; c <= 'h'; ++c) {
    if (digest_for({c}) == digest) return {c};
  }
  throw Error("nobody has added ", to_hex(digest));
}
std::vector<Digest> digests_for(const std::vector<std::string>& names) {
  std::vector<Digest> all;
  for (const std::string& name : names) all.push_back(digest_for(name));
  return all;
}

class UploadLogFile final : public StateFile {
 public:
  explicit UploadLogFile(Fs& fs) : log_(UploadLog::open(fs, kState).or_throw()) {}
  Status add(const std::vector<std::string>& names) override {
    std::vector<wire::Upload> lines;
    for (const std::string& name : names) lines.push_back(line(name));
    return log_->commit(std::move(lines));
  }
  Status remove(const std::string& name) override {
    wire::Upload gone = line(name);
    gone.set_removed(true);
    return log_->commit({gone});
  }
  Status tidy() override { return log_->compact(); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    uint64_t last = 0;
    for (const UploadLog::Line& l : log_->after(0, 1 << 20)) {
      wire::Upload u;
      if (!u.ParseFromString(l.bytes) || u.sequence() <= last)
        throw Error("state/log: out of order");
      last = u.sequence();
      const Digest digest = digest_of(u.digest()).value();
      if (!u.removed() && !log_->find(digest)->removed) all.push_back(name_for(digest));
    }
    return all;
  }

 private:
  static wire::Upload line(const std::string& name) {
    wire::Upload u;
    u.set_digest(bytes_of(digest_for(name)));
    u.set_path("uploads/" + name + ".jpg");
    u.set_time(1000);
    return u;
  }
  const std::unique_ptr<UploadLog> log_;
};

class DeletionsFile final : public StateFile {
 public:
  explicit DeletionsFile(Fs& fs) : log_(fs, kState) {}
  Status add(const std::vector<std::string>& names) override {
    return log_.add(digests_for(names));
  }
  Status remove(const std::string&) override { return {}; }
  Status tidy() override { return log_.forget_first(log_.size()); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const Digest& d : log_.from(0)) all.push_back(name_for(d));
    return all;
  }

 private:
  DeletionLog log_;
};

class TrashFile final : public StateFile {
 public:
  explicit TrashFile(Fs& fs) : log_(fs, kState) {}
  Status add(const std::vector<std::string>& names) override {
    std::vector<TrashedPhoto> photos;
    for (const Digest& d : digests_for(names)) {
      photos.push_back({.photo = d, .who = "ann", .since = 1, .until = 2, .paths = {}});
    }
    return log_.put(std::move(photos));
  }
  Status remove(const std::string& name) override { return log_.gone(digests_for({name})); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const auto& [digest, photo] : log_.photos()) all.push_back(name_for(digest));
    return all;
  }

 private:
  TrashLog log_;
};

class VersionsFile final : public StateFile {
 public:
  explicit VersionsFile(Fs& fs) : versions_(fs, join(kState, "versions.json")) {}
  Status add(const std::vector<std::string>& names) override {
    for (const Digest& d : digests_for(names)) {
      const auto added = versions_.add({.content = d, .extractor = d, .head = d}, false);
      if (!added.ok()) return added.status();
    }
    return {};
  }
  Status remove(const std::string& name) override {
    for (const PublishedModel& m : versions_.all()) {
      if (m.content == digest_for(name)) return versions_.remove(m.version);
    }
    return {};
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const PublishedModel& m : versions_.all()) all.push_back(name_for(m.content));
    return all;
  }

 private:
  Versions versions_;
};

class StoresFile final : public StateFile {
 public:
  explicit StoresFile(Fs& fs) : stores_(fs, kState) {}
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      if (Status s = stores_.put(name, {.photos = 1}); !s.ok()) return s;
    }
    return {};
  }
  Status remove(const std::string& name) override { return stores_.forget(name); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const auto& [name, store] : stores_.all()) all.push_back(name);
    return all;
  }

 private:
  KnownStores stores_;
};

class TokenList final : public StateFile {
 public:
  explicit TokenList(Fs& fs) : tokens_(TokensFile::open(fs, kState).or_throw()) {}
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      if (const auto added = tokens_.add({.name = name}); !added.ok()) return added.status();
    }
    return {};
  }
  Status remove(const std::string& name) override { return tokens_.revoke(name, 5); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const Token& t : tokens_.all()) {
      if (t.revoked == 0) all.push_back(t.name);
    }
    return all;
  }

 private:
  TokensFile tokens_;
};

class AuditFile final : public StateFile {
 public:
  AuditFile(Fs& fs, Clock& clock) : log_(fs, clock, kState) {}
  Status add(const std::vector<std::string>& names) override {
    std::vector<AuditLine> lines;
    for (const std::string& name : names) lines.push_back({.who = name, .what = "label"});
    return log_.add(lines);
  }
  Status remove(const std::string&) override { return {}; }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const std::string& line : log_.last(100).or_throw()) {
      all.push_back(Json::parse(line).at("who"));
    }
    return all;
  }

 private:
  AuditLog log_;
};

// A record counts once it is flushed.
class SegmentFiles final : public StateFile {
 public:
  SegmentFiles(Fs& fs, Clock& clock)
      : store_(
            SegmentStore::open(fs, clock, kState, {.segment_bytes = 400, .index_every_bytes = 300})
                .or_throw()) {}
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      const std::string payload(100, name.at(0));
      const Status s =
          store_->put(kGroup, digest_for(name), {.numerics = 1}, std::as_bytes(std::span(payload)));
      if (!s.ok()) return s;
    }
    return store_->flush();
  }
  Status remove(const std::string& name) override {
    if (Status s = store_->remove(kGroup, digest_for(name)); !s.ok()) return s;
    return store_->flush();
  }
  Status tidy() override { return store_->compact().status(); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    std::vector<std::byte> bytes;
    for (const auto& key : store_->keys(kGroup)) {
      Digest digest;
      store_->get(kGroup, key, digest, bytes).status().or_throw();
      const std::string name = name_for(digest);
      if (bytes != std::vector(100, static_cast<std::byte>(name[0]))) throw Error("other bytes");
      all.push_back(name);
    }
    return all;
  }

 private:
  static inline const Digest kGroup = sha256("group");
  const std::unique_ptr<SegmentStore> store_;
};

// The rows of a training's epochs, which its checkpoints count on.
class MetricsFile final : public StateFile {
 public:
  MetricsFile(Fs& fs, Clock& clock) : run_(fs, clock, kState, was_begun(fs)) {
    if (!was_begun(fs)) run_.write("args.toml", "");
  }
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) run_.add_epoch({.epoch = name.at(0) - 'a' + 1});
    return {};
  }
  Status remove(const std::string&) override { return {}; }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const EpochRow& row : run_.epochs()) {
      all.push_back({static_cast<char>('a' + row.epoch - 1)});
    }
    return all;
  }

 private:
  static bool was_begun(Fs& fs) {
    const Status s = fs.info("state/args.toml").status();
    if (s.code() != Code::kNotFound) s.or_throw();
    return s.ok();
  }
  RunDirectory run_;
};

template <typename T>
std::unique_ptr<StateFile> open(Fs& fs, Clock&) {
  return std::make_unique<T>(fs);
}
template <typename T>
std::unique_ptr<StateFile> open_with_clock(Fs& fs, Clock& clock) {
  return std::make_unique<T>(fs, clock);
}

}  // namespace

const std::vector<StateFileKind>& state_file_kinds() {
  static const std::vector<StateFileKind> kinds = {
      {"UploadLog", true, true, true, &open<UploadLogFile>},
      {"DeletionLog", false, true, true, &open<DeletionsFile>},
      {"TrashLog", true, true, true, &open<TrashFile>},
      {"Versions", true, false, true, &open<VersionsFile>},
      {"KnownStores", true, false, true, &open<StoresFile>},
      {"Tokens", true, false, true, &open<TokenList>},
      {"Audit", false, true, true, &open_with_clock<AuditFile>},
      {"Segments", true, false, false, &open_with_clock<SegmentFiles>},
      {"Metrics", false, false, false, &open_with_clock<MetricsFile>}};
  return kinds;
}

}  // namespace ndtrain::faults
