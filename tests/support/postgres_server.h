// A PostgreSQL server of a test's own: its files in a temporary directory, reached by a socket
// there.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace ndtrain::support {

class PostgresServer {
 public:
  // Empty where the server's programs are installed, else why tests cannot have one.
  static std::string lacking();
  // One for all tests of this process, made when first asked for.
  static PostgresServer& shared();

  PostgresServer();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  std::string new_database();  // its URL
  void start();
  void kill();  // as a power cut would: no goodbye to clients, nothing written that is not yet

 private:
  void control(const std::vector<std::string>& words);

  TemporaryDirectory directory_;
  int databases_ = 0;
};

}  // namespace ndtrain::support
