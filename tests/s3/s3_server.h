// As much of an S3 as a test needs, on a port of its own: it lists, gets, puts and deletes, checks
// each signature, and goes wrong as it is told to.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ndtrain::support {

struct S3Call {
  std::string method, path, query;  // as on the wire
  std::map<std::string, std::string> headers;
  std::string body;
};

// Instead of an answer, or of all of it; a request that is damaged, one that is done and not
// answered; an object that has `code` for its bytes from then on.
struct S3Fault {
  enum class Kind {
    kNone,
    kStatus,
    kCutBody,
    kCutConnection,
    kDamagedRequest,
    kLostAnswer,
    kReplaced
  };
  Kind kind = Kind::kNone;
  int status = 503;
  std::string code = "SlowDown";
  std::string retry_after = {};  // "": nothing is said
};

class S3Server {
 public:
  static constexpr const char* kKey = "AKIDEXAMPLE";
  static constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  static constexpr const char* kRegion = "eu-test-1";

  explicit S3Server(std::string bucket);
  ~S3Server();

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void put(const std::string& key, std::string bytes);
  std::map<std::string, std::string> objects() const;
  void drop_bucket();
  void bring_bucket_back();
  // Called for each request, by any thread.
  void set_fault(std::function<S3Fault(const S3Call&)> fault);
  void forget_conditions() { knows_conditions_ = false; }  // of PUT: 501, as older servers
  void ignore_matches() { knows_matches_ = false; }        // of GET
  // From now on what is put or deleted leaves a version behind.
  void keep_versions() { keeps_versions_ = true; }
  void set_latency(std::chrono::milliseconds latency) { latency_ms_ = latency.count(); }
  std::vector<S3Call> calls() const;
  int64_t count(const std::string& method, const std::string& path_begin = "/") const;
  void forget_calls();  // and how many there were at once
  int most_at_once() const;

 private:
  struct Reply {
    int status = 200;
    std::string body = {};
    std::string headers = {};  // lines
  };

  void accept_all();
  void talk(int connection);
  void send_reply(int connection, const S3Call& call, const Reply& reply, bool cut);
  Reply answer(const S3Call& call);
  Reply list(const S3Call& call);
  Reply answer_version(const S3Call& call, const std::string& key);
  Reply get(const S3Call& call, const std::string& bytes);
  std::string put_now(const std::string& key, std::string bytes);     // headers, of the new version
  std::string version_header(const std::string& key) const;           // of the newest one
  Reply refusal_of(const S3Call& put, const std::string& key) const;  // 200: it may be done
  std::string why_not_signed(const S3Call& call) const;

  const std::string bucket_;
  int listener_ = -1, port_ = 0;
  std::atomic<int64_t> latency_ms_{0};
  std::atomic<bool> knows_conditions_{true}, knows_matches_{true}, keeps_versions_{false};
  mutable std::mutex mutex_;
  bool there_ = true;
  std::map<std::string, std::string> objects_;
  struct Version {
    std::string id;
    std::optional<std::string> bytes;  // none: it was deleted
  };
  std::map<std::string, std::vector<Version>> versions_;  // by key; the newest comes last
  int ids_ = 0;
  std::function<S3Fault(const S3Call&)> fault_;
  std::vector<S3Call> calls_;
  int under_way_ = 0, most_at_once_ = 0;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace ndtrain::support
