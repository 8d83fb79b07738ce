#include "cli/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace ndtrain::cli {
namespace {

// The word of /proc/PID/stat with this number, counted from 1 as proc(5) does; from the third on.
std::string word_of_stat(pid_t pid, int number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string word;
  for (int i = 3; i <= number; ++i) rest >> word;
  return word;
}

TEST(Process, RunsUntilTheLastOfItsThreadsHasEnded) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {  // its first thread ends, another stays
    std::thread([] { ::pause(); }).detach();
    syscall(SYS_exit, 0);
  }
  const ProcessId process{pid, std::stoull(word_of_stat(pid, 22))};
  EXPECT_TRUE(is_running(process));
  while (word_of_stat(pid, 3) != "Z") std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_running(process));
  end_now(process);
  while (is_running(process)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(waitpid(pid, nullptr, 0), -1) << "is_running has reaped it";
  EXPECT_FALSE(is_running({getpid(), 0})) << "another process that had this number";
}

}  // namespace
}  // namespace ndtrain::cli
