// By librados's C interface; what it computes of the OSD map it keeps to itself (osd_map.h).
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/rados/object_pool.h"
#include "ndp/rados/placement_groups.h"
#include "ndp/rados/rados_operation.h"
#include "ndp/rados/rados_url.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kListedAtOnce = 1024;
constexpr size_t kOperationsAtOnce = 64;

// Without these librados waits for ever.
constexpr std::array<std::array<const char*, 3>, 3> kTimeouts = {{
    {"client_mount_timeout", "300", "15"},
    {"rados_mon_op_timeout", "0", "30"},
    {"rados_osd_op_timeout", "0", "30"},
}};

struct FreedByLibrados {
  void operator()(char* bytes) const { rados_buffer_free(bytes); }
};
using Answer = std::unique_ptr<char, FreedByLibrados>;

// Of what an operation asserted.
bool is_other_version(int error) { return error == -ERANGE || error == -EOVERFLOW; }

// Operations on `n` objects: begin(operation, i) makes one of each, end(operation, i, result) is
// called in order.
template <typename Operation, typename Begin, typename End>
void several_at_once(size_t n, Begin begin, End end) {
  std::deque<Operation> under_way;
  for (size_t i = 0, begun = 0; i < n; ++i) {
    for (; begun < n && under_way.size() < kOperationsAtOnce; ++begun) {
      begin(under_way.emplace_back(), begun);
    }
    const int result = under_way.front().end();
    end(under_way.front(), i, result);
    under_way.pop_front();
  }
}

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
  std::vector<Result<ObjectDescription>> describe(std::span<const std::string> names) override;
  Result<ObjectBytes> read(const std::string& name, int64_t offset, int64_t size,
                           uint64_t version) override;
  Status add(const std::string& name, std::string_view bytes,
             const ObjectAttributes& attributes) override;
  Status remove(const std::string& name) override;
  std::vector<Status> set_attributes(std::span<const NewAttributes> all) override;

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

std::vector<Result<ObjectDescription>> LibradosPool::describe(std::span<const std::string> names) {
  std::vector<Result<ObjectDescription>> all;
  all.reserve(names.size());
  several_at_once<ReadOperation>(
      names.size(),
      [&](ReadOperation& op, size_t i) {
        op.describe();
        (void)op.begin(io_, names[i]);
      },
      [&](const ReadOperation& op, size_t i, int e) {
        if (e < 0) {
          all.emplace_back(rados_failure(url(names[i]), e));
        } else {
          all.emplace_back(op.description());
        }
      });
  return all;
}

Result<ObjectBytes> LibradosPool::read(const std::string& name, int64_t offset, int64_t size,
                                       uint64_t version) {
  ReadOperation op;
  if (version > 0) op.assert_version(version);
  op.describe();
  op.read(offset, static_cast<size_t>(size));
  (void)op.begin(io_, name);
  const int e = op.end();
  if (is_other_version(e)) {
    return Status(Code::kIo, url(name) + ": it was overwritten while it was read");
  }
  if (e < 0) return rados_failure(url(name), e);
  return ObjectBytes{op.description().object, op.bytes()};
}

Status LibradosPool::add(const std::string& name, std::string_view bytes,
                         const ObjectAttributes& attributes) {
  WriteOperation op;
  op.create();
  op.write(bytes);
  op.set(attributes);
  (void)op.begin(io_, name);
  const int e = op.end();
  if (e == -ENOENT) return {Code::kUnavailable, url(name) + ": there is no such pool any more"};
  return e < 0 ? rados_failure(url(name), e) : Status();
}

Status LibradosPool::remove(const std::string& name) {
  WriteOperation op;
  op.remove();
  (void)op.begin(io_, name);
  const int e = op.end();
  return e < 0 ? rados_failure(url(name), e) : Status();
}

std::vector<Status> LibradosPool::set_attributes(std::span<const NewAttributes> all) {
  std::vector<Status> said;
  said.reserve(all.size());
  several_at_once<WriteOperation>(
      all.size(),
      [&](WriteOperation& op, size_t i) {
        auto time = static_cast<time_t>(all[i].object.mtime_ns / kObjectSecond);
        op.assert_version(all[i].object.version);
        op.set(all[i].attributes);
        (void)op.begin(io_, all[i].name, &time);
      },
      [&](const WriteOperation&, size_t i, int e) {
        const std::string what = url(all[i].name);
        if (is_other_version(e)) {
          said.emplace_back(Code::kExists, what + ": it was written meanwhile");
        } else {
          said.push_back(e < 0 ? rados_failure(what, e) : Status());
        }
      });
  return said;
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
