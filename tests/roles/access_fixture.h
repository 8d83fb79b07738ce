// A Tuner and a PipeStore that answer over HTTP, and tokens for them.
#pragma once

#include <string>

#include "ndp/http/http_client.h"
#include "ndp/http/tokens.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::testing {

class RoleAccess : public RolesTest {
 protected:
  PipeStoreConfig store_config() const {
    PipeStoreConfig config = store("a", 0, 1);
    config.http = "127.0.0.1:0";
    return config;
  }
  TunerConfig tuner_config() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  std::string token(const std::string& name, Role role) const {
    return TokensFile::open(real_fs(), at("tuner"))
        .or_throw()
        .add({.name = name, .role = role})
        .or_throw();
  }
  void revoke(const std::string& name) const {
    TokensFile::open(real_fs(), at("tuner")).or_throw().revoke(name, 1).or_throw();
  }
  static HttpClient client(const std::string& address, const std::string& token) {
    return HttpClient(address, std::chrono::seconds(10), {.token = token});
  }
  static int ready(const std::string& address, const std::string& token) {
    return client(address, token).get("/readyz").or_throw().status;
  }
  std::string photo_file() const {
    return encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 1000));
  }
};

}  // namespace ndtrain::testing
