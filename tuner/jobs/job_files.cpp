#include "tuner/jobs/job_files.h"

#include <array>
#include <cstring>
#include <sstream>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/json_cbor.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/core/text.h"
#include "tuner/jobs/manifest_file.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr const char *kRecord = "job.json", *kManifest = "manifest.cbor",
                     *kNumerics = "numerics.cbor", *kQuarantine = "quarantine.json";
constexpr std::array<std::string_view, 6> kStates = {"queued", "running",   "done",
                                                     "failed", "cancelled", "paused"};

Status corrupt(const std::string& path, const std::exception& e) {
  return {Code::kCorrupt, path + ": " + e.what()};
}

// A file, or a directory with all in it.
Status remove_tree(Fs& fs, const std::string& path) {
  const Result<FileInfo> info = fs.info(path);
  if (info.status().code() == Code::kNotFound) return {};
  if (!info.ok()) return info.status();
  if (info->is_directory) {
    const Result<std::vector<std::string>> names = fs.list(path);
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      if (Status s = remove_tree(fs, join(path, name)); !s.ok()) return s;
    }
  }
  return fs.remove(path);
}

// Of few photos, as people delete one, without reading all that it says: digests lie in it as they
// are. False: it may name some.
bool names_none(const std::optional<std::string>& manifest, const std::set<Digest>& photos) {
  constexpr size_t kFew = 8;
  return manifest && photos.size() <= kFew &&
         std::ranges::none_of(photos, [&](const Digest& photo) {
           const std::string_view bytes(reinterpret_cast<const char*>(photo.data()), photo.size());
           return manifest->find(bytes) != std::string::npos;
         });
}

}  // namespace

std::string_view name_of(JobState state) { return kStates.at(static_cast<size_t>(state)); }

Status JobFiles::save(const JobRecord& r) {
  if (const Status s = fs_.make_directories(directory_); !s.ok()) return s;
  Json json = {{"job", r.id},
               {"state", name_of(r.state)},
               {"message", r.message},
               {"submitted", r.submitted},
               {"started", r.started},
               {"ended", r.ended},
               {"spec", parse_json(r.spec.text())},
               {"result", parse_json(r.result)}};
  if (r.wrong_rows) json["wrong_rows"] = true;
  return publish(fs_, file(kRecord), checksummed(std::move(json)));
}

Status JobFiles::save_notes(const Notes& notes) {
  if (Status s = fs_.make_directories(directory_); !s.ok()) return s;
  return write_notes(fs_, directory_, notes);
}

Result<JobRecord> JobFiles::load() const {
  const std::string path = file(kRecord);
  const Result<std::string> text = fs_.read(path);
  if (!text.ok()) return text.status();
  try {
    const Json json = verified(*text);
    JobRecord r;
    r.id = json.at("job");
    r.message = json.at("message");
    r.submitted = json.at("submitted");
    r.started = json.at("started");
    r.wrong_rows = json.value("wrong_rows", false);
    r.ended = json.at("ended");
    r.spec = parse_job_spec(json_text(json.at("spec")));
    r.result = json_text(json.at("result"));
    const auto state = std::ranges::find(kStates, json.at("state").get<std::string>());
    if (state == kStates.end()) throw Error("an unknown state");
    r.state = static_cast<JobState>(state - kStates.begin());
    if (Result<Notes> notes = read_notes(fs_, directory_); notes.ok()) {
      r.notes = std::move(*notes);
    } else {  // the job does without
      log::warn("{}", notes.status().message());
    }
    return r;
  } catch (const std::exception& e) {
    return corrupt(path, e);
  }
}

// CBOR, then its XXH3.
Status JobFiles::save_cbor(const char* name, std::string bytes) {
  const uint64_t sum = xxh3(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return publish(fs_, file(name), bytes);
}

Result<std::optional<std::string>> JobFiles::load_cbor(const char* name) const {
  const std::string path = file(name);
  const Result<std::string> bytes = fs_.read(path);
  if (bytes.status().code() == Code::kNotFound) return std::optional<std::string>();
  if (!bytes.ok()) return bytes.status();
  uint64_t sum = 0;
  const size_t size = bytes->size() < sizeof(sum) ? 0 : bytes->size() - sizeof(sum);
  std::memcpy(&sum, bytes->data() + size, std::min(sizeof(sum), bytes->size()));
  if (xxh3(bytes->data(), size) != sum) {
    return Status(Code::kCorrupt,
                  path + ": is damaged: its checksum is wrong; submit the job anew");
  }
  return std::optional(bytes->substr(0, size));
}

Status JobFiles::save_manifest(const Manifest& manifest, const std::vector<std::string>& stores) {
  return write_manifest(fs_, file(kManifest), manifest, stores);
}

std::string JobFiles::manifest_path() const { return file(kManifest); }

Result<std::optional<std::string>> JobFiles::manifest_bytes() const { return load_cbor(kManifest); }

Result<std::optional<SavedManifest>> JobFiles::load_manifest(
    std::pmr::memory_resource* memory) const {
  const auto bytes = manifest_bytes();
  if (!bytes.ok()) return bytes.status();
  if (!*bytes) return std::optional<SavedManifest>();
  try {
    return std::optional(manifest_from(read_cbor(**bytes).or_throw(), memory));
  } catch (const std::exception& e) {
    return corrupt(file(kManifest), e);
  }
}

Status JobFiles::save_first(const MixedNumerics::First& first) {
  const std::vector<uint8_t> sample(first.sample.begin(), first.sample.end());
  const Json json = {
      {"store", first.store}, {"numerics", first.numerics}, {"sample", Json::binary(sample)}};
  std::string bytes;
  Json::to_cbor(json, bytes);
  return save_cbor(kNumerics, bytes);
}

Result<std::optional<MixedNumerics::First>> JobFiles::load_first() const {
  const auto bytes = load_cbor(kNumerics);
  if (!bytes.ok()) return bytes.status();
  if (!*bytes) return std::optional<MixedNumerics::First>();
  try {
    const Json json = read_cbor(**bytes).or_throw();
    const auto& sample = json.at("sample").get_binary();
    return std::optional(MixedNumerics::First{json.at("store"), json.at("numerics"),
                                              std::string(sample.begin(), sample.end())});
  } catch (const std::exception& e) {
    return corrupt(file(kNumerics), e);
  }
}

Status JobFiles::close_run(uint32_t run, std::span<const uint64_t> absent) {
  Result<Closed> closed = this->closed();
  if (!closed.ok()) return closed.status();
  if (std::ranges::find(closed->runs, run) != closed->runs.end()) return {};
  closed->runs.push_back(run);
  closed->absent.insert(closed->absent.end(), absent.begin(), absent.end());
  return publish(fs_, file("closed.json"),
                 checksummed({{"runs", closed->runs}, {"absent", closed->absent}}, -1));
}

Result<JobFiles::Closed> JobFiles::closed() const {
  const std::string path = file("closed.json");
  const Result<std::string> text = fs_.read(path);
  if (text.status().code() == Code::kNotFound) return Closed();
  if (!text.ok()) return text.status();
  try {
    const Json json = verified(*text);
    return Closed{json.at("runs"), json.at("absent")};
  } catch (const std::exception& e) {
    return corrupt(path, e);
  }
}

Status JobFiles::save_quarantine(std::span<const UnreadablePhoto> photos) {
  Json all = Json::array();
  for (const UnreadablePhoto& p : photos) {
    all.push_back({{"id", p.photo ? to_hex(*p.photo) : ""},
                   {"store", p.store},
                   {"path", printable(p.path)},
                   {"why", printable(p.why)}});
  }
  return publish(fs_, file(kQuarantine), checksummed({{"photos", std::move(all)}}));
}

Result<std::vector<UnreadablePhoto>> JobFiles::load_quarantine() const {
  std::vector<UnreadablePhoto> photos;
  const std::string path = file(kQuarantine);
  const Result<std::string> text = fs_.read(path);
  if (text.status().code() == Code::kNotFound) return photos;
  if (!text.ok()) return text.status();
  try {
    const Json json = verified(*text);
    for (const Json& p : json.at("photos")) {
      const auto id = p.at("id").get<std::string>();
      photos.push_back({.photo = id.empty() ? std::optional<Digest>() : digest_from_hex(id),
                        .store = p.at("store"),
                        .path = p.at("path"),
                        .why = p.at("why")});
    }
  } catch (const std::exception& e) {
    return corrupt(path, e);
  }
  return photos;
}

// One that is damaged may have named any of them.
Status JobFiles::forget_quarantined(const std::set<Digest>& photos) {
  Result<std::vector<UnreadablePhoto>> kept = load_quarantine();
  if (kept.status().code() == Code::kCorrupt) return remove_all(kQuarantine);
  if (!kept.ok()) return kept.status();
  const size_t gone = std::erase_if(
      *kept, [&](const UnreadablePhoto& p) { return p.photo && photos.contains(*p.photo); });
  return gone > 0 ? save_quarantine(*kept) : Status();
}

void JobFiles::remove_rows() {
  std::vector<JobFiles> all = asked_before();
  all.push_back(*this);
  for (JobFiles& files : all) {
    for (const char* name : {"spool", kNumerics}) static_cast<void>(files.remove_all(name).ok());
  }
}

Status JobFiles::remove_models() {
  Status first = remove_all("group_head.onnx");
  const std::string run = file("run");
  const Result<std::vector<std::string>> names = fs_.list(run);
  if (!names.ok()) return names.status().code() == Code::kNotFound ? first : names.status();
  for (const std::string& name : *names) {
    const bool of_model =
        name.ends_with(".onnx") || name.ends_with(".data") || name.ends_with(".safetensors");
    const Status s = of_model ? fs_.remove(join(run, name)) : Status();
    if (first.ok()) first = s;
  }
  return first;
}

Status JobFiles::remove() {
  const Result<std::vector<std::string>> names = fs_.list(directory_);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (name == kRecord) continue;
    if (Status s = remove_tree(fs_, join(directory_, name)); !s.ok()) return s;
  }
  fs_.sync_directory(directory_);
  return remove_tree(fs_, directory_);
}

// What the job's own rows are asked after.
std::vector<JobFiles> JobFiles::asked_before() const {
  return {JobFiles(fs_, file("survey")), JobFiles(fs_, file("production"))};
}

Status JobFiles::remove_all(const char* name) {
  const std::string path = file(name);
  const Result<FileInfo> info = fs_.info(path);
  if (info.status().code() == Code::kNotFound) return {};
  if (!info.ok()) return info.status();
  std::vector<std::string> files{path};
  if (info->is_directory) {
    const Result<std::vector<std::string>> names = fs_.list(path);
    if (!names.ok()) return names.status();
    files.clear();
    for (const std::string& n : *names) files.push_back(join(path, n));
  }
  Status first;
  for (const std::string& f : files) {
    const Status s = fs_.remove(f);
    if (first.ok() && s.code() != Code::kNotFound) first = s;
  }
  fs_.sync_directory(info->is_directory ? path : directory_);
  return first;
}

Status JobFiles::forget(const std::set<Digest>& photos, bool done) {
  if (Status s = remove_asked_before(); !s.ok()) return s;
  if (Status s = forget_quarantined(photos); !s.ok()) return s;
  if (!done) {  // else who asks has looked (DoneTraces)
    if (const auto bytes = manifest_bytes(); bytes.ok() && names_none(*bytes, photos)) return {};
  }
  const Result<std::optional<SavedManifest>> kept = load_manifest();
  if (kept.status().code() == Code::kCorrupt) {  // it may have been about any of them
    log::error("{}; what it listed is removed, as photos are deleted", kept.status().message());
    return begin_anew("its list of photos is damaged", done);
  }
  if (!kept.ok()) return kept.status();
  if (!*kept) return {};
  const Manifest& before = (*kept)->manifest;
  Manifest::Entries rest;
  for (uint64_t n = 0; n < before.size(); ++n) {
    if (!photos.contains(before.entry(n).digest)) rest.push_back(before.entry(n));
  }
  if (rest.size() == before.size()) return {};
  if (done) {
    const Manifest after(std::move(rest), before.classes(), before.runs());
    if (const Status s = remove_all("spool"); !s.ok()) return s;
    return save_manifest(after, (*kept)->stores);
  }
  return begin_anew("some of its photos were deleted", done);
}

Status JobFiles::remove_asked_before() {
  for (JobFiles& before : asked_before()) {
    for (const char* name : {"spool", "answers.json", "closed.json", kNumerics, kManifest}) {
      Status s = before.remove_all(name);
      if (!s.ok()) return s;
    }
  }
  return {};
}

Status JobFiles::begin_anew(const std::string& why) {
  const Status s = remove_asked_before();
  return s.ok() ? begin_anew(why, false) : s;
}

Status JobFiles::begin_anew(const std::string& why, bool done) {
  const std::set<std::string_view> stays = {"run", kQuarantine};  // of one that is done
  for (const char* name : {"spool", "run", "closed.json", kQuarantine, kNumerics, kManifest}) {
    if (done && stays.contains(name)) continue;
    if (const Status s = remove_all(name); !s.ok()) return s;
  }
  return log((done ? "has lost its list of photos: " : "begins anew: ") + why);
}

Status JobFiles::log(const std::string& line) {
  const auto log = fs_.open(file("log.txt"), Fs::Mode::kAppend);
  if (!log.ok()) return log.status();
  const std::string text = line + "\n";
  return (*log)->append(std::as_bytes(std::span(text)));
}

Result<std::vector<std::string>> JobFiles::log() const {
  std::vector<std::string> lines;
  const Result<std::string> text = fs_.read(file("log.txt"));
  if (text.status().code() == Code::kNotFound) return lines;
  if (!text.ok()) return text.status();
  std::istringstream in(*text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace ndtrain::tuner
