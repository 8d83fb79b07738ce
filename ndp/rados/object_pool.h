// A namespace of a pool, and the monitors of its cluster: what is asked of librados. Where a
// cluster does not answer in time it is kUnavailable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

inline constexpr int64_t kObjectSecond = 1'000'000'000;

struct ObjectFacts {
  int64_t size = 0;
  int64_t mtime_ns = 0;  // whole seconds, of kObjectSecond: librados tells no more
  uint64_t version = 0;  // another one after each time that the object was written
  uint64_t content = 0;  // the version that its bytes are of (content_mark.h)
};

struct ObjectBytes {
  ObjectFacts object;
  std::string bytes;
};

using ObjectAttributes = std::map<std::string, std::string>;  // its xattrs

struct ObjectDescription {
  ObjectFacts object;
  ObjectAttributes attributes;
};

// Attributes for an object that is of this version.
struct NewAttributes {
  std::string name;
  ObjectFacts object;
  ObjectAttributes attributes;
};

class ObjectPool {
 public:
  virtual ~ObjectPool() = default;
  virtual Result<std::string> command(const std::string& json) = 0;  // see MonCommand
  // The objects of one group of `groups`. Those with a locator of their own are left out.
  virtual Result<std::vector<std::string>> list(uint32_t group, uint32_t groups) = 0;
  // Of each, in order.
  virtual std::vector<Result<ObjectDescription>> describe(std::span<const std::string> names) = 0;
  // What there is from `offset`, at most `size` bytes. With a version other than 0, kIo where the
  // object is of another.
  virtual Result<ObjectBytes> read(const std::string& name, int64_t offset, int64_t size,
                                   uint64_t version) = 0;
  // An object where there is none, in one operation: nobody sees a part of it. kExists: there is
  // one, which stays; kNoSpace: the pool is full, or its quota used up; kTooLarge: its OSDs take
  // none of this size; kUnsupported: this user may not.
  virtual Status add(const std::string& name, std::string_view bytes,
                     const ObjectAttributes& attributes) = 0;
  virtual Status remove(const std::string& name) = 0;  // kNotFound; kUnsupported as add()
  // Of each, in order. The object's time stays what it was, in whole seconds; its version does not.
  // kExists: it is of another version by now.
  virtual std::vector<Status> set_attributes(std::span<const NewAttributes> all) = 0;
};

using OpenObjectPool = std::function<Result<std::unique_ptr<ObjectPool>>(
    const std::string& pool, const std::string& nspace)>;

// By librados, as Ceph's own tools go about it: CEPH_CONF or /etc/ceph/ceph.conf says where the
// cluster is, CEPH_ARGS what else, such as --id. kUnsupported in a build without librados.
Result<std::unique_ptr<ObjectPool>> open_object_pool(const std::string& pool,
                                                     const std::string& nspace);

struct RadosBuild {
  std::string library;  // "librados 3.0.0"; "" in a build without it
  std::string option, package;
};
RadosBuild rados_build();

}  // namespace ndtrain::ndp
