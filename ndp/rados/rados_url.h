// What a path of an object in Ceph RADOS is, rados://POOL/NAMESPACE/OBJECT, and as whom a cluster
// is asked for it. A pool's default namespace has no name: rados://POOL//OBJECT.
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
// The path of a place, without slashes at its end but for those of rados://POOL//; of the
// namespace where `place` has no name.
std::string rados_path(const RadosPlace& place);

// The user that CEPH_ARGS names by --id, --user, --name or -n; "admin" where it names none.
std::string user_in_ceph_args(const std::string& arguments);

}  // namespace ndtrain::ndp
