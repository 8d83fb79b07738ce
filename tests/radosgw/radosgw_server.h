// A radosgw of a test's own, with one monitor and one OSD that keeps all in memory: what it writes
// is in a temporary directory, and it is reached on ports of 127.0.0.1 that were free.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ndp/s3/s3_client.h"
#include "ndp/s3/s3_request.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::support {

class RadosgwServer {
 public:
  // Empty where its programs are installed, else why tests cannot have one.
  static std::string lacking();
  // One for all tests of this process, made when first asked for.
  static RadosgwServer& shared();

  RadosgwServer();
  ~RadosgwServer();
  RadosgwServer(const RadosgwServer&) = delete;
  RadosgwServer& operator=(const RadosgwServer&) = delete;

  ndp::S3Settings settings() const;
  ndp::S3Client& client() { return *client_; }
  void make_bucket(const std::string& bucket, bool versions = false);
  void drop_bucket(const std::string& bucket);  // with the objects in it
  // At once: nobody sees it without its objects.
  void rename_bucket(const std::string& from, const std::string& to);
  // Of the cluster beneath it, as librados reads it; and what people tell it.
  std::string configuration() const { return directory_.at("ceph.conf"); }
  void ceph(std::vector<std::string> words) const;
  // How many objects of the bucket were fetched since the last call.
  int64_t fetched(const std::string& bucket);

 private:
  void write_configuration();
  void start();
  void call(std::vector<std::string> words) const;  // a program, to its end
  void begin(std::vector<std::string> words);       // one that goes on
  void await_answer();
  void send(const char* method, const std::string& bucket, const std::string& what = "",
            const std::string& body = "");
  std::string log() const { return directory_.at("programs.log"); }

  TemporaryDirectory directory_;
  int monitor_port_ = 0, port_ = 0, marks_ = 0;
  size_t read_ = 0;  // bytes of the log of requests
  std::vector<pid_t> running_;
  std::unique_ptr<ndp::S3Connections> connections_;
  std::unique_ptr<ndp::S3Client> client_;
};

}  // namespace ndtrain::support
