// A decode worker, or a model worker, that has been taken over: a file that holds "!" and a word
// makes it do what the word says. What succeeded is an image of one pixel, or a model that can be
// imported; what was refused kUnsupported, or kCorrupt, with the reason. Other files are photos, or
// models.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "ndp/sandbox/decode_worker.h"
#include "ndp/sandbox/model_worker.h"
#include "ndp/sandbox/worker_channel.h"
#include "ndp/sandbox/worker_start.h"

namespace ndtrain::ndp {
namespace {

// What was done succeeded where it gave 0 or more.
Result<Image> outcome(int64_t of) {
  if (of >= 0) return Image(1, 1);
  return Status(Code::kUnsupported, std::strerror(errno));
}

Result<Image> executable_memory() {
  void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return outcome(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

Result<Image> take_memory(size_t bytes) {
  std::vector<std::string> all;
  for (size_t taken = 0; taken < bytes; taken += size_t{1} << 20) {
    all.emplace_back(size_t{1} << 20, 'x');
  }
  return Image(1, 1);
}

// Answers by itself, past the code that serves.
Result<Image> say(const WorkerRecord& record) {
  (void)send(kWorkerSocket, &record, sizeof record, 0);
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}
Result<Image> say_a_piece() {
  (void)send(kWorkerSocket, "!", 1, 0);
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

WorkerRecord image_of(int32_t width, int32_t height, uint64_t total, uint32_t part) {
  return {
      .kind = WorkerRecord::kImage, .part = part, .total = total, .width = width, .height = height};
}

std::string inherited() {
  std::string text;
  for (int fd = kWorkerWindow + 1; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) text += "descriptor " + std::to_string(fd) + "; ";
  }
  for (char** variable = environ; *variable; ++variable) text += std::string(*variable) + "; ";
  return text;
}

class HostileDecoder final : public PhotoDecoder {
 public:
  Result<Image> decode(const std::string& name, std::string_view file, const DecodeOptions& options,
                       const Preprocess* crop, PhotoCost& cost) override {
    if (poisoned_) raise(SIGSEGV);
    if (!file.starts_with('!')) {
      return decoder_in_process().decode(name, file, options, crop, cost);
    }
    const auto act = acts_.find(file.substr(1));
    if (act == acts_.end()) return Status(Code::kCorrupt, "unknown act");
    return act->second();
  }

  void import(std::string file) {
    if (!file.starts_with('!')) return try_model(std::move(file));
    PhotoCost cost;
    decode("", file, {}, nullptr, cost).status().or_throw();
  }

  Result<std::string> apply(std::string_view base, std::string_view delta) {
    if (!base.starts_with('!')) return apply_delta(base, delta);
    if (base == "!make another file") return std::string("another file");
    PhotoCost cost;
    const Result<Image> done = decode("", base, {}, nullptr, cost);
    return done.ok() ? Result<std::string>(std::string("done")) : done.status();
  }

 private:
  Result<Image> poison() {
    poisoned_ = true;
    return Image(1, 1);
  }

  bool poisoned_ = false;
  const std::string inherited_ = inherited();
  const std::map<std::string, std::function<Result<Image>()>, std::less<>> acts_ = {
      {"read a file", [] { return outcome(open("/etc/passwd", O_RDONLY)); }},
      {"write a file",
       [] { return outcome(open("/tmp/ndtrain-hostile", O_WRONLY | O_CREAT, 0600)); }},
      {"list a directory", [] { return outcome(open("/", O_RDONLY | O_DIRECTORY)); }},
      {"make a socket", [] { return outcome(socket(AF_INET, SOCK_STREAM, 0)); }},
      {"make a local socket", [] { return outcome(socket(AF_UNIX, SOCK_STREAM, 0)); }},
      {"fork", [] { return outcome(fork()); }},
      {"vfork", [] { return outcome(syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)); }},
      {"exec", [] { return outcome(execl("/bin/true", "true", nullptr)); }},
      {"kill its owner", [] { return outcome(kill(getppid(), SIGTERM)); }},
      {"trace its owner", [] { return outcome(ptrace(PTRACE_SEIZE, getppid(), nullptr, 0)); }},
      {"run memory", executable_memory},
      {"raise its limits", [] { return outcome(setuid(0)); }},
      {"write to the log", [] { return outcome(write(STDERR_FILENO, "it is I\n", 8)); }},
      {"read what it has not", [] { return outcome(read(STDIN_FILENO, nullptr, 0)); }},
      {"begin a thread",
       [] {
         std::thread([] {}).join();
         return Image(1, 1);
       }},
      {"hang",
       []() -> Result<Image> {
         while (true) sched_yield();
       }},
      {"crash", []() -> Result<Image> { raise(SIGSEGV), std::abort(); }},
      {"abort", []() -> Result<Image> { std::abort(); }},
      {"leave", []() -> Result<Image> { _exit(0); }},
      {"throw", []() -> Result<Image> { throw Error("thrown"); }},
      {"take 1 GiB", [] { return take_memory(size_t{1} << 30); }},
      {"poison", [this] { return poison(); }},
      {"what it was given", [this] { return Status(Code::kUnsupported, inherited_); }},
      {"answer 0 pixels", [] { return say(image_of(0, 0, 0, 0)); }},
      {"answer too many pixels", [] { return say(image_of(1 << 20, 1 << 20, 3ULL << 40, 1)); }},
      {"answer other bytes", [] { return say(image_of(2, 2, 13, 13)); }},
      {"answer a wrong part", [] { return say(image_of(2, 2, 12, 0xffffffff)); }},
      {"answer no part", [] { return say(image_of(2, 2, 12, 0)); }},
      {"answer a success without pixels",
       [] { return say({.kind = WorkerRecord::kRefusal, .code = 0}); }},
      {"answer a long refusal",
       [] {
         return say({.kind = WorkerRecord::kRefusal,
                     .part = 1 << 30,
                     .total = 1 << 30,
                     .code = static_cast<uint32_t>(Code::kCorrupt)});
       }},
      {"answer another crop", [] { return say(image_of(1, 2, 6, 6)); }},
      {"answer nonsense", [] { return say({.kind = 77}); }},
      {"answer a piece", say_a_piece},
  };
};

}  // namespace
}  // namespace ndtrain::ndp

int main(int argc, char** argv) {
  using namespace ndtrain::ndp;  // NOLINT: main has to live outside
  const std::string_view word = argc == 2 ? argv[1] : "";
  signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit
  HostileDecoder decoder;
  if (word == kDecodeWorker) return serve_decoding(decoder);
  if (word != kModelWorker) return 2;
  return serve_importing(
      {.importer = [&](std::string file) { decoder.import(std::move(file)); },
       .applier = [&](std::string_view base,
                      std::string_view delta) { return decoder.apply(base, delta); }});
}
