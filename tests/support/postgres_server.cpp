#include "tests/support/postgres_server.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace ndtrain::support {
namespace {

// Debian keeps the server's programs by major version.
std::string programs() {
  std::string newest;
  std::error_code none;
  for (const auto& e : std::filesystem::directory_iterator("/usr/lib/postgresql", none)) {
    const std::string bin = e.path() / "bin";
    if (std::filesystem::exists(join(bin, "initdb"))) newest = std::max(newest, bin);
  }
  return newest;
}

// The server refuses to run as root.
void become_postgres(std::vector<std::string>& words) {
  if (::geteuid() != 0) return;
  words.insert(words.begin(), {"/usr/sbin/runuser", "-u", "postgres", "--"});
}

void run(std::vector<std::string> words, const std::string& log) {
  become_postgres(words);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || ::waitpid(pid, &status, 0) != pid || status != 0) {
    throw Error("PostgresServer: ", words.back(), " failed; see ", log);
  }
}

}  // namespace

std::string PostgresServer::lacking() {
  if (programs().empty()) return "PostgreSQL is not installed (Debian: apt install postgresql)";
  if (::geteuid() == 0 && ::getpwnam("postgres") == nullptr) {
    return "there is no user postgres to run the server";
  }
  return "";
}

PostgresServer& PostgresServer::shared() {
  static PostgresServer server;
  return server;
}

PostgresServer::PostgresServer() {
  if (::geteuid() == 0) {
    const passwd* user = ::getpwnam("postgres");
    if (::chown(directory_.path().c_str(), user->pw_uid, user->pw_gid) != 0) {
      throw Error("PostgresServer: cannot give ", directory_.path(), " to postgres");
    }
  }
  run({join(programs(), "initdb"), "--no-sync", "-U", "ndtrain", "-A", "trust", "-D",
       directory_.at("data")},
      directory_.at("initdb.log"));
  start();
}

PostgresServer::~PostgresServer() {
  try {
    kill();
  } catch (const Error&) {  // a test has killed it
  }
}

void PostgresServer::control(const std::vector<std::string>& words) {
  std::vector<std::string> all{join(programs(), "pg_ctl"), "-w", "-D", directory_.at("data")};
  all.insert(all.end(), words.begin(), words.end());
  run(std::move(all), directory_.at("pg_ctl.log"));
}

void PostgresServer::start() {
  control({"-l", directory_.at("data/server.log"), "-o",
           "-c listen_addresses='' -c unix_socket_directories='" + directory_.path() + "'",
           "start"});
}

void PostgresServer::kill() { control({"-m", "immediate", "stop"}); }

std::string PostgresServer::new_database() {
  const auto url = [&](const std::string& database) {
    return "postgresql://ndtrain@/" + database + "?host=" + directory_.path();
  };
  const std::string name = "labels_" + std::to_string(++databases_);
  PGconn* admin = PQconnectdb(url("postgres").c_str());
  PGresult* made = PQexec(admin, ("CREATE DATABASE " + name).c_str());
  const bool ok = PQresultStatus(made) == PGRES_COMMAND_OK;
  const std::string why = PQerrorMessage(admin);
  PQclear(made);
  PQfinish(admin);
  if (!ok) throw Error("PostgresServer: ", why);
  return url(name);
}

}  // namespace ndtrain::support
