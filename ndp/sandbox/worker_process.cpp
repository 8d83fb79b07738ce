#include "ndp/sandbox/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>
#include <thread>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/limits.h"
#include "framework/core/text.h"
#include "ndp/deltas/delta.h"
#include "ndp/sandbox/decode_worker.h"
#include "ndp/sandbox/model_worker.h"
#include "ndp/sandbox/worker_start.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kWithout = "; --sandbox off does without";

struct TaskNames {
  std::string_view word;  // that a program is called with
  std::string a_worker, actor;
};
const TaskNames& names_of(WorkerTask task) {
  static const TaskNames decode{kDecodeWorker, "a decode worker", "decoder"},
      importing{kModelWorker, "a model worker", "importer"};
  return task == WorkerTask::kDecode ? decode : importing;
}

Status failed(WorkerTask task, const char* what, int error) {
  return {Code::kIo, names_of(task).a_worker + " cannot be started: " + what + ": " +
                         std::strerror(error) + kWithout};
}

// Its size is fixed: who has mapped it is not cut off from it by another who makes it smaller.
int make_window() {
  const int fd = memfd_create("ndtrain-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return fd;
  if (ftruncate(fd, static_cast<off_t>(kWindowBytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Away from the numbers that it is given to the worker by.
int moved_up(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, kWorkerWindow + 1); }

// Nothing of this process's but where libraries are, and what sanitizers were told; a time zone
// that is in no file.
std::vector<std::string> environment() {
  std::vector<std::string> all = {"TZ=UTC0"};
  for (const char* name : {"LD_LIBRARY_PATH", "LIBHEIF_PLUGIN_PATH", "ASAN_OPTIONS",
                           "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) all.push_back(std::string(name) + "=" + value);
  }
  return all;
}

std::vector<char*> as_pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// 0, or what went wrong.
int spawn_worker(const WorkerProcess::Config& config, int socket, int window, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  posix_spawn_file_actions_adddup2(&actions, window, kWorkerWindow);
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerWindow + 1);
  std::vector<std::string> words = {"ndtrain", std::string(names_of(config.task).word)},
                           known = environment();
  const int error = posix_spawn(&pid, config.program.c_str(), &actions, nullptr,
                                as_pointers(words).data(), as_pointers(known).data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool is_sensible(const WorkerRecord& image, const Preprocess* crop) {
  if (image.width < 1 || image.height < 1 || image.width > limits::kPhotoSide ||
      image.height > limits::kPhotoSide ||
      int64_t{image.width} * image.height > limits::kPhotoPixels) {
    return false;
  }
  if (crop != nullptr && (image.width != crop->img_size || image.height != crop->img_size)) {
    return false;
  }
  return image.total == uint64_t{3} * static_cast<uint64_t>(image.width) *
                            static_cast<uint64_t>(image.height) &&
         image.warnings >= 0;
}

// Codes with which a worker refuses a photo or a model.
bool is_refusal(uint32_t code) {
  for (const Code c : {Code::kCorrupt, Code::kTooLarge, Code::kUnsupported}) {
    if (code == static_cast<uint32_t>(c)) return true;
  }
  return false;
}

WorkerRecord record_of(const std::string& name, const DecodeOptions& options,
                       const Preprocess* crop) {
  WorkerRecord r{.kind = WorkerRecord::kPhoto, .min_shorter_side = options.min_shorter_side};
  const std::string extension = extension_of(name);
  if (extension.size() < sizeof r.extension) {  // longer ones are no format's
    std::memcpy(r.extension, extension.data(), extension.size());
  }
  if (crop == nullptr) return r;
  r.crop = 1;
  r.img_size = crop->img_size;
  r.resize = crop->resize;
  r.interpolation = static_cast<uint32_t>(crop->interpolation);
  r.squash = crop->squash;
  return r;
}

// Each line of `text` by itself: what is wrong with a model is a list.
std::string printable_lines(const std::string& text, size_t most) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    all += (all.empty() ? "" : "\n") + printable(line, most);
  }
  return all;
}

double seconds(double told) { return told >= 0 && told < 1e6 ? told : 0; }

}  // namespace

std::string_view name_of(WorkerEnd end) {
  switch (end) {
    case WorkerEnd::kNone:
      break;
    case WorkerEnd::kForbidden:
      return "forbidden";
    case WorkerEnd::kCrashed:
      return "crashed";
    case WorkerEnd::kHung:
      return "hung";
    case WorkerEnd::kLied:
      return "lied";
    case WorkerEnd::kKilled:
      return "killed";
  }
  return "alive";
}

WorkerProcess::WorkerProcess(const Config& config, int socket, std::byte* window, pid_t pid)
    : config_(config), socket_(socket), window_(window), pid_(pid), channel_(socket, window) {}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) kill(pid_, SIGKILL);
  reap();
  munmap(window_, kWindowBytes);
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const Config& config) {
  Result<std::unique_ptr<WorkerProcess>> worker = spawn(config);
  if (!worker.ok()) return worker;
  // Its end of the socket is its alone by now, so that it is heard when it ends.
  if (Status s = (*worker)->begin(); !s.ok()) return s;
  return worker;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::spawn(const Config& config) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return failed(config.task, "socketpair", errno);
  }
  const Descriptor theirs_low(ends[1]), theirs(moved_up(ends[1])), window_low(make_window());
  const Descriptor window(window_low ? moved_up(window_low.get()) : -1);
  void* mapped =
      window ? mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, window.get(), 0)
             : MAP_FAILED;
  const int why = errno;
  pid_t pid = 0;
  if (!theirs || mapped == MAP_FAILED) {
    close(ends[0]);
    if (mapped != MAP_FAILED) munmap(mapped, kWindowBytes);
    return failed(config.task, "its socket and its window", why);
  }
  if (const int error = spawn_worker(config, theirs.get(), window.get(), pid); error != 0) {
    close(ends[0]);
    munmap(mapped, kWindowBytes);
    return failed(config.task, config.program.c_str(), error);
  }
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(config, ends[0], static_cast<std::byte*>(mapped), pid));
}

Status WorkerProcess::begin() {
  const auto deadline = std::chrono::steady_clock::now() + config_.deadline;
  const bool told = channel_.send({.kind = WorkerRecord::kLimits,
                                   .memory = config_.limits.memory,
                                   .cpu_seconds = config_.limits.cpu_seconds,
                                   .filter = config_.limits.filter,
                                   .landlock = config_.limits.landlock});
  const std::optional<WorkerRecord> answer = told ? channel_.receive(deadline) : std::nullopt;
  const std::optional<std::string> text = answer ? text_of(*answer) : std::nullopt;
  if (!text || answer->kind != WorkerRecord::kReady) {
    finish(deadline);
    return {Code::kIo, names_of(config_.task).a_worker + " (" + config_.program +
                           ") does not begin: " + (text && !text->empty() ? *text : how_) +
                           kWithout};
  }
  confinement_ = {.landlock = static_cast<int>(answer->landlock),
                  .filter = answer->filter != 0,
                  .memory = answer->limited != 0};
  if (!text->empty()) confinement_.missing.push_back(*text);
  return {};
}

std::optional<Result<Image>> WorkerProcess::decode(const std::string& name, std::string_view file,
                                                   const DecodeOptions& options,
                                                   const Preprocess* crop, PhotoCost& cost) {
  const auto deadline = std::chrono::steady_clock::now() + config_.deadline;
  ++photos_;
  const std::optional<WorkerRecord> answer = ask(record_of(name, options, crop), file, deadline);
  std::optional<Result<Image>> image;
  if (answer) image = image_of(*answer, crop, deadline, cost);
  if (!image) finish(deadline);
  return image;
}

std::optional<Status> WorkerProcess::try_model(std::string_view file) {
  const auto deadline = std::chrono::steady_clock::now() + config_.deadline;
  const std::optional<WorkerRecord> answer = ask({.kind = WorkerRecord::kModel}, file, deadline);
  if (answer && answer->kind == WorkerRecord::kImported) return Status();
  std::optional<Status> refused;
  if (answer) refused = refusal_in(*answer);
  if (!refused) finish(deadline);
  return refused;
}

std::optional<Result<std::string>> WorkerProcess::apply(std::string_view base,
                                                        std::string_view delta) {
  const auto deadline = std::chrono::steady_clock::now() + config_.deadline;
  const WorkerRecord task{.kind = WorkerRecord::kDelta, .base = base.size()};
  const std::optional<WorkerRecord> answer =
      ask(task, std::string(base) + std::string(delta), deadline);
  if (answer && answer->kind == WorkerRecord::kFile &&
      answer->total <= largest_result(base.size())) {
    std::string file(answer->total, '\0');
    if (channel_.receive_all(*answer, std::as_writable_bytes(std::span(file)), deadline)) {
      return file;
    }
  } else if (answer) {
    if (std::optional<Status> refused = refusal_in(*answer)) return *std::move(refused);
  }
  finish(deadline);
  return std::nullopt;
}

std::optional<WorkerRecord> WorkerProcess::ask(const WorkerRecord& record, std::string_view file,
                                               WorkerChannel::Time deadline) {
  if (!channel_.send_all(record, std::as_bytes(std::span(file)), deadline)) return std::nullopt;
  return channel_.receive(deadline);
}

std::optional<Result<Image>> WorkerProcess::image_of(const WorkerRecord& answer,
                                                     const Preprocess* crop,
                                                     WorkerChannel::Time deadline,
                                                     PhotoCost& cost) {
  if (std::optional<Status> refused = refusal_in(answer)) return *std::move(refused);
  if (answer.kind != WorkerRecord::kImage || !is_sensible(answer, crop)) return std::nullopt;
  Image image(answer.width, answer.height);
  if (!channel_.receive_all(answer, std::as_writable_bytes(std::span(image.rgb)), deadline)) {
    return std::nullopt;
  }
  cost.warnings += answer.warnings;
  cost.decode_s += seconds(answer.decode_s);
  cost.resize_s += seconds(answer.resize_s);
  return image;
}

std::optional<Status> WorkerProcess::refusal_in(const WorkerRecord& answer) {
  if (answer.kind != WorkerRecord::kRefusal || !is_refusal(answer.code)) return std::nullopt;
  std::optional<std::string> why = text_of(answer);
  if (!why) return std::nullopt;
  return Status(static_cast<Code>(answer.code), *std::move(why));
}

std::optional<std::string> WorkerProcess::text_of(const WorkerRecord& answer) {
  if (answer.part != answer.total || answer.total > kRefusalBytes) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(window_), answer.part);
  return config_.task == WorkerTask::kImport ? printable_lines(text, kRefusalBytes)
                                             : printable(text, kRefusalBytes);
}

void WorkerProcess::finish(WorkerChannel::Time deadline) {
  const bool late = std::chrono::steady_clock::now() >= deadline;
  siginfo_t info{};
  // It may have closed its end and not have ended yet.
  constexpr std::chrono::milliseconds kMoment{1};
  constexpr int kMoments = 200;
  for (int i = 0; i < kMoments && !late && info.si_pid == 0; ++i) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid == 0) std::this_thread::sleep_for(kMoment);
  }
  if (late || info.si_pid == 0) {
    kill(pid_, SIGKILL);
    end_ = late ? WorkerEnd::kHung : WorkerEnd::kLied;
    how_ = late ? "it took longer than " +
                      std::to_string(
                          std::chrono::ceil<std::chrono::seconds>(config_.deadline).count()) +
                      " s and was ended"
                : "it answered what no " + names_of(config_.task).actor + " answers, and was ended";
  } else if (info.si_code == CLD_EXITED) {
    end_ = WorkerEnd::kCrashed;
    how_ = "it ended by itself, with status " + std::to_string(info.si_status);
  } else if (info.si_status == SIGSYS) {
    end_ = WorkerEnd::kForbidden;
    how_ = "it asked the kernel for what no " + names_of(config_.task).actor +
           " needs, and was ended (SIGSYS)";
  } else if (info.si_status == SIGKILL) {
    end_ = WorkerEnd::kKilled;
    how_ = "it was killed, by the kernel for lack of memory perhaps (SIGKILL)";
  } else {
    end_ = WorkerEnd::kCrashed;
    how_ = std::string("it crashed (SIG") + sigabbrev_np(info.si_status) + ")";
  }
  reap();
}

void WorkerProcess::reap() {
  if (pid_ <= 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

}  // namespace ndtrain::ndp
