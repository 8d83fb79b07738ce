#include "tests/radosgw/radosgw_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

namespace ndtrain::support {
namespace {

using namespace ndp;

constexpr const char* kBin = "/usr/bin";
constexpr const char* kFsid = "11111111-2222-3333-4444-555555555555";
constexpr const char* kAccess = "test";
constexpr const char* kSecret = "testsecret";
constexpr std::chrono::seconds kStartPatience{120}, kGlance{1};

std::string program(const std::string& name) { return join(kBin, name); }

int free_port() {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const a = reinterpret_cast<sockaddr*>(&address);
  const bool found = bind(s, a, size) == 0 && getsockname(s, a, &size) == 0;
  close(s);
  if (!found) throw Error("RadosgwServer: no port is free");
  return ntohs(address.sin_port);
}

pid_t spawn(std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Error("RadosgwServer: ", words[0], " does not start");
  return pid;
}

}  // namespace

std::string RadosgwServer::lacking() {
  for (const char* name :
       {"radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph", "monmaptool", "setpriv"}) {
    if (::access(program(name).c_str(), X_OK) != 0) {
      return std::string(name) + " is missing (Debian: apt install radosgw ceph-mon ceph-osd)";
    }
  }
  return "";
}

RadosgwServer& RadosgwServer::shared() {
  static RadosgwServer server;
  return server;
}

RadosgwServer::RadosgwServer() : monitor_port_(free_port()), port_(free_port()) {
  write_configuration();
  try {
    start();
  } catch (const Error& e) {
    const Result<std::string> said = real_fs().read(log());
    throw Error(e.what(), "\n", said.ok() ? *said : "");
  }
  connections_ = std::make_unique<S3Connections>(settings());
  client_ = std::make_unique<S3Client>(settings(), system_clock(), 1);
  await_answer();
}

RadosgwServer::~RadosgwServer() {
  for (const pid_t pid : running_) ::kill(pid, SIGKILL);
  for (const pid_t pid : running_) ::waitpid(pid, nullptr, 0);
}

S3Settings RadosgwServer::settings() const {
  return {.endpoint = "http://127.0.0.1:" + std::to_string(port_),
          .keys = fixed_keys({.access = kAccess, .secret = kSecret})};
}

namespace {

// Debian 13's OSD looks for its classes below where it is started.
std::string class_directory() {
  for (const auto& each : std::filesystem::directory_iterator("/usr/lib")) {
    const std::filesystem::path classes = each.path() / "rados-classes";
    std::error_code none;
    if (std::filesystem::exists(classes, none)) return classes;
  }
  return "/usr/lib/rados-classes";
}

}  // namespace

void RadosgwServer::write_configuration() {
  const std::string dir = directory_.path();
  const std::string text =
      "[global]\nfsid=" + std::string(kFsid) +
      "\nmon host=[v2:127.0.0.1:" + std::to_string(monitor_port_) +
      "]\nmon initial members=a\nauth cluster required=none\nauth service required=none\n"
      "auth client required=none\nauth supported=none\nms client mode=crc\n"
      "ms mon client mode=crc\nms cluster mode=crc\nms service mode=crc\nms mon service mode=crc\n"
      "osd pool default size=1\nmon allow pool size one=true\nosd pool default pg num=4\n"
      "osd crush chooseleaf type=0\nosd objectstore=memstore\nmemstore device bytes=1073741824\n"
      "osd class dir=" +
      class_directory() +
      "\nmon max pg per osd=1000\nrgw frontends=beast endpoint=127.0.0.1:" + std::to_string(port_) +
      "\nrun dir=" + dir + "\nadmin socket=" + dir + "/$name.asok\nlog file=" + dir +
      "/$name.log\npid file=" + dir + "/$name.pid\nmon data=" + dir + "/mon\nosd data=" + dir +
      "/osd\nrgw data=" + dir + "/rgw\nkeyring=" + dir + "/keyring\n";
  for (const char* name : {"mon", "osd", "rgw"}) {
    real_fs().make_directories(directory_.at(name)).or_throw();
  }
  const auto write = [&](const char* name, std::string_view bytes) {
    const auto file = real_fs().open(directory_.at(name), Fs::Mode::kCreate).or_throw();
    file->append(std::as_bytes(std::span(bytes))).or_throw();
  };
  write("ceph.conf", text);
  write("keyring", "");
}

void RadosgwServer::call(std::vector<std::string> words) const {
  words[0] = program(words[0]);
  const pid_t pid = spawn(words, log());
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || status != 0) {
    throw Error("RadosgwServer: ", words[0], " failed");
  }
}

void RadosgwServer::ceph(std::vector<std::string> words) const {
  words.insert(words.begin(), {"ceph", "-c", configuration(), "--connect-timeout", "60"});
  call(std::move(words));
}

void RadosgwServer::begin(std::vector<std::string> words) {
  words[0] = program(words[0]);
  words.insert(words.begin(), {program("setpriv"), "--pdeathsig", "KILL", "--"});
  running_.push_back(spawn(words, log()));
}

void RadosgwServer::start() {
  const std::string conf = configuration(), map = directory_.at("monmap");
  const std::string osd = "99999999-2222-3333-4444-555555555555";
  call({"monmaptool", "--create", "--fsid", kFsid, "--addv", "a",
        "[v2:127.0.0.1:" + std::to_string(monitor_port_) + "]", map});
  call({"ceph-mon", "-c", conf, "--mkfs", "-i", "a", "--monmap", map, "--keyring",
        directory_.at("keyring")});
  begin({"ceph-mon", "-c", conf, "-i", "a", "-f"});
  call({"ceph", "-c", conf, "--connect-timeout", "60", "osd", "new", osd});
  call({"ceph-osd", "-c", conf, "-i", "0", "--mkfs", "--osd-uuid", osd});
  begin({"ceph-osd", "-c", conf, "-i", "0", "-f"});
  begin({"radosgw", "-c", conf, "-n", "client.admin", "-f"});
  call({"radosgw-admin", "-c", conf, "user", "create", "--uid=test", "--display-name=test",
        std::string("--access-key=") + kAccess, std::string("--secret-key=") + kSecret});
}

// It says nothing when it begins to answer.
void RadosgwServer::await_answer() {
  const auto until = std::chrono::steady_clock::now() + kStartPatience;
  while (!connections_->send({.bucket = "", .key = "", .most = size_t{1} << 20}).ok()) {
    if (std::chrono::steady_clock::now() > until) throw Error("RadosgwServer: no answer");
    std::this_thread::sleep_for(kGlance / 10);
  }
}

void RadosgwServer::send(const char* method, const std::string& bucket, const std::string& what,
                         const std::string& body) {
  S3Request request{.method = method, .bucket = bucket, .key = "", .body = body};
  if (!what.empty()) request.query = {{what, ""}};
  request.most = size_t{1} << 20;
  const CurlAnswer answer = connections_->send(request).or_throw();
  if (answer.status / 100 != 2) {
    throw Error("RadosgwServer: ", method, " of ", bucket, ": ", answer.body);
  }
}

void RadosgwServer::make_bucket(const std::string& bucket, bool versions) {
  send("PUT", bucket);
  if (versions) {
    send("PUT", bucket, "versioning",
         "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
         "<Status>Enabled</Status></VersioningConfiguration>");
  }
}

void RadosgwServer::drop_bucket(const std::string& bucket) {
  call({"radosgw-admin", "-c", configuration(), "bucket", "rm", "--bucket=" + bucket,
        "--purge-objects", "--yes-i-really-mean-it"});
}

void RadosgwServer::rename_bucket(const std::string& from, const std::string& to) {
  call({"radosgw-admin", "-c", configuration(), "bucket", "link", "--bucket=" + from,
        "--bucket-new-name=" + to, "--uid=test"});
}

// A line of the log is written when a request has ended, behind its answer: a request of our own is
// waited for, which came behind all others.
int64_t RadosgwServer::fetched(const std::string& bucket) {
  const std::string mark = "/mark-" + std::to_string(++marks_);
  (void)connections_->send({.bucket = mark.substr(1), .key = "", .most = size_t{1} << 20});
  const auto until = std::chrono::steady_clock::now() + kStartPatience;
  std::string said;
  while (said.find("GET " + mark + "/", read_) == std::string::npos) {
    if (std::chrono::steady_clock::now() > until) throw Error("RadosgwServer: no log of requests");
    std::this_thread::sleep_for(kGlance / 50);
    said = real_fs().read(directory_.at("client.admin.log")).or_throw();
  }
  int64_t n = 0;
  const std::string get = "\"GET /" + bucket + "/";
  for (size_t at = read_; (at = said.find(get, at)) != std::string::npos; at += get.size()) {
    const char next = said.at(at + get.size());
    n += next != '?' && next != ' ';  // which lists the bucket
  }
  read_ = said.size();
  return n;
}

}  // namespace ndtrain::support
