#include "backends/plugin/tuning_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "backends/plugin/answer.h"

namespace ndtrain::plugin {
namespace {

constexpr std::string_view kHeading = "ndtrain tuning 1\n";
constexpr std::string_view kChoice = " choice=", kRule = " rule=";

std::string remedy(const std::string& path) { return "ndtrain tune -m MODEL --tuning " + path; }

[[noreturn]] void failed(const std::string& what) { invalid(what, ": ", std::strerror(errno)); }

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags, 0666)) {
    if (fd_ < 0) failed("cannot write the tuning file " + path);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// "KEY choice=WORD rule=WORD"; false where the line is not that.
bool add_line(const std::string& line, TunedChoices& choices) {
  const size_t rule = line.rfind(kRule);
  const size_t choice = rule == line.npos ? rule : line.rfind(kChoice, rule);
  if (choice == line.npos) return false;
  const TunedChoice found{line.substr(choice + kChoice.size(), rule - choice - kChoice.size()),
                          line.substr(rule + kRule.size())};
  return choices.emplace(line.substr(0, choice), found).second;
}

std::string end_line(size_t lines, std::string_view before) {
  return text_of("end ", lines, ' ', text_of_digest(digest_of(before)), '\n');
}

std::string text_of_choices(const TunedChoices& choices) {
  std::string text(kHeading);
  for (const auto& [key, c] : choices) {
    text += text_of(key, kChoice, c.choice, kRule, c.rule, '\n');
  }
  return text + end_line(choices.size(), text);
}

// False where the text was not written by text_of_choices().
bool parse(const std::string& text, TunedChoices& choices) {
  const size_t end = text.rfind('\n', text.size() - 2) + 1;
  std::istringstream lines(text.substr(0, end));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    if (!add_line(line, choices)) return false;
  }
  return text.substr(end) == end_line(choices.size(), std::string_view(text).substr(0, end));
}

void write_whole(const std::string& path, const std::string& text) {
  const std::string draft = path + "." + std::to_string(getpid());
  try {
    const Descriptor file(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
      if (n < 0 && errno != EINTR) failed("cannot write the tuning file " + draft);
      if (n > 0) done += static_cast<size_t>(n);
    }
    if (::fsync(file.get()) != 0) failed("cannot write the tuning file " + draft);
    if (std::rename(draft.c_str(), path.c_str()) != 0) {
      failed("cannot replace the tuning file " + path);
    }
  } catch (...) {
    std::remove(draft.c_str());
    throw;
  }
}

}  // namespace

TunedChoices read_tuning_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    invalid("cannot read the tuning file ", path, ": ", std::strerror(errno), "; ", remedy(path),
            " makes it");
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (!text.str().starts_with(kHeading)) {
    invalid(path, " is not a tuning file: it does not begin with \"",
            kHeading.substr(0, kHeading.size() - 1), "\"; ", remedy("FILE"), " makes one");
  }
  TunedChoices choices;
  if (!parse(text.str(), choices)) {
    invalid("the tuning file ", path, " was changed or cut since it was written: remove it, and ",
            remedy(path), " makes it anew");
  }
  return choices;
}

void add_to_tuning_file(const std::string& path, const TunedChoices& more) {
  const Descriptor lock(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC);
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) failed("cannot lock the tuning file " + path);
  }
  TunedChoices all;
  if (::access(path.c_str(), F_OK) == 0) all = read_tuning_file(path);
  for (const auto& [key, choice] : more) all.insert_or_assign(key, choice);
  write_whole(path, text_of_choices(all));
}

uint64_t digest_of(std::string_view text) {
  uint64_t digest = 14695981039346656037U;  // FNV-1a
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return digest;
}

std::string text_of_digest(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

}  // namespace ndtrain::plugin
