// By librados's C interface; what it computes of the OSD map it keeps to itself (osd_map.h).
#include <fmt/format.h>
#include <rados/librados.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/rados/object_pool.h"
#include "ndp/rados/placement_groups.h"
#include "ndp/rados/rados_url.h"

namespace ndtrain::ndp {
namespace {

constexpr int kReadFlags = LIBRADOS_OPERATION_LOCALIZE_READS;
// Without it librados waits until a full pool has room again.
constexpr int kWriteFlags = LIBRADOS_OPERATION_FULL_TRY;
constexpr size_t kListedAtOnce = 1024;
constexpr size_t kStatsAtOnce = 64;
constexpr int64_t kNanoseconds = 1'000'000'000;

// Without these librados waits for ever.
constexpr std::array<std::array<const char*, 3>, 3> kTimeouts = {{
    {"client_mount_timeout", "300", "15"},
    {"rados_mon_op_timeout", "0", "30"},
    {"rados_osd_op_timeout", "0", "30"},
}};

Status rados_failure(const std::string& what, int error) {
  const int e = -error;
  const std::string text = what + ": " + std::strerror(e);
  switch (e) {
    case ENOENT:
      return {Code::kNotFound, text};
    case EEXIST:
      return {Code::kExists, text};
    case ENOSPC:
      return {Code::kNoSpace, text + "; the pool is full: add OSDs, or remove objects"};
    case EDQUOT:
      return {Code::kNoSpace, text + "; the pool's quota is used up: see ceph osd pool set-quota"};
    case EFBIG:
    case EMSGSIZE:
      return {Code::kTooLarge, text + "; OSDs take no object of this size (osd_max_write_size)"};
    case ETIMEDOUT:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ESHUTDOWN:  // the cluster does not talk to this client any more
    case EAGAIN:
      return {Code::kUnavailable, text};
    case EPERM:
    case EACCES:
    case EROFS:
      return {Code::kUnsupported, text + "; its user may not: see ceph auth get"};
    default:
      return {Code::kIo, text};
  }
}

struct FreedByLibrados {
  void operator()(char* bytes) const { rados_buffer_free(bytes); }
};
using Answer = std::unique_ptr<char, FreedByLibrados>;

// A read of one object under way. It stays where it is until it has ended.
class ReadOperation {
 public:
  ReadOperation() : op_(rados_create_read_op()) {}
  ~ReadOperation() {
    if (begun_) rados_aio_wait_for_complete(completion_);
    if (completion_) rados_aio_release(completion_);
    rados_release_read_op(op_);
  }
  ReadOperation(const ReadOperation&) = delete;
  ReadOperation& operator=(const ReadOperation&) = delete;

  void assert_version(uint64_t version) { rados_read_op_assert_version(op_, version); }
  void stat() { rados_read_op_stat(op_, &size_, &mtime_, nullptr); }
  void read(int64_t offset, size_t size) {
    buffer_ = std::make_unique_for_overwrite<char[]>(size);
    rados_read_op_read(op_, static_cast<uint64_t>(offset), size, buffer_.get(), &read_, nullptr);
  }
  int begin(rados_ioctx_t io, const std::string& name) {
    if (const int e = rados_aio_create_completion2(nullptr, nullptr, &completion_); e < 0) return e;
    const int e = rados_aio_read_op_operate(op_, io, completion_, name.c_str(), kReadFlags);
    begun_ = e >= 0;
    return e;
  }
  int end() {
    rados_aio_wait_for_complete(completion_);
    return rados_aio_get_return_value(completion_);
  }
  ObjectFacts facts() const {
    return {.size = static_cast<int64_t>(size_),
            .mtime_ns = static_cast<int64_t>(mtime_) * kNanoseconds,
            .version = rados_aio_get_version(completion_)};
  }
  std::string bytes() const { return {buffer_.get(), read_}; }

 private:
  const rados_read_op_t op_;
  rados_completion_t completion_ = nullptr;
  bool begun_ = false;
  uint64_t size_ = 0;
  time_t mtime_ = 0;
  size_t read_ = 0;
  std::unique_ptr<char[]> buffer_;
};

// Writes to one object that are done together or not at all.
class WriteOperation {
 public:
  WriteOperation() : op_(rados_create_write_op()) {}
  ~WriteOperation() { rados_release_write_op(op_); }
  WriteOperation(const WriteOperation&) = delete;
  WriteOperation& operator=(const WriteOperation&) = delete;

  void create() { rados_write_op_create(op_, LIBRADOS_CREATE_EXCLUSIVE, nullptr); }
  void write(std::string_view bytes) { rados_write_op_write_full(op_, bytes.data(), bytes.size()); }
  void set(const ObjectAttributes& attributes) {
    for (const auto& [name, value] : attributes) {
      rados_write_op_setxattr(op_, name.c_str(), value.data(), value.size());
    }
  }
  void remove() { rados_write_op_remove(op_); }
  int operate(rados_ioctx_t io, const std::string& name) {
    return rados_write_op_operate2(op_, io, name.c_str(), nullptr, kWriteFlags);
  }

 private:
  const rados_write_op_t op_;
};

class LibradosPool final : public ObjectPool {
 public:
  LibradosPool(std::string pool, std::string nspace)
      : pool_(std::move(pool)), nspace_(std::move(nspace)) {}
  ~LibradosPool() override {
    if (io_) rados_ioctx_destroy(io_);
    if (cluster_) rados_shutdown(cluster_);
  }

  Status connect();
  Result<std::string> command(const std::string& json) override;
  Result<std::vector<std::string>> list(uint32_t group, uint32_t groups) override;
  std::vector<Result<ObjectFacts>> stat(std::span<const std::string> names) override;
  Result<ObjectBytes> read(const std::string& name, int64_t offset, int64_t size,
                           uint64_t version) override;
  Status add(const std::string& name, std::string_view bytes,
             const ObjectAttributes& attributes) override;
  Status remove(const std::string& name) override;

 private:
  std::string url(const std::string& name) const {
    return "rados://" + pool_ + "/" + nspace_ + "/" + printable(name, 1024);
  }
  Status read_settings();
  Status list_slice(uint32_t slice, uint32_t slices, std::vector<std::string>& names);
  void take(const rados_object_list_item& item, std::vector<std::string>& names);

  const std::string pool_, nspace_;
  rados_t cluster_ = nullptr;
  rados_ioctx_t io_ = nullptr;
  std::atomic<bool> said_ = false;  // that some objects are left out
};

Status LibradosPool::read_settings() {
  if (const int e = rados_conf_read_file(cluster_, nullptr); e < 0) {
    return {Code::kNotFound, std::string("no configuration of a Ceph cluster (") +
                                 std::strerror(-e) +
                                 "): CEPH_CONF names one, /etc/ceph/ceph.conf is another place"};
  }
  static std::mutex one_at_a_time;  // as librados asks for
  const std::lock_guard lock(one_at_a_time);
  if (const int e = rados_conf_parse_env(cluster_, nullptr); e < 0)
    return rados_failure("CEPH_ARGS", e);
  for (const auto& [option, endless, seconds] : kTimeouts) {
    std::array<char, 64> now{};
    if (rados_conf_get(cluster_, option, now.data(), now.size()) < 0) continue;
    const double is = std::strtod(now.data(), nullptr);
    if (is == std::strtod(endless, nullptr)) (void)rados_conf_set(cluster_, option, seconds);
  }
  return {};
}

Status LibradosPool::connect() {
  const char* const arguments = std::getenv("CEPH_ARGS");
  const std::string user = "client." + user_in_ceph_args(arguments ? arguments : "");
  if (const int e = rados_create2(&cluster_, "ceph", user.c_str(), 0); e < 0) {
    cluster_ = nullptr;
    return rados_failure("librados", e);
  }
  if (Status s = read_settings(); !s.ok()) return s;
  if (const int e = rados_connect(cluster_); e < 0) {
    const Status why = rados_failure("the Ceph cluster, as " + user, e);
    rados_shutdown(std::exchange(cluster_, nullptr));
    return why.code() == Code::kNotFound
               ? Status(Code::kUnsupported, why.message() + "; is its keyring there?")
               : why;
  }
  if (const int e = rados_ioctx_create(cluster_, pool_.c_str(), &io_); e < 0) {
    io_ = nullptr;
    return rados_failure("pool " + printable(pool_, 256), e);
  }
  rados_ioctx_set_namespace(io_, nspace_.c_str());
  return {};
}

Result<std::string> LibradosPool::command(const std::string& json) {
  const char* commands[] = {json.c_str()};
  char *answer = nullptr, *said = nullptr;
  size_t answer_bytes = 0, said_bytes = 0;
  const int e =
      rados_mon_command(cluster_, commands, 1, "", 0, &answer, &answer_bytes, &said, &said_bytes);
  const Answer owned(answer), why(said);
  if (e < 0) {
    return rados_failure("the Ceph monitors, asked " + json + ", say '" +
                             printable(std::string(said ? said : "", said_bytes), 256) + "'",
                         e);
  }
  return std::string(answer ? answer : "", answer_bytes);
}

Result<std::vector<std::string>> LibradosPool::list(uint32_t group, uint32_t groups) {
  std::vector<std::string> names;
  for (const uint32_t slice : slices_of_group(group, groups)) {
    if (Status s = list_slice(slice, listing_slices(groups), names); !s.ok()) return s;
  }
  // A slice is more than a group while a pool's groups are being divided.
  std::erase_if(names, [&](const std::string& name) {
    return placement_group(nspace_, name, groups) != group;
  });
  return names;
}

Status LibradosPool::list_slice(uint32_t slice, uint32_t slices, std::vector<std::string>& names) {
  struct Cursor {
    Cursor(rados_ioctx_t of, rados_object_list_cursor c) : io(of), at(c) {}
    ~Cursor() { rados_object_list_cursor_free(io, at); }
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;
    rados_ioctx_t io;
    rados_object_list_cursor at;
  };
  const auto anywhere = [this] { return rados_object_list_begin(io_); };  // librados puts it right
  const Cursor begin(io_, anywhere()), end(io_, rados_object_list_end(io_));
  Cursor at(io_, anywhere()), to(io_, anywhere()), next(io_, anywhere());
  rados_object_list_slice(io_, begin.at, end.at, slice, slices, &at.at, &to.at);
  while (rados_object_list_cursor_cmp(io_, at.at, to.at) < 0) {
    std::array<rados_object_list_item, kListedAtOnce> items{};
    const int n =
        rados_object_list(io_, at.at, to.at, items.size(), nullptr, 0, items.data(), &next.at);
    if (n < 0) return rados_failure("listing rados://" + pool_ + "/" + nspace_, n);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) take(items[i], names);
    rados_object_list_free(items.size(), items.data());
    std::swap(at.at, next.at);
  }
  return {};
}

void LibradosPool::take(const rados_object_list_item& item, std::vector<std::string>& names) {
  std::string name(item.oid, item.oid_length);
  if (item.locator_length == 0 && name.find('\0') == std::string::npos) {
    return names.push_back(std::move(name));
  }
  if (said_.exchange(true)) return;
  log::warn("{}: objects with a locator, or with a NUL in their names, are left out", url(name));
}

std::vector<Result<ObjectFacts>> LibradosPool::stat(std::span<const std::string> names) {
  std::vector<Result<ObjectFacts>> all;
  all.reserve(names.size());
  std::deque<std::pair<ReadOperation, int>> under_way;
  const auto begin = [&](const std::string& name) {
    auto& [op, error] = under_way.emplace_back();
    op.stat();
    error = op.begin(io_, name);
  };
  for (size_t i = 0, begun = 0; i < names.size(); ++i) {
    while (begun < names.size() && under_way.size() < kStatsAtOnce) begin(names[begun++]);
    auto& [op, error] = under_way.front();
    const int e = error < 0 ? error : op.end();
    if (e < 0) {
      all.emplace_back(rados_failure(url(names[i]), e));
    } else {
      all.emplace_back(op.facts());
    }
    under_way.pop_front();
  }
  return all;
}

Result<ObjectBytes> LibradosPool::read(const std::string& name, int64_t offset, int64_t size,
                                       uint64_t version) {
  ReadOperation op;
  if (version > 0) op.assert_version(version);
  op.stat();
  op.read(offset, static_cast<size_t>(size));
  int e = op.begin(io_, name);
  if (e >= 0) e = op.end();
  if (e == -ERANGE || e == -EOVERFLOW) {
    return Status(Code::kIo, url(name) + ": it was overwritten while it was read");
  }
  if (e < 0) return rados_failure(url(name), e);
  return ObjectBytes{op.facts(), op.bytes()};
}

Status LibradosPool::add(const std::string& name, std::string_view bytes,
                         const ObjectAttributes& attributes) {
  WriteOperation op;
  op.create();
  op.write(bytes);
  op.set(attributes);
  const int e = op.operate(io_, name);
  if (e == -ENOENT) return {Code::kUnavailable, url(name) + ": there is no such pool any more"};
  return e < 0 ? rados_failure(url(name), e) : Status();
}

Status LibradosPool::remove(const std::string& name) {
  WriteOperation op;
  op.remove();
  const int e = op.operate(io_, name);
  return e < 0 ? rados_failure(url(name), e) : Status();
}

}  // namespace

RadosBuild rados_build() {
  int major = 0, minor = 0, extra = 0;
  rados_version(&major, &minor, &extra);
  return {.library = fmt::format("librados {}.{}.{}", major, minor, extra),
          .option = "NDT_RADOS",
          .package = "librados-dev"};
}

Result<std::unique_ptr<ObjectPool>> open_object_pool(const std::string& pool,
                                                     const std::string& nspace) {
  auto opened = std::make_unique<LibradosPool>(pool, nspace);
  if (Status s = opened->connect(); !s.ok()) return s;
  return std::unique_ptr<ObjectPool>(std::move(opened));
}

}  // namespace ndtrain::ndp
