#include <functional>

#include "framework/core/json.h"
#include "framework/core/json_cbor.h"
#include "framework/testing/memory_fs.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tuner/jobs/job_files.h"

namespace ndtrain::fuzz {
namespace {

using namespace tuner;

constexpr const char* kJob = "job";

// What JobFiles has written, `name` of it.
std::string written(const char* name, const std::function<Status(JobFiles&)>& write) {
  MemoryFs fs;
  fs.make_directories(kJob).or_throw();
  JobFiles files(fs, kJob);
  write(files).or_throw();
  return fs.read(join(kJob, name)).or_throw();
}

// In front of the checksum, which would let nothing else through.
std::string without_sum(std::string file) {
  file.resize(file.size() - sizeof(uint64_t));
  return file;
}
std::string with_sum(std::string_view cbor) {
  std::string file(cbor);
  const uint64_t sum = xxh3(cbor.data(), cbor.size());
  return file.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
}
std::string without_checksum(const std::string& file) {
  Json json = parse_json(file);
  json.erase("checksum");
  return json_text(json);
}

// A reader gets the files of a job of which one is `input`.
bool read_of_job(const char* name, std::string_view input,
                 const std::function<bool(JobFiles&)>& read) {
  MemoryFs fs;
  support::write_file(fs, join(kJob, name), input);
  JobFiles files(fs, kJob);
  return read(files);
}

Manifest some_manifest() {
  return {std::vector<std::vector<PhotoClaim>>{
              {{.digest = sha256("a"), .label = "cat"}, {.digest = sha256("b"), .label = "dog"}},
              {{.digest = sha256("b"), .label = "dog", .time = 7}}},
          {.seed = 1, .runs = 2}};
}

bool read_manifest(std::string_view input) {
  return read_of_job("manifest.cbor", with_sum(input), [](JobFiles& files) {
    const auto saved = files.load_manifest();
    if (!saved.ok()) return false;
    const Manifest& m = (*saved)->manifest;
    for (uint32_t run = 0; run <= m.runs(); ++run) {
      for (const uint64_t number : m.run(run)) (void)m.entry(number);
    }
    (void)m.digest();
    return true;
  });
}
std::vector<std::string> manifests() {
  return {without_sum(written("manifest.cbor", [](JobFiles& files) {
    return files.save_manifest(some_manifest(), {"attic", "cellar"});
  }))};
}

bool read_first_numerics(std::string_view input) {
  return read_of_job("numerics.cbor", with_sum(input),
                     [](JobFiles& files) { return files.load_first().ok(); });
}
std::vector<std::string> first_numerics() {
  return {without_sum(written("numerics.cbor", [](JobFiles& files) {
    return files.save_first({.store = "attic", .numerics = "cpu", .sample = "rows"});
  }))};
}

bool read_job_record(std::string_view input) {
  return read_of_job("job.json", input, [](JobFiles& files) {
    const Result<JobRecord> record = files.load();
    return record.ok() && files.save(*record).ok();
  });
}
std::vector<std::string> job_records() {
  const std::string file = written("job.json", [](JobFiles& files) {
    return files.save({.id = 7, .state = JobState::kPaused, .result = R"({"top1": 0.5})"});
  });
  return {file, without_checksum(file)};
}

bool read_closed_runs(std::string_view input) {
  return read_of_job("closed.json", input, [](JobFiles& files) {
    const auto closed = files.closed();
    return closed.ok() && !closed->runs.empty();
  });
}
std::vector<std::string> closed_runs() {
  const std::string file = written("closed.json", [](JobFiles& files) {
    return files.close_run(1, std::vector<uint64_t>{3, 5});
  });
  return {file, without_checksum(file)};
}

bool read_quarantine(std::string_view input) {
  return read_of_job("quarantine.json", input, [](JobFiles& files) {
    const auto photos = files.load_quarantine();
    return photos.ok() && !photos->empty();
  });
}
std::vector<std::string> quarantines() {
  const std::string file = written("quarantine.json", [](JobFiles& files) {
    return files.save_quarantine(std::vector<UnreadablePhoto>{
        {.photo = sha256("a"), .store = "attic", .path = "a.jpg", .why = "no photo"}});
  });
  return {file, without_checksum(file)};
}

bool read_any_cbor(std::string_view input) { return read_cbor(input).ok(); }
std::vector<std::string> any_cbor() {
  return {std::string("\xa1\x61\x61\x83\x01\xfb\x40\x0c\0\0\0\0\0\0\xf6", 15)};
}

}  // namespace

std::vector<FuzzTarget> job_targets() {
  return {{"manifest", read_manifest, manifests},
          {"first_numerics", read_first_numerics, first_numerics},
          {"job_record", read_job_record, job_records},
          {"closed_runs", read_closed_runs, closed_runs},
          {"quarantine", read_quarantine, quarantines},
          {"cbor", read_any_cbor, any_cbor}};
}

}  // namespace ndtrain::fuzz
