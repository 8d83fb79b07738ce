#include "cli/file_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/core/checksummed_json.h"
#include "framework/core/file_digest.h"
#include "framework/train/checkpoint.h"
#include "ndp/http/tokens.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/pipestore/upload_format.h"
#include "ndp/sqlite/database_check.h"
#include "ndp/store/segment_index.h"
#include "ndp/store/segment_scan.h"
#include "ndp/wire/state_directory.h"
#include "tuner/jobs/job_files.h"
#include "tuner/service/deletion_log.h"
#include "tuner/service/digest_set_file.h"
#include "tuner/service/trash_log.h"
#include "tuner/work/precision_survey.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

Status corrupt(std::string why) { return {Code::kCorrupt, std::move(why)}; }

template <typename F>
Status of_text(Fs& fs, const std::string& path, F check) {
  const Result<std::string> text = fs.read(path);
  if (!text.ok()) return text.status();
  try {
    return check(*text);
  } catch (const std::exception& e) {
    return corrupt(e.what());
  }
}

// Called as its SHA-256, and perhaps something behind a dot.
Status check_named(Fs& fs, const std::string& path) {
  std::string name = name_of_path(path);
  name.resize(std::min(name.find('.'), name.size()));
  const Result<Digest> is = sha256_of_file(fs, path);
  if (!is.ok()) return is.status();
  if (to_hex(*is) == name) return {};
  return corrupt("its bytes are others than those that it is called after");
}

bool is_whole_line(std::string_view line) {
  try {
    return verified(line).is_object();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Status check_json(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](const std::string& text) {
    (void)verified(text);
    return Status();
  });
}

Status check_state_json(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](const std::string& text) { return parse_state(text).status(); });
}

Status check_checkpoint(Fs& fs, const std::string& path) {
  return of_text(fs, path,
                 [](const std::string& bytes) { return parse_checkpoint(bytes).status(); });
}

Status check_lowered(Fs& fs, const std::string& path) {
  return PrecisionSurvey::is_whole(fs, parent_of(path)) ? Status()
                                                        : corrupt("it is not as it was written");
}

Status check_json_lines(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](std::string_view text) {
    int64_t number = 0;
    for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      ++number;
      if (is_whole_line(text.substr(0, end))) continue;
      return corrupt(fmt::format("line {} is none that was written", number));
    }
    const bool other_end = text.size() > 1 && is_whole_line(text.substr(0, text.size() - 1));
    return other_end ? corrupt("the end of its last line is another") : Status();
  });
}

Status check_cbor(Fs& fs, const std::string& path) {
  const JobFiles files(fs, parent_of(path));
  if (path.ends_with("manifest.cbor")) return files.load_manifest().status();
  return files.load_first().status();
}

Status check_tokens(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](const std::string& text) { return parse_tokens(text).status(); });
}

Status check_model(Fs& fs, const std::string& path) { return check_named(fs, path); }
Status check_upload(Fs& fs, const std::string& path) { return check_named(fs, path); }

Status check_segment(Fs& fs, const std::string& path) {
  const Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  std::vector<std::byte> bytes(kSegmentHeaderBytes);
  const Result<size_t> got = (*file)->read_at(0, bytes);
  if (!got.ok()) return got.status();
  const auto header = decode_segment_header(std::span(bytes).first(*got));
  if (!header) return corrupt("it does not begin as a segment does");
  int64_t expected = kSegmentHeaderBytes, damaged = -1;
  const auto visit = [&](const RecordHeader& record, int64_t at) {
    if (at != expected && damaged < 0) damaged = expected;
    expected = at + record_bytes(record.length);
    return Status();
  };
  const Result<int64_t> end = scan_segment(**file, header->salt, kSegmentHeaderBytes, true, visit);
  if (!end.ok()) return end.status();
  const Result<int64_t> size = (*file)->size();
  if (!size.ok()) return size.status();
  if (damaged < 0 && *end < *size) damaged = *end;
  if (damaged < 0) return {};
  return corrupt(fmt::format("from byte {} on there is no record that was written", damaged));
}

Status check_index(Fs& fs, const std::string& path) { return read_index(fs, path).status(); }

Status check_upload_log(Fs& fs, const std::string& path) {
  const Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  const Result<upload_format::LogHeader> header = upload_format::read_header(**file);
  if (!header.ok()) return header.status();
  const Result<int64_t> size = (*file)->size();
  if (!size.ok()) return size.status();
  const auto any = [](std::string_view, int64_t) { return true; };
  const Result<upload_format::LogWalk> walk = upload_format::walk(**file, *header, *size, any);
  if (!walk.ok()) return walk.status();
  if (!header->whole) return corrupt("one of the two copies of its header is damaged");
  if (walk->damage.empty()) return {};
  const upload_format::LogDamage& first = walk->damage.front();
  return corrupt(fmt::format("{} bytes from byte {} on are no lines that were written{}",
                             first.bytes, first.at,
                             walk->damage.size() > 1 ? ", nor are others" : ""));
}

Status check_store_trash(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](const std::string& bytes) { return StoreTrash::check(bytes); });
}
Status check_deletions(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](const std::string& bytes) { return DeletionLog::check(bytes); });
}
Status check_trash(Fs& fs, const std::string& path) {
  return of_text(fs, path, [](const std::string& bytes) { return TrashLog::check(bytes); });
}
Status check_digest_set(Fs& fs, const std::string& path) {
  Result<DigestSetFile> file = DigestSetFile::open(fs, path);
  return file.ok() ? file->check() : file.status();
}
Status check_database(Fs&, const std::string& path) {
  return sql::check_database(path, sql::DatabaseCheck::kWhole);
}

}  // namespace ndtrain::cli
