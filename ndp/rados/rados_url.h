// What a path of an object in Ceph RADOS is, rados://POOL/NAMESPACE/OBJECT, and as whom a cluster
// is asked for it.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace ndtrain::ndp {

// The object's name may hold slashes, and may be empty: all objects of the namespace.
struct RadosPlace {
  std::string pool, nspace, name;
};

bool is_rados_url(std::string_view path);
// kUnsupported for what names no pool or no namespace.
Result<RadosPlace> rados_place(std::string_view url);

// The user that CEPH_ARGS names by --id, --user, --name or -n; "admin" where it names none.
std::string user_in_ceph_args(const std::string& arguments);

}  // namespace ndtrain::ndp
