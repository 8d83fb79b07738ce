#include "cli/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>

#include "framework/core/hash.h"

namespace ndtrain::cli {
namespace {

constexpr size_t kBlock = size_t{1} << 20;
constexpr char kSums[] = "SHA256SUMS";

std::string sums_line(const Digest& digest, const std::string& name) {
  return to_hex(digest) + "  " + name + "\n";
}

using Reader = std::unique_ptr<::archive, decltype(&archive_read_free)>;

// Names that stay within a directory.
bool is_inside(const std::string& name) {
  if (name.empty() || name.front() == '/') return false;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

ArchiveWriter::ArchiveWriter(Fs& fs, const std::string& path)
    : publisher_(Publisher::start(fs, path, Fs::Mode::kCreatePrivate).or_throw()),
      archive_(archive_write_new()) {
  check(archive_write_set_format_pax_restricted(archive_));
  check(archive_write_add_filter_zstd(archive_));
  check(archive_write_set_bytes_in_last_block(archive_, 1));
  const auto write = [](::archive* a, void* self, const void* bytes, size_t n) -> la_ssize_t {
    auto& writer = *static_cast<ArchiveWriter*>(self);
    writer.failure_ = writer.publisher_.write(std::string_view(static_cast<const char*>(bytes), n));
    writer.bytes_ += static_cast<int64_t>(n);
    if (writer.failure_.ok()) return static_cast<la_ssize_t>(n);
    archive_set_error(a, EIO, "%s", writer.failure_.message().c_str());
    return -1;
  };
  check(archive_write_open(archive_, this, nullptr, write, nullptr));
}

ArchiveWriter::~ArchiveWriter() { archive_write_free(archive_); }

void ArchiveWriter::check(int code) const {
  if (code == ARCHIVE_OK) return;
  const char* why = archive_error_string(archive_);
  throw Error("cannot write the archive: ", why ? why : "libarchive does not say why");
}

void ArchiveWriter::header(const std::string& name, int64_t size) {
  const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                            archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), size);
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  check(archive_write_header(archive_, entry.get()));
}

void ArchiveWriter::data(const void* bytes, size_t n) {
  if (archive_write_data(archive_, bytes, n) != static_cast<la_ssize_t>(n)) check(ARCHIVE_FATAL);
}

void ArchiveWriter::add(const std::string& name, File& file, int64_t size) {
  header(name, size);
  Sha256 hash;
  std::vector<std::byte> block(kBlock);
  for (int64_t at = 0; at < size;) {
    const size_t want = static_cast<size_t>(std::min<int64_t>(kBlock, size - at));
    const size_t got = file.read_at(at, std::span(block).first(want)).or_throw();
    if (got != want) throw Error(name, ": became shorter while it was read");
    hash.update(block.data(), got);
    data(block.data(), got);
    at += static_cast<int64_t>(got);
  }
  sums_ += sums_line(hash.finish(), name);
}

void ArchiveWriter::add(const std::string& name, std::string_view bytes) {
  header(name, static_cast<int64_t>(bytes.size()));
  data(bytes.data(), bytes.size());
  sums_ += sums_line(sha256(bytes), name);
}

void ArchiveWriter::finish() {
  header(kSums, static_cast<int64_t>(sums_.size()));
  data(sums_.data(), sums_.size());
  check(archive_write_close(archive_));
  publisher_.commit().or_throw();
}

namespace {

// The entry's bytes, a block at a time.
void each_block(::archive* a, const std::string& path,
                const std::function<void(std::span<const std::byte>)>& f) {
  std::vector<std::byte> block(kBlock);
  while (true) {
    const la_ssize_t n = archive_read_data(a, block.data(), block.size());
    if (n == 0) return;
    if (n < 0) throw Error(path, ": ", archive_error_string(a));
    f(std::span(block).first(static_cast<size_t>(n)));
  }
}

Digest unpack_one(::archive* a, const std::string& path, Fs& fs, const std::string& to) {
  fs.make_directories(parent_of(to)).or_throw();
  Publisher publisher = Publisher::start(fs, to).or_throw();
  Sha256 hash;
  each_block(a, path, [&](std::span<const std::byte> bytes) {
    hash.update(bytes.data(), bytes.size());
    publisher.write(bytes).or_throw();
  });
  publisher.commit().or_throw();
  return hash.finish();
}

}  // namespace

std::vector<std::string> unpack(Fs& fs, const std::string& path, const std::string& directory) {
  const Reader reader(archive_read_new(), archive_read_free);
  ::archive* const a = reader.get();
  archive_read_support_format_tar(a);
  archive_read_support_filter_zstd(a);
  if (archive_read_open_filename(a, path.c_str(), kBlock) != ARCHIVE_OK) {
    throw Error(path, ": ", archive_error_string(a));
  }
  std::vector<std::string> names;
  std::string found, listed;
  archive_entry* entry = nullptr;
  int code = ARCHIVE_OK;
  while ((code = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
    const std::string name = archive_entry_pathname(entry);
    if (!listed.empty()) throw Error(path, ": ", name, " stands behind ", kSums);
    if (name == kSums) {
      each_block(a, path, [&](std::span<const std::byte> bytes) {
        listed.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (listed.size() > found.size()) throw Error(path, ": lists files that are not in it");
      });
      continue;
    }
    if (archive_entry_filetype(entry) != AE_IFREG || !is_inside(name)) {
      throw Error(path, ": '", name, "' is no file that ndtrain backup writes");
    }
    found += sums_line(unpack_one(a, path, fs, join(directory, name)), name);
    names.push_back(name);
  }
  if (code != ARCHIVE_EOF) throw Error(path, ": ", archive_error_string(a));
  if (found != listed || names.empty()) {
    throw Error(path, listed.empty() ? ": is cut short, or nothing that ndtrain backup wrote"
                                     : ": its files are not those that it lists");
  }
  return names;
}

}  // namespace ndtrain::cli
