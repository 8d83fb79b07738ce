#include "framework/testing/memory_fs.h"

#include <algorithm>
#include <functional>

namespace ndtrain {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

constexpr int64_t kUnlimited = int64_t{1} << 40;

Status absent(const std::string& path) { return {Code::kNotFound, path + ": does not exist"}; }

}  // namespace

struct MemoryFs::Node {
  bool directory = false;
  uint64_t inode = 0;
  int64_t mtime_ns = 0;
  std::string bytes, durable_bytes;
  std::map<std::string, std::shared_ptr<Node>> entries, durable_entries;
  const OpenFile* locked_by = nullptr;  // it may be of before a crash

  // Calls f on this and on all that is below it.
  void visit(const std::function<void(Node&)>& f) {
    f(*this);
    for (auto& [name, child] : entries) child->visit(f);
  }
};

// A name in a directory, whether or not something is there.
struct MemoryFs::Place {
  std::shared_ptr<Node> directory;
  std::string name;

  std::shared_ptr<Node> node() const {
    const auto it = directory->entries.find(name);
    return it == directory->entries.end() ? nullptr : it->second;
  }
};

class MemoryFs::OpenFile final : public File {
 public:
  OpenFile(MemoryFs& fs, std::shared_ptr<Node> node, std::string path, Mode mode)
      : fs_(fs), node_(std::move(node)), path_(std::move(path)), mode_(mode), epoch_(fs.epoch_) {}
  ~OpenFile() override {
    const std::lock_guard lock(fs_.mutex_);
    if (node_->locked_by == this) node_->locked_by = nullptr;
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    const std::lock_guard lock(fs_.mutex_);
    if (Status s = usable(); !s.ok()) return s;
    if (offset < 0) return Status(Code::kIo, path_ + ": read at a negative offset");
    const auto begin = std::min(static_cast<size_t>(offset), node_->bytes.size());
    const size_t n = std::min(to.size(), node_->bytes.size() - begin);
    std::copy_n(std::as_bytes(std::span(node_->bytes)).begin() + static_cast<std::ptrdiff_t>(begin),
                n, to.begin());
    return n;
  }

  Status append(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(fs_.mutex_);
    if (Status s = writable(); !s.ok()) return s;
    bool struck = false;
    Status status = fs_.begin_mutation(path_, &struck);
    if (!status.ok() && !struck) return status;
    size_t n = struck ? bytes.size() / 2 : bytes.size();
    // Adding up all files is too slow for every append of a long simulation.
    if (fs_.capacity_ < kUnlimited) {
      const auto free = static_cast<size_t>(std::max<int64_t>(fs_.capacity_ - fs_.used(), 0));
      if (n > free) {
        n = free;
        if (status.ok()) status = Status(Code::kNoSpace, path_ + ": the volume is full");
      }
    }
    node_->bytes.append(reinterpret_cast<const char*>(bytes.data()), n);
    ++node_->mtime_ns;
    return status;
  }

  Status truncate(int64_t size) override {
    const std::lock_guard lock(fs_.mutex_);
    if (Status s = writable(); !s.ok()) return s;
    if (Status s = fs_.begin_mutation(path_); !s.ok()) return s;
    if (size < 0) return Status(Code::kIo, path_ + ": truncated to a negative size");
    node_->bytes.resize(static_cast<size_t>(size));
    ++node_->mtime_ns;
    return {};
  }

  Status sync() override {
    const std::lock_guard lock(fs_.mutex_);
    if (Status s = usable(); !s.ok()) return s;
    if (Status s = fs_.begin_mutation(path_); !s.ok()) return s;
    node_->durable_bytes = node_->bytes;
    return {};
  }

  Result<int64_t> size() override {
    const std::lock_guard lock(fs_.mutex_);
    if (Status s = usable(); !s.ok()) return s;
    return static_cast<int64_t>(node_->bytes.size());
  }

  Status lock() override {
    const std::lock_guard lock(fs_.mutex_);
    if (Status s = usable(); !s.ok()) return s;
    const OpenFile* const holder = node_->locked_by;
    if (holder && holder != this && holder->epoch_ == epoch_) {
      return {Code::kExists, path_ + ": is in use"};
    }
    node_->locked_by = this;
    return {};
  }

 private:
  Status usable() const {
    if (epoch_ != fs_.epoch_) return {Code::kIo, path_ + ": was open before the crash"};
    return fs_.alive(path_);
  }
  Status writable() const {
    if (mode_ == Mode::kRead) return {Code::kIo, path_ + ": is open for reading"};
    return usable();
  }

  MemoryFs& fs_;
  const std::shared_ptr<Node> node_;
  const std::string path_;
  const Mode mode_;
  const int64_t epoch_;
};

MemoryFs::MemoryFs() : root_(make_node(true)), capacity_(kUnlimited) {}
MemoryFs::~MemoryFs() = default;

int64_t MemoryFs::mutating_calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

void MemoryFs::fail_call(int64_t n, Code code) {
  const std::lock_guard lock(mutex_);
  fail_at_ = calls_ + n;
  fail_code_ = code;
}

void MemoryFs::die_in_call(int64_t n) {
  const std::lock_guard lock(mutex_);
  die_at_ = calls_ + n;
}

void MemoryFs::crash(Survives survives) {
  const std::lock_guard lock(mutex_);
  // Parents before children: visit() then walks what survived.
  root_->visit([&](Node& node) {
    if (survives == Survives::kNothing) node.entries = node.durable_entries;
    if (survives != Survives::kAll) node.bytes = node.durable_bytes;
    node.durable_entries = node.entries;
    node.durable_bytes = node.bytes;
  });
  power_up();
}

void MemoryFs::crash(Rng& rng) {
  const std::lock_guard lock(mutex_);
  root_->visit([&](Node& node) {
    if (rng.next_below(2) == 0) node.entries = node.durable_entries;
    node.durable_entries = node.entries;
    if (!node.bytes.starts_with(node.durable_bytes)) {
      if (rng.next_below(2) == 0) node.bytes = node.durable_bytes;
    } else if (const size_t loose = node.bytes.size() - node.durable_bytes.size(); loose > 0) {
      const size_t length = rng.next_below(loose + 1);
      const size_t good = rng.next_below(2) == 0 ? length : rng.next_below(length + 1);
      node.bytes.resize(node.durable_bytes.size() + good);
      node.bytes.resize(node.durable_bytes.size() + length, '\0');
    }
    node.durable_bytes = node.bytes;
  });
  power_up();
}

void MemoryFs::power_up() {
  ++epoch_;
  forget_visits();
  dead_ = false;
  fail_at_ = die_at_ = 0;
}

void MemoryFs::set_capacity(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

Result<std::unique_ptr<File>> MemoryFs::open(const std::string& path, Mode mode) {
  const std::lock_guard lock(mutex_);
  if (Status s = mode == Mode::kRead ? alive(path) : begin_mutation(path); !s.ok()) return s;
  std::shared_ptr<Node> node = find(path);
  if (node && node->directory) {
    return Status(Code::kUnsupported, path + ": cannot open: not a regular file");
  }
  if (!node) {
    if (mode == Mode::kRead) return absent(path);
    Result<Place> place = place_of(path);
    if (!place.ok()) return place.status();
    node = place->directory->entries[place->name] = make_node(false);
  } else if (mode == Mode::kCreate || mode == Mode::kCreatePrivate) {
    node->bytes.clear();
    ++node->mtime_ns;
  }
  return std::unique_ptr<File>(std::make_unique<OpenFile>(*this, std::move(node), path, mode));
}

Result<FileInfo> MemoryFs::info(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (Status s = alive(path); !s.ok()) return s;
  const std::shared_ptr<Node> node = find(path);
  if (!node) return absent(path);
  return FileInfo{.size = static_cast<int64_t>(node->bytes.size()),
                  .mtime_ns = node->mtime_ns,
                  .inode = node->inode,
                  .is_directory = node->directory};
}

Result<std::vector<std::string>> MemoryFs::list(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  if (Status s = alive(directory); !s.ok()) return s;
  const std::shared_ptr<Node> node = find(directory);
  if (!node || !node->directory) return absent(directory);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

Status MemoryFs::make_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (Status s = begin_mutation(path); !s.ok()) return s;
  std::shared_ptr<Node> at = root_;
  for (const std::string& part : parts_of(path)) {
    std::shared_ptr<Node>& child = at->entries[part];
    if (!child) at->durable_entries[part] = child = make_node(true);
    if (!child->directory) {
      return {Code::kExists, path + ": cannot create directory: a file has this name"};
    }
    at = child;
  }
  return {};
}

Status MemoryFs::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (Status s = begin_mutation(from); !s.ok()) return s;
  Result<Place> source = place_of(from);
  if (!source.ok()) return source.status();
  Result<Place> target = place_of(to);
  if (!target.ok()) return target.status();
  const std::shared_ptr<Node> node = source->node();
  if (!node) return absent(from);
  const std::shared_ptr<Node> old = target->node();
  if (old == node) return {};
  bool inside = false;
  node->visit([&](Node& below) { inside = inside || &below == target->directory.get(); });
  if (inside) return {Code::kIo, from + ": cannot become part of itself, " + to};
  if (old && old->directory != node->directory) {
    return {Code::kIo, to + ": a file and a directory cannot replace each other"};
  }
  if (old && !old->entries.empty()) return {Code::kExists, to + ": is not empty"};
  target->directory->entries[target->name] = node;
  source->directory->entries.erase(source->name);
  return {};
}

Status MemoryFs::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (Status s = begin_mutation(path); !s.ok()) return s;
  Result<Place> place = place_of(path);
  if (!place.ok()) return place.status();
  const std::shared_ptr<Node> node = place->node();
  if (!node) return absent(path);
  if (!node->entries.empty()) return {Code::kExists, path + ": is not empty"};
  place->directory->entries.erase(place->name);
  return {};
}

Status MemoryFs::sync_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (Status s = begin_mutation(path); !s.ok()) return s;
  const std::shared_ptr<Node> node = find(path);
  if (!node || !node->directory) return absent(path);
  node->durable_entries = node->entries;
  return {};
}

Result<Space> MemoryFs::space(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (Status s = alive(path); !s.ok()) return s;
  if (!find(path)) return absent(path);
  return Space{.total = capacity_, .free = std::max<int64_t>(capacity_ - used(), 0)};
}

Status MemoryFs::alive(const std::string& path) const {
  if (dead_) return {Code::kIo, path + ": the machine is down"};
  return {};
}

Status MemoryFs::begin_mutation(const std::string& path, bool* struck) {
  if (Status s = alive(path); !s.ok()) return s;
  ++calls_;
  dead_ = calls_ == die_at_;
  const bool fails = calls_ == fail_at_;
  if (struck) *struck = dead_ || fails;
  if (dead_) return alive(path);
  if (fails) return {fail_code_, path + ": injected fault"};
  return {};
}

std::shared_ptr<MemoryFs::Node> MemoryFs::find(const std::string& path) const {
  std::shared_ptr<Node> at = root_;
  for (const std::string& part : parts_of(path)) {
    const auto it = at->entries.find(part);
    if (it == at->entries.end()) return nullptr;
    at = it->second;
  }
  return at;
}

Result<MemoryFs::Place> MemoryFs::place_of(const std::string& path) const {
  std::vector<std::string> parts = parts_of(path);
  if (parts.empty()) return Status(Code::kIo, path + ": is the root");
  Place place{root_, std::move(parts.back())};
  parts.pop_back();
  for (const std::string& part : parts) {
    const auto it = place.directory->entries.find(part);
    if (it == place.directory->entries.end() || !it->second->directory) return absent(path);
    place.directory = it->second;
  }
  return place;
}

std::shared_ptr<MemoryFs::Node> MemoryFs::make_node(bool directory) {
  auto node = std::make_shared<Node>();
  node->directory = directory;
  node->inode = ++inodes_;
  node->mtime_ns = static_cast<int64_t>(inodes_) * 1'000'000'000;
  return node;
}

int64_t MemoryFs::used() const {
  int64_t bytes = 0;
  root_->visit([&](Node& node) { bytes += static_cast<int64_t>(node.bytes.size()); });
  return bytes;
}

}  // namespace ndtrain
