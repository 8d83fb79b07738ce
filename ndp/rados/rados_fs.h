// Files of Ceph RADOS beside those of another Fs: rados://POOL/NAMESPACE/OBJECT is an object, and
// what names have in common up to a '/' is a directory (rados_tree.h). Objects are read and
// removed. One that is opened by kCreate is not there before append() is called, which happens
// once, with all of its bytes: no object is replaced, one with the same bytes is as good, and what
// is there then is durable. Codes are as ObjectPool::add has them. What else would write is
// refused, kUnsupported. All other paths are those of the other Fs.
//
// A listing has all objects of a pool, or those that are this host's (hosted_groups.h). An object's
// time and version stand where a file has its time and inode, so a catalogue reads again only what
// was written since. A listing of a directory asks for all that is below it; what it heard of
// directories below is what their next list() says, and of each object what its next info() says,
// unless it was read in between. Whether what is no object is a directory is known from the last
// listing above it; only where there was none, info() lists the namespace.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/rados/object_pool.h"
#include "ndp/rados/osd_map.h"

namespace ndtrain::ndp {

// Which objects are listed.
struct RadosScope {
  bool all = true;
  std::set<int> osds = {};  // unless all: of these; empty: of those at this host's addresses
};

// What was read of objects whose acting primary an OSD was then.
struct RadosReads {
  std::string pool;
  int osd = -1;
  bool here = false;  // it is this host's
  uint64_t objects = 0, bytes = 0;
};

// Attributes for an object that is as info() said.
struct FileAttributes {
  std::string path;
  FileInfo info;
  ObjectAttributes attributes;
};

class RadosFs : public Fs {
 public:
  // Looks whether the cluster has another map by now than is known of the pool of `path`, and
  // whether that changes what is listed below it. False also where all is listed.
  virtual Result<bool> look(const std::string& path) = 0;
  // How often the host was given objects which others had before (HostedGroups::gained()), as of
  // the last listing.
  virtual uint64_t gained(const std::string& path) = 0;
  virtual std::vector<RadosReads> reads() = 0;
  // Of each, in order; what info() says of the objects stays as it is. Once more is harmless.
  // kExists: the object was written meanwhile; kUnavailable also for one that was written just now,
  // and takes none yet.
  virtual std::vector<Status> set_attributes(std::span<const FileAttributes> files) = 0;
};

std::unique_ptr<RadosFs> with_rados(std::unique_ptr<Fs> others, Clock& clock, RadosScope scope,
                                    OpenObjectPool open = open_object_pool);

}  // namespace ndtrain::ndp
