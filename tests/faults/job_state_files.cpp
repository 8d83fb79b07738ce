// What a Tuner keeps of its jobs, and what trainings and models are kept in on both sides.
#include "framework/train/checkpoint.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/wire/model_blobs.h"
#include "ndp/wire/state_directory.h"
#include "tests/faults/state_files.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/model_store.h"

namespace ndtrain::faults {
using namespace ndp;
using namespace tuner;

namespace {

constexpr const char* kJobState = "state";
constexpr const char* kAllNames = "abcdefgh";

uint64_t number_for(const std::string& name) { return static_cast<uint64_t>(name.at(0) - 'a') + 1; }
std::string name_for_number(uint64_t n) { return {static_cast<char>('a' + n - 1)}; }
std::string name_for_photo(const Digest& digest) {
  for (const char* c = kAllNames; *c != '\0'; ++c) {
    if (sha256(std::string(1, *c)) == digest) return {*c};
  }
  throw Error("nobody has added ", to_hex(digest));
}

// A job that was cancelled is not among the names; one that cannot be read is an error.
class JobRecordFiles final : public StateFile {
 public:
  explicit JobRecordFiles(Fs& fs) : records_(fs, join(kJobState, "jobs")) {}
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      if (Status s = keep({.id = number_for(name), .message = name}); !s.ok()) return s;
    }
    return {};
  }
  Status remove(const std::string& name) override {
    JobRecord record = records_.job(number_for(name));
    if (!record.readable) return {Code::kIo, record.message};  // as JobQueue does
    record.state = JobState::kCancelled;
    return keep(record);
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const auto& [id, record] : records_.all()) {
      if (!record.readable) throw Error(record.message);
      if (record.message != name_for_number(id)) throw Error("state/jobs: another job's record");
      if (record.state == JobState::kQueued) all.push_back(record.message);
    }
    return all;
  }

 private:
  Status keep(const JobRecord& record) {
    if (Status s = records_.save(record); !s.ok()) return s;
    records_.put(record);
    return {};
  }
  JobRecords records_;
};

// The photos of a job: all of them, and none once any is deleted, as it begins anew then.
class ManifestFile final : public StateFile {
 public:
  explicit ManifestFile(Fs& fs) : files_(fs, join(kJobState, "job")) {
    fs.make_directories(files_.directory()).or_throw();
    names();  // as a service does before it goes on
  }
  Status add(const std::vector<std::string>& more) override {
    std::vector<std::string> all = names();
    all.insert(all.end(), more.begin(), more.end());
    std::vector<PhotoClaim> claims;
    for (const std::string& name : all) claims.push_back({.digest = sha256(name), .label = "rose"});
    const std::vector<std::vector<PhotoClaim>> inventories = {claims};
    return files_.save_manifest(Manifest(inventories, {.seed = 1, .runs = 2}), {"store"});
  }
  Status remove(const std::string& name) override { return files_.forget({sha256(name)}, true); }
  std::vector<std::string> names() override {
    const std::optional<SavedManifest> kept = files_.load_manifest().or_throw();
    std::vector<std::string> all;
    for (uint64_t n = 0; kept && n < kept->manifest.size(); ++n) {
      all.push_back(name_for_photo(kept->manifest.entry(n).digest));
    }
    return all;
  }

 private:
  JobFiles files_;
};

// Runs that were closed, each without one photo.
class ClosedRunsFile final : public StateFile {
 public:
  explicit ClosedRunsFile(Fs& fs) : files_(fs, kJobState) { names(); }
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      const uint64_t n = number_for(name);
      Status s = files_.close_run(static_cast<uint32_t>(n), std::vector{n});
      if (!s.ok()) return s;
    }
    return {};
  }
  Status remove(const std::string&) override { return {}; }
  std::vector<std::string> names() override {
    const JobFiles::Closed closed = files_.closed().or_throw();
    std::vector<std::string> all;
    for (size_t i = 0; i < closed.runs.size(); ++i) {
      if (closed.absent.at(i) != closed.runs[i]) throw Error("state/closed.json: other photos");
      all.push_back(name_for_number(closed.runs[i]));
    }
    return all;
  }

 private:
  JobFiles files_;
};

class QuarantineFile final : public StateFile {
 public:
  explicit QuarantineFile(Fs& fs) : files_(fs, kJobState) { names(); }
  Status add(const std::vector<std::string>& names) override {
    std::vector<UnreadablePhoto> all = files_.load_quarantine().or_throw();
    for (const std::string& name : names) {
      all.push_back({.photo = sha256(name), .store = "s", .path = name, .why = "torn"});
    }
    return files_.save_quarantine(all);
  }
  Status remove(const std::string& name) override { return files_.forget({sha256(name)}, true); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const UnreadablePhoto& p : files_.load_quarantine().or_throw()) {
      all.push_back(name_for_photo(p.photo.value()));
    }
    return all;
  }

 private:
  JobFiles files_;
};

class CheckpointFile final : public StateFile {
 public:
  explicit CheckpointFile(Fs& fs) : fs_(fs) { names(); }
  Status add(const std::vector<std::string>& names) override {
    Checkpoint c = load();
    for (const std::string& name : names) {
      c.parameters.emplace(name, Tensor::i64({name.at(0), 7}));
    }
    ++c.epoch;
    return save_checkpoint(fs_, kPath, c);
  }
  Status remove(const std::string& name) override {
    Checkpoint c = load();
    c.parameters.erase(name);
    return save_checkpoint(fs_, kPath, c);
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const auto& [name, t] : load().parameters) {
      if (t.to_ints() != std::vector<int64_t>{name.at(0), 7}) {
        throw Error("state/last.safetensors: other weights");
      }
      all.push_back(name);
    }
    return all;
  }

 private:
  static constexpr const char* kPath = "state/last.safetensors";
  Checkpoint load() {
    Result<Checkpoint> c = load_checkpoint(fs_, kPath);
    if (c.status().code() == Code::kNotFound) return {};
    return std::move(c).or_throw();
  }
  Fs& fs_;
};

// Files of a training that are replaced whole, in a directory that is locked.
class RunFiles final : public StateFile {
 public:
  explicit RunFiles(Fs& fs) : fs_(fs), run_(fs, clock_, "state/run", was_begun(fs)) {
    if (!was_begun(fs)) run_.write("args.toml", "");
  }
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) run_.write(name, "of " + name);
    return {};
  }
  Status remove(const std::string&) override { return {}; }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const std::string& name : fs_.list(run_.path()).or_throw()) {
      if (name.size() != 1) continue;
      if (fs_.read(run_.file(name)).or_throw() != "of " + name) throw Error("state/run: torn");
      all.push_back(name);
    }
    return all;
  }

 private:
  static bool was_begun(Fs& fs) { return fs.exists("state/run/args.toml"); }
  Fs& fs_;
  ManualClock clock_;
  RunDirectory run_;
};

// Models on a Tuner, by their digests.
class TunerModels final : public StateFile {
 public:
  explicit TunerModels(Fs& fs) : models_(fs, join(kJobState, "models")) {}
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      if (const auto added = models_.add(name); !added.ok()) return added.status();
    }
    return {};
  }
  Status remove(const std::string& name) override { return models_.remove(sha256(name)); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const Digest& d : models_.list()) all.push_back(models_.read_all(d).or_throw());
    return all;
  }

 private:
  ModelStore models_;
};

// Models on their way to a PipeStore, each in two parts.
class ArrivingModels final : public StateFile {
 public:
  explicit ArrivingModels(Fs& fs) : blobs_(fs, join(kJobState, "models")) {}
  Status add(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      if (Status s = arrive(name); !s.ok()) return s;
    }
    return {};
  }
  Status remove(const std::string&) override { return {}; }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const Digest& d : blobs_.list()) {
      blobs_.check(d).or_throw();
      for (const char* c = kAllNames; *c != '\0'; ++c) {
        if (sha256(bytes_for(std::string(1, *c))) == d) all.emplace_back(1, *c);
      }
    }
    return all;
  }

 private:
  static std::string bytes_for(const std::string& name) { return std::string(100, name.at(0)); }
  // From where it stopped before.
  Status arrive(const std::string& name) {
    const std::string all = bytes_for(name);
    const Digest digest = sha256(all);
    const auto total = static_cast<int64_t>(all.size());
    for (int parts = 0; parts < 4; ++parts) {
      const auto at = blobs_.offset(digest);
      if (!at.ok()) return at.status();
      const auto whole = blobs_.add(digest, *at, total,
                                    std::string_view(all).substr(static_cast<size_t>(*at), 60));
      if (!whole.ok()) return whole.status();
      if (*whole) return {};
    }
    return {Code::kIo, "state/models: error: it does not end"};
  }
  ModelBlobs blobs_;
};

// What a store knows of the Tuner's trash.
class StoreTrashFile final : public StateFile {
 public:
  explicit StoreTrashFile(Fs& fs) : trash_(fs, "state/trash.bin") {
    // Of one that is damaged, which the log names, all is heard of again.
    const Result<std::string> bytes = fs.read("state/trash.bin");
    if (bytes.ok() && !StoreTrash::check(*bytes).ok()) throw Error("state/trash.bin: is damaged");
  }
  Status add(const std::vector<std::string>& names) override {
    std::vector<Digest> photos;
    for (const std::string& name : names) photos.push_back(sha256(name));
    return trash_.change(photos, {}, trash_.revision() + 1);
  }
  Status remove(const std::string& name) override { return trash_.restore(sha256(name)); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const char* c = kAllNames; *c != '\0'; ++c) {
      if (trash_.has(sha256(std::string(1, *c)))) all.emplace_back(1, *c);
    }
    if (all.size() != trash_.size()) throw Error("state/trash.bin: photos that nobody trashed");
    return all;
  }

 private:
  StoreTrash trash_;
};

template <typename T>
std::unique_ptr<StateFile> open_job_file(Fs& fs, Clock&) {
  return std::make_unique<T>(fs);
}

}  // namespace

const std::vector<StateFileKind>& job_state_file_kinds() {
  static const std::vector<StateFileKind> kinds = {
      {"JobRecords", true, false, true, &open_job_file<JobRecordFiles>},
      {"Manifest", true, true, true, &open_job_file<ManifestFile>},
      {"ClosedRuns", false, false, true, &open_job_file<ClosedRunsFile>},
      {"Quarantine", true, true, false, &open_job_file<QuarantineFile>},
      {"Checkpoint", true, true, true, &open_job_file<CheckpointFile>},
      {"RunFiles", false, false, true, &open_job_file<RunFiles>},
      {"TunerModels", true, false, true, &open_job_file<TunerModels>},
      {"ArrivingModels", false, false, false, &open_job_file<ArrivingModels>},
      {"StoreTrash", true, true, true, &open_job_file<StoreTrashFile>}};
  return kinds;
}

}  // namespace ndtrain::faults
