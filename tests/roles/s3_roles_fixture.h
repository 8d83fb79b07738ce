// Roles over an S3: bucket "photos" has the photos of RolesTest below july/.
#pragma once

#include <memory>
#include <string>

#include "ndp/s3/s3_fs.h"
#include "tests/roles/roles_fixture.h"
#include "tests/s3/s3_server.h"

namespace ndtrain::testing {

class S3RolesTest : public RolesTest {
 protected:
  void SetUp() override {
    RolesTest::SetUp();
    for (int i = 0; i < kPhotos; ++i) {
      const std::string path =
          "c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg";
      server_.put("july/" + path, real_fs().read(at("photos/" + path)).or_throw());
    }
  }

  support::S3Server server_{"photos"};
  std::unique_ptr<Fs> fs_ = with_s3(real_fs(), system_clock(), [this] {
    return Result(S3Settings{.endpoint = server_.endpoint(),
                             .region = support::S3Server::kRegion,
                             .keys = fixed_keys({.access = support::S3Server::kKey,
                                                 .secret = support::S3Server::kSecret})});
  });
};

}  // namespace ndtrain::testing
