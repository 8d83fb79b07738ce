#include "ndp/jobs/run_directory.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/named_lock.h"
#include "framework/core/publish.h"
#include "framework/core/utc_text.h"
#include "ndp/jobs/tfevents.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kResults = "results.csv";
constexpr const char* kLock = "lock";
constexpr const char* kCsvHeader =
    "epoch,train_loss,train_top1,val_loss,val_top1,val_top5,lr,seconds,train_top5\n";

std::string to_csv(const EpochRow& r) {
  const std::string val =
      r.val ? fmt::format("{:.6f},{:.6f},{:.6f}", r.val->loss, r.val->top1, r.val->top5) : ",,";
  const std::string top5 = r.train_top5 ? fmt::format("{:.6f}", *r.train_top5) : "";
  return fmt::format("{},{:.6f},{:.6f},{},{:.8g},{:.3f},{}\n", r.epoch, r.train_loss, r.train_top1,
                     val, r.lr, r.seconds, top5);
}

}  // namespace

Json to_json(const EpochRow& r) {
  Json j = {{"epoch", r.epoch}, {"train_loss", r.train_loss}, {"train_top1", r.train_top1}};
  if (r.train_top5) j["train_top5"] = *r.train_top5;
  if (r.val) {
    j["val_loss"] = r.val->loss;
    j["val_top1"] = r.val->top1;
    j["val_top5"] = r.val->top5;
  }
  j["lr"] = r.lr;
  j["seconds"] = r.seconds;
  return j;
}

std::string metrics_line(const EpochRow& row) { return checksummed(to_json(row), -1); }

namespace {

// Throws where the line is none that was written.
EpochRow parse_row(std::string_view line) {
  const Json j = verified(line);
  const auto number = [&](const char* key) { return j.value(key, 0.0); };
  EpochRow row{.epoch = j.at("epoch").get<int64_t>(),
               .train_loss = number("train_loss"),
               .train_top1 = number("train_top1"),
               .train_top5 = std::nullopt,
               .val = std::nullopt,
               .lr = number("lr"),
               .seconds = number("seconds")};
  if (j.contains("train_top5")) row.train_top5 = number("train_top5");
  if (j.contains("val_loss")) {
    row.val = {.loss = number("val_loss"), .top1 = number("val_top1"), .top5 = number("val_top5")};
  }
  return row;
}

}  // namespace

std::vector<EpochRow> parse_metrics(std::string_view jsonl, int64_t* damaged) {
  std::vector<EpochRow> rows;
  while (!jsonl.empty()) {
    const size_t end = jsonl.find('\n');
    if (end == std::string_view::npos) break;  // a torn line
    try {
      rows.push_back(parse_row(jsonl.substr(0, end)));
    } catch (const std::exception&) {  // Error, or one of the parser
      if (damaged) ++*damaged;
    }
    jsonl.remove_prefix(end + 1);
  }
  return rows;
}

RunDirectory::RunDirectory(Fs& fs, Clock& clock, std::string path, bool resume)
    : fs_(fs), clock_(clock), path_(std::move(path)), resume_(resume) {
  check_use();
  make();
  lock();
  check_use();  // somebody may have begun one meanwhile
  if (is_there(kMetrics)) {
    const std::string old = fs_.read(file(kMetrics)).or_throw();
    int64_t damaged = 0;
    epochs_ = parse_metrics(old, &damaged);
    if (damaged > 0) {
      log::warn("{}: {} of its rows are damaged and left out; put back a backup, or leave the gap",
                file(kMetrics), damaged);
    }
    // A torn last line of a killed run would run into the next row.
    std::string whole;
    for (const EpochRow& r : epochs_) whole += metrics_line(r);
    if (whole != old) write(kMetrics, whole);
  }
  // Earlier versions had fewer columns.
  if (const Result<std::string> old = fs_.read(file(kResults));
      old.ok() && !old->starts_with(kCsvHeader)) {
    std::string whole = kCsvHeader;
    for (const EpochRow& r : epochs_) whole += to_csv(r);
    write(kResults, whole);
  }
  if (const Result<std::vector<std::string>> names = fs_.list(path_); names.ok()) {
    for (const std::string& name : *names) {
      if (name.starts_with("events.out.tfevents.")) events_name_ = name;
    }
  }
}

// Throws Error when nobody can tell: what is taken for absent is written anew.
bool RunDirectory::is_there(const std::string& name) const {
  const Status s = fs_.info(file(name)).status();
  if (s.code() == Code::kNotFound) return false;
  s.or_throw();
  return true;
}

void RunDirectory::check_use() const {
  const bool used = is_there("args.toml");
  if (used && !resume_) {
    throw Error(path_, " holds a run already; give --resume to go on with it, or another -o");
  }
  if (resume_ && !used)
    throw Error(path_, " holds no run to resume; leave --resume out to start one");
}

void RunDirectory::make() {
  std::vector<std::string> lacking;
  for (std::string at = path_; !at.empty() && !fs_.exists(at); at = parent_of(at)) {
    lacking.push_back(at);
  }
  fs_.make_directories(path_).or_throw();
  made_.assign(lacking.rbegin(), lacking.rend());
}

void RunDirectory::lock() {
  const bool there = is_there(kLock);
  Result<std::unique_ptr<FileLock>> held = lock_as(fs_, file(kLock), "trains " + path_);
  if (held.status().code() == Code::kExists) {
    throw Error("a process is at work on this run: ", held.status().message(),
                "; wait until it ends or stop it, or give another -o");
  }
  if (!there) written_.insert(kLock);
  if (held.ok()) {
    lock_ = std::move(*held);
  } else {  // a file system that knows no locks, say
    log::warn("{}; see to it that no other process writes this run", held.status().message());
  }
}

void RunDirectory::abandon() {
  if (resume_) return;
  for (const std::string& name : written_) static_cast<void>(fs_.remove(file(name)).ok());
  lock_.reset();
  for (auto it = made_.rbegin(); it != made_.rend(); ++it) {
    static_cast<void>(fs_.remove(*it).ok());
  }
}

void RunDirectory::write(const std::string& name, std::string_view bytes) {
  written_.insert(name);
  const Status s = publish(fs_, file(name), bytes);
  if (s.code() == Code::kNoSpace) {
    throw Error(s.message(),
                ": free some space, then go on with --resume; nothing written before is lost");
  }
  s.or_throw();
}

void RunDirectory::append(const std::string& name, std::string_view bytes) {
  Result<std::unique_ptr<File>> f = fs_.open(file(name), Fs::Mode::kAppend);
  f.status().or_throw();
  const int64_t end = (*f)->size().or_throw();
  if (const Status s = (*f)->append(std::as_bytes(std::span(bytes))); !s.ok()) {
    // A part would run into the next row.
    static_cast<void>((*f)->truncate(end).ok());
    s.or_throw();
  }
}

// Durable on return: the checkpoint that follows counts on this row.
void RunDirectory::add_metrics(std::string_view line) {
  if (!is_there(kMetrics)) return write(kMetrics, line);
  append(kMetrics, line);
  const auto metrics = fs_.open(file(kMetrics), Fs::Mode::kAppend);
  metrics.status().or_throw();
  (*metrics)->sync();
}

void RunDirectory::add_epoch(const EpochRow& row) {
  const bool there =
      std::ranges::any_of(epochs_, [&](const EpochRow& r) { return r.epoch == row.epoch; });
  if (there) return;
  add_metrics(metrics_line(row));
  if (!is_there(kResults)) append(kResults, kCsvHeader);
  append(kResults, to_csv(row));
  const auto now = static_cast<double>(clock_.unix_seconds());
  if (events_name_.empty()) {
    events_name_ = fmt::format("events.out.tfevents.{}.ndtrain", clock_.unix_seconds());
    append(events_name_, tfevents_header(now));
  }
  std::string events;
  const auto add = [&](const char* tag, double value) {
    events += tfevents_scalar(now, row.epoch, tag, static_cast<float>(value));
  };
  add("loss/train", row.train_loss);
  add("top1/train", row.train_top1);
  if (row.train_top5) add("top5/train", *row.train_top5);
  if (row.val) {
    add("loss/val", row.val->loss);
    add("top1/val", row.val->top1);
    add("top5/val", row.val->top5);
  }
  add("lr", row.lr);
  append(events_name_, events);
  epochs_.push_back(row);
}

std::string RunDirectory::env_json() const {
  utsname u{};
  uname(&u);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return json_text(Json{{"host", host},
                        {"system", fmt::format("{} {} {}", u.sysname, u.release, u.machine)},
                        {"cores", std::thread::hardware_concurrency()},
                        {"started", utc_text(clock_.unix_seconds())}},
                   2) +
         "\n";
}

}  // namespace ndtrain::ndp
