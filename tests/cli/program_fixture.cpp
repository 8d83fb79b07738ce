#include "tests/cli/program_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/paths.h"

namespace ndtrain::testing_cli {

pid_t ProgramTest::start(const std::vector<std::string>& words, int terminal) const {
  const std::string program = support::program_path();
  std::vector<const char*> argv = {program.c_str()};
  for (const std::string& w : words) argv.push_back(w.c_str());
  argv.push_back(nullptr);
  const std::string out = at("out"), err = at("err"), cache = at("cache");
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("NDTRAIN_CACHE", cache.c_str(), 1);
  const int o = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int e = terminal >= 0 ? terminal : open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const std::string in = at("in");
  const int i = open(in.c_str(), O_RDONLY);
  if (i >= 0) dup2(i, STDIN_FILENO);
  dup2(o, STDOUT_FILENO);
  dup2(e, STDERR_FILENO);
  if (chdir(root_.path().c_str()) == 0) {
    execv(program.c_str(), const_cast<char* const*>(argv.data()));
  }
  _exit(127);
}

pid_t ProgramTest::start_as(const std::string& name, const std::vector<std::string>& words) const {
  for (const char* file : {"out", "err"}) std::filesystem::remove(at(file));
  const pid_t child = start(words);
  while (!real_fs().exists(at("err"))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const char* file : {"out", "err"}) std::filesystem::rename(at(file), at(name + "." + file));
  return child;
}

}  // namespace ndtrain::testing_cli
