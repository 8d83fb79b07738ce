#include "ndp/rados/object_pool.h"

namespace ndtrain::ndp {

RadosBuild rados_build() {
  return {.library = "", .option = "NDT_RADOS", .package = "librados-dev"};
}

Result<std::unique_ptr<ObjectPool>> open_object_pool(const std::string& pool,
                                                     const std::string& nspace) {
  return Status(Code::kUnsupported, "rados://" + pool + "/" + nspace +
                                        ": this build does not read RADOS; build it with -D "
                                        "NDT_RADOS=ON, with librados-dev");
}

}  // namespace ndtrain::ndp
