#include "ndp/s3/s3_fs.h"

#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/text.h"
#include "framework/core/write_once_file.h"
#include "ndp/s3/listed_versions.h"
#include "ndp/s3/routed_fs.h"
#include "ndp/s3/s3_client.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kFirstRead = int64_t{8} << 20;             // bytes: a photo comes in one request
constexpr size_t kPart = size_t{8} << 20, kPartsAtOnce = 4;  // of what is behind it
constexpr uint64_t kSeed = 0;
constexpr const char* kEmptyPart = "/";  // the name that an empty part is listed by

// 64 bits that are others for another text, and never 0.
uint64_t number_of(const std::string& text) {
  const Digest digest = sha256(text);
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number | 1;
}

FileInfo file_of(const S3Object& object) {
  return {.size = object.size, .mtime_ns = object.mtime_ns, .inode = number_of(object.etag)};
}

FileInfo directory_of(const std::string& path) {
  return {.inode = number_of(path), .is_directory = true};
}

Status refused(const std::string& path, const char* why) {
  return {Code::kUnsupported, printable(path, 1024) + ": " + why + "; rename the objects"};
}

// What others than ndtrain show an object as.
std::string type_of(const std::string& key) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".jpg", "image/jpeg"}, {".png", "image/png"},   {".webp", "image/webp"},
      {".gif", "image/gif"},  {".heic", "image/heic"}, {".avif", "image/avif"},
      {".tif", "image/tiff"}};
  const std::string extension = extension_of(key);
  const auto* const found =
      std::ranges::find(kTypes, extension, &std::pair<std::string_view, std::string_view>::first);
  return std::string(found == std::end(kTypes) ? "application/octet-stream" : found->second);
}

// Of one version of an object: its beginning is there, the rest is asked for.
class S3File final : public File {
 public:
  S3File(S3Client& client, std::string bucket, S3Bytes begin)
      : client_(client), bucket_(std::move(bucket)), begin_(std::move(begin)) {}

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    const S3Object& o = begin_.object;
    const int64_t n = std::clamp<int64_t>(o.size - offset, 0, static_cast<int64_t>(to.size()));
    const auto there = static_cast<int64_t>(begin_.bytes.size());
    const int64_t kept = std::clamp<int64_t>(there - offset, 0, n);
    if (kept > 0) std::memcpy(to.data(), begin_.bytes.data() + offset, static_cast<size_t>(kept));
    const auto rest = to.subspan(static_cast<size_t>(kept), static_cast<size_t>(n - kept));
    if (Status s = fetch(offset + kept, rest); !s.ok()) return s;
    return static_cast<size_t>(n);
  }
  Result<int64_t> size() override { return begin_.object.size; }
  Status append(std::span<const std::byte>) override { return read_only(); }
  Status truncate(int64_t) override { return read_only(); }

 private:
  Status try_sync() override { return read_only(); }
  // Several parts at a time: one connection seldom gets all that a network has.
  Status fetch(int64_t offset, std::span<std::byte> to) const {
    const size_t parts = (to.size() + kPart - 1) / kPart;
    std::vector<Status> said(parts);
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t p = 0; (p = next++) < parts;) {
        const size_t begin = p * kPart;
        const auto part = to.subspan(begin, std::min(kPart, to.size() - begin));
        try {
          said[p] = fetch_part(offset + static_cast<int64_t>(begin), part);
        } catch (const std::exception& e) {
          said[p] = Status(Code::kIo, e.what());
        }
        if (!said[p].ok()) next = parts;
      }
    };
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < std::min(parts, kPartsAtOnce); ++i) others.emplace_back(work);
      work();
    }
    const auto bad = std::ranges::find_if(said, [](const Status& s) { return !s.ok(); });
    return bad == said.end() ? Status() : *bad;
  }
  Status fetch_part(int64_t offset, std::span<std::byte> to) const {
    const S3Object& o = begin_.object;
    const Result<S3Bytes> part =
        client_.get(bucket_, o.key, offset, static_cast<int64_t>(to.size()), o.etag, o.version);
    if (!part.ok()) return part.status();
    if (part->bytes.size() != to.size()) {
      return {Code::kIo, "s3://" + bucket_ + "/" + printable(o.key, 1024) + ": cut short"};
    }
    std::memcpy(to.data(), part->bytes.data(), to.size());
    return {};
  }
  Status read_only() const {
    return {Code::kUnsupported, "s3://" + bucket_ + "/" + begin_.object.key + ": open to read"};
  }

  S3Client& client_;
  const std::string bucket_;
  const S3Bytes begin_;
};

// One that append() puts there.
class NewS3File final : public WriteOnceFile {
 public:
  NewS3File(S3Client& client, S3Place place)
      : WriteOnceFile("s3://" + place.bucket + "/" + place.key),
        client_(client),
        place_(std::move(place)) {}

 private:
  Status put(std::string_view bytes) override {
    return client_.add(place_.bucket, place_.key, bytes, type_of(place_.key));
  }

  S3Client& client_;
  const S3Place place_;
};

class S3Fs final : public RoutedFs {
 public:
  S3Fs(Fs& others, Clock& clock, std::function<Result<S3Settings>()> settings)
      : RoutedFs(others), clock_(clock), settings_(std::move(settings)) {}

 private:
  Result<std::unique_ptr<File>> open_s3(const std::string& path) override;
  Result<std::unique_ptr<File>> create_s3(const std::string& path) override;
  Result<FileInfo> info_s3(const std::string& path) override;
  Result<std::vector<std::string>> list_s3(const std::string& directory) override;
  Status remove_s3(const std::string& path) override;

  // What a listing said of an object or of what keys have in common.
  struct Listed {
    Result<FileInfo> info;
    std::string etag = {};
  };

  Result<S3Client*> connect();
  std::optional<Listed> take_listed(const std::string& path);
  std::optional<ListedVersions::Version> version_of(const std::string& path);
  void set_version(const std::string& path, const S3Object& object);
  void forget(const std::string& path);
  Result<FileInfo> look_for_directory(const S3Place& place, const std::string& path);

  Clock& clock_;
  const std::function<Result<S3Settings>()> settings_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<S3Client> client_;
  std::unordered_map<std::string, Listed> listed_;
  ListedVersions versions_;
};

Result<S3Client*> S3Fs::connect() {
  const std::lock_guard guard(mutex_);
  if (!client_) {
    Result<S3Settings> settings = settings_();
    if (!settings.ok()) return settings.status();
    client_ = std::make_unique<S3Client>(std::move(*settings), clock_, kSeed);
  }
  return client_.get();
}

std::optional<S3Fs::Listed> S3Fs::take_listed(const std::string& path) {
  const std::lock_guard guard(mutex_);
  const auto found = listed_.find(path);
  if (found == listed_.end()) return std::nullopt;
  Listed listed = listed_.extract(found).mapped();
  if (!listed.etag.empty()) versions_.put(path, {.etag = listed.etag, .id = ""});
  return listed;
}

std::optional<ListedVersions::Version> S3Fs::version_of(const std::string& path) {
  const std::lock_guard guard(mutex_);
  return versions_.find(path);
}

void S3Fs::set_version(const std::string& path, const S3Object& object) {
  const std::lock_guard guard(mutex_);
  versions_.put(path, {.etag = object.etag, .id = object.version});
}

void S3Fs::forget(const std::string& path) {
  const std::lock_guard guard(mutex_);
  listed_.erase(path);
  versions_.forget(path);
}

// What nobody listed or looked at is read as it is now.
Result<std::unique_ptr<File>> S3Fs::open_s3(const std::string& path) {
  Result<S3Place> place = s3_place(path);
  if (!place.ok()) return place.status();
  const Result<S3Client*> client = connect();
  if (!client.ok()) return client.status();
  take_listed(path);  // so that info() looks anew
  const std::optional<ListedVersions::Version> v = version_of(path);
  Result<S3Bytes> begin =
      (*client)->get(place->bucket, place->key, 0, kFirstRead, v ? v->etag : "", v ? v->id : "");
  if (!begin.ok()) {
    if (begin.status().code() != Code::kUnavailable) forget(path);
    return begin.status();
  }
  if (v) set_version(path, begin->object);
  return std::unique_ptr<File>(
      std::make_unique<S3File>(**client, std::move(place->bucket), std::move(*begin)));
}

Result<std::unique_ptr<File>> S3Fs::create_s3(const std::string& path) {
  Result<S3Place> place = s3_place(path);
  if (!place.ok()) return place.status();
  if (place->key.empty()) return Status(Code::kUnsupported, path + ": a bucket is not made");
  const Result<S3Client*> client = connect();
  if (!client.ok()) return client.status();
  forget(path);
  return std::unique_ptr<File>(std::make_unique<NewS3File>(**client, std::move(*place)));
}

Result<FileInfo> S3Fs::look_for_directory(const S3Place& place, const std::string& path) {
  const Result<S3Client*> client = connect();
  if (!client.ok()) return client.status();
  const std::string prefix =
      place.key.empty() || place.key.ends_with('/') ? place.key : place.key + "/";
  const Result<S3Page> page = (*client)->list(place.bucket, prefix, "", 1);
  if (!page.ok()) return page.status();
  if (!prefix.empty() && page->objects.empty() && page->prefixes.empty()) {
    return Status(Code::kNotFound, printable(path, 1024) + ": no object, and none below it");
  }
  return directory_of("s3://" + place.bucket + "/" + prefix);
}

Result<FileInfo> S3Fs::info_s3(const std::string& path) {
  if (std::optional<Listed> listed = take_listed(path)) return std::move(listed->info);
  const Result<S3Place> place = s3_place(path);
  if (!place.ok()) return place.status();
  if (place->key.empty() || place->key.ends_with('/')) return look_for_directory(*place, path);
  const Result<S3Client*> client = connect();
  if (!client.ok()) return client.status();
  const Result<S3Object> object = (*client)->head(place->bucket, place->key);
  if (object.ok()) {
    set_version(path, *object);
    return file_of(*object);
  }
  if (object.status().code() != Code::kNotFound) return object.status();
  forget(path);
  return look_for_directory(*place, path);
}

Result<std::vector<std::string>> S3Fs::list_s3(const std::string& directory) {
  const Result<S3Place> place = s3_place(directory);
  if (!place.ok()) return place.status();
  const Result<S3Client*> client = connect();
  if (!client.ok()) return client.status();
  const std::string prefix =
      place->key.empty() || place->key.ends_with('/') ? place->key : place->key + "/";
  std::unordered_map<std::string, Listed> found;
  std::set<std::string> names;
  std::string next;
  do {
    Result<S3Page> page = (*client)->list(place->bucket, prefix, next);
    if (!page.ok()) return page.status();
    for (const S3Object& o : page->objects) {
      if (o.key == prefix || !o.key.starts_with(prefix)) continue;  // what marks a directory
      const std::string name = o.key.substr(prefix.size());
      names.insert(name);
      found.emplace(join(directory, name), Listed{.info = file_of(o), .etag = o.etag});
    }
    for (const std::string& p : page->prefixes) {
      if (!p.starts_with(prefix)) continue;
      const std::string name = p.substr(prefix.size(), p.size() - prefix.size() - 1);
      const bool empty = name.empty();
      const std::string path = join(directory, empty ? kEmptyPart : name);
      if (!names.insert(empty ? kEmptyPart : name).second) {
        found.insert_or_assign(
            path, Listed{refused(path, "an object whose name others go on behind is no photo")});
      } else if (empty) {
        found.emplace(path, Listed{refused(path, "names with an empty part are no paths")});
      } else {
        found.emplace(path, Listed{directory_of("s3://" + place->bucket + "/" + p)});
      }
    }
    next = page->next;
  } while (!next.empty());
  const std::lock_guard guard(mutex_);
  for (auto& [path, listed] : found) listed_.insert_or_assign(path, std::move(listed));
  return std::vector<std::string>(names.begin(), names.end());
}

Status S3Fs::remove_s3(const std::string& path) {
  const Result<S3Place> place = s3_place(path);
  if (!place.ok()) return place.status();
  if (place->key.empty()) return {Code::kUnsupported, path + ": a bucket is not removed"};
  const Result<S3Client*> client = connect();
  forget(path);
  return client.ok() ? (*client)->remove(place->bucket, place->key) : client.status();
}

}  // namespace

S3Build s3_build() {
  return {.library = std::string("libcurl ") + curl_version_info(CURLVERSION_NOW)->version,
          .option = "NDT_S3",
          .package = "libcurl4-openssl-dev, libpugixml-dev"};
}

std::unique_ptr<Fs> with_s3(Fs& others, Clock& clock,
                            const std::function<Result<S3Settings>()>& settings) {
  return std::make_unique<S3Fs>(others, clock, settings);
}

}  // namespace ndtrain::ndp
