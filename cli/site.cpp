#include "cli/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <thread>

#include "cli/hosted_photos.h"
#include "cli/tuner_client.h"
#include "framework/core/publish.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr auto kPause = std::chrono::milliseconds(50);
constexpr auto kSayEvery = std::chrono::seconds(10);
constexpr auto kStopPatience = std::chrono::seconds(60);  // with what was told to stop

// Asks all, and waits for them; not for ever.
void stop_all(std::vector<Site::Member> members) {
  for (const Site::Member& m : members) ask_to_stop(m.process);
  const auto until = std::chrono::steady_clock::now() + kStopPatience;
  while (std::chrono::steady_clock::now() < until) {
    std::erase_if(members, [](const Site::Member& m) { return !is_running(m.process); });
    if (members.empty()) return;
    std::this_thread::sleep_for(kPause);
  }
}

Json to_json(const SiteSettings& s) {
  return {{"stores", s.stores},   {"photos", s.photos},           {"labels", s.labels},
          {"http", s.http},       {"device", s.device},           {"port", s.port},
          {"threads", s.threads}, {"less_memory", s.less_memory}, {"tf32", s.tf32},
          {"tuning", s.tuning},   {"loopback", s.loopback}};
}

// Older files have one, or "" for none.
std::vector<std::string> directories_from(const Json& j) {
  if (j.is_array()) return j;
  const auto one = j.get<std::string>();
  return one.empty() ? std::vector<std::string>() : std::vector{one};
}

SiteSettings settings_from(const Json& j) {
  return {.stores = j.at("stores"),
          .photos = directories_from(j.at("photos")),
          .labels = j.at("labels"),
          .http = j.at("http"),
          .device = j.at("device"),
          .port = j.at("port"),
          .threads = j.at("threads"),
          .less_memory = j.value("less_memory", false),  // absent in older files
          .tf32 = j.value("tf32", false),
          .tuning = j.value("tuning", ""),
          .loopback = j.value("loopback", "own")};
}

}  // namespace

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

std::string SiteSettings::text() const {
  const SiteSettings plain;
  std::string text = fmt::format("--stores {}", stores);
  const auto add = [&](const char* flag, const auto& value, const auto& usual) {
    if (value != usual) text += fmt::format(" --{} {}", flag, value);
  };
  for (const std::string& p : photos) text += " --photos " + p;
  add("labels", labels, std::string("none"));
  add("http", http, std::string("127.0.0.1:8420"));
  add("port", port, int64_t{25258});
  add("device", device, plain.device);
  add("threads", threads, plain.threads);
  add("tuning", tuning, plain.tuning);
  add("loopback", loopback, plain.loopback);
  if (less_memory) text += " --less-memory";
  if (tf32) text += " --tf32";
  return text;
}

Site::Site(Fs& fs, const std::string& directory, bool make)
    : fs_(fs), path_(absolute_path(directory)) {
  if (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  if (!make && !fs_.exists(path_)) return;
  fs_.make_directories(path_).or_throw();
  Result<std::unique_ptr<FileLock>> lock = fs_.lock(file("up.lock"));
  if (lock.status().code() == Code::kExists) {
    throw Error("another ndtrain up or down is at work on ", path_);
  }
  lock.status().or_throw();
  lock_ = std::move(*lock);
  load();
}

void Site::load() {
  const std::string kept = file("site.json");
  if (const Result<std::string> text = fs_.read(kept); text.ok()) {
    try {
      before_ = settings_from(parse_json(*text));
    } catch (const Json::exception& e) {
      throw Error(kept, ": is not what ndtrain up wrote: ", e.what(), "; remove it to begin anew");
    }
  } else if (text.status().code() != Code::kNotFound) {
    text.status().or_throw();
  }
  const Result<std::string> text = fs_.read(file("up.json"));
  if (text.status().code() == Code::kNotFound) return;
  text.status().or_throw();
  try {
    const Json json = parse_json(*text);
    settings_ = settings_from(json.at("settings"));
    before_ = settings_;
    listen_ = json.at("listen");
    http_ = json.at("http");
    for (const Json& m : json.at("members")) {
      members_.push_back({m.at("name"), m.at("log"), {m.at("pid"), m.at("began")}});
    }
  } catch (const Json::exception& e) {
    throw Error(file("up.json"), ": is not what ndtrain up wrote: ", e.what());
  }
}

void Site::save() const {
  Json members = Json::array();
  for (const Member& m : members_) {
    members.push_back(
        {{"name", m.name}, {"log", m.log}, {"pid", m.process.pid}, {"began", m.process.began}});
  }
  const Json json = {
      {"settings", to_json(settings_)}, {"listen", listen_}, {"http", http_}, {"members", members}};
  publish(fs_, file("up.json"), json_text(json, 2) + "\n").or_throw();
}

bool Site::is_running() const {
  return std::ranges::any_of(members_, [](const Member& m) { return cli::is_running(m.process); });
}

const Site::Member* Site::running_member(const std::string& name) const {
  const auto it = std::ranges::find(members_, name, &Member::name);
  return it != members_.end() && cli::is_running(it->process) ? &*it : nullptr;
}

std::vector<std::string> Site::photos_of(int64_t store) const {
  if (settings_.photos.empty()) return {file(fmt::format("store{}/photos", store))};
  const std::vector<HostedPhotos> several = hosted_photos_in(fs_, settings_.photos);
  if (several.empty()) return settings_.photos;
  std::vector<std::string> all;
  for (const HostedPhotos& p : several) all.push_back(p.directory);
  return all;
}

std::vector<std::string> Site::store_names() const {
  const std::vector<HostedPhotos> several = hosted_photos_in(fs_, settings_.photos);
  std::vector<std::string> names;
  for (int64_t i = 1; i <= settings_.stores; ++i) {
    const std::string process = fmt::format("store{}", i);
    if (several.empty()) names.push_back(process);
    for (const HostedPhotos& p : several) names.push_back(store_in_process(p.name, process));
  }
  return names;
}

void Site::launch(const std::string& name, const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  all.push_back(fmt::format("--threads={}", settings_.threads));
  all.push_back("--loopback=" + settings_.loopback);
  if (!settings_.device.empty()) all.push_back("--device=" + settings_.device);
  if (settings_.less_memory) all.emplace_back("--less-memory");
  if (settings_.tf32) all.emplace_back("--tf32");
  if (!settings_.tuning.empty()) all.push_back("--tuning=" + settings_.tuning);
  const std::string log = file(name + ".log");
  const ProcessId process = start_in_background(all, log);
  std::erase_if(members_, [&](const Member& m) { return m.name == name; });
  members_.insert(name == "tuner" ? members_.begin() : members_.end(), {name, log, process});
  started_.push_back(name);
  save();  // at once, so that `down` finds it whatever happens to this process
}

void Site::launch_tuner() {
  const Result<FileInfo> log = fs_.info(file("tuner.log"));
  tuner_log_from_ = log.ok() ? log->size : 0;
  launch("tuner",
         {"tuner", "serve", "--listen=" + listen_, "--http=" + http_, "--state=" + file("tuner")});
}

void Site::launch_stores() {
  for (int64_t i = 1; i <= settings_.stores; ++i) {
    const std::string name = fmt::format("store{}", i);
    if (running_member(name)) continue;
    const bool own = settings_.photos.empty();
    const std::vector<std::string> photos = own ? photos_of(i) : settings_.photos;
    if (own) fs_.make_directories(photos.front()).or_throw();
    const int64_t n = own ? 1 : settings_.stores;
    std::vector<std::string> words = {"pipestore",
                                      "serve",
                                      "--name=" + name,
                                      "--tuner=" + listen_,
                                      "--state=" + file(name + "/state"),
                                      "--labels=" + settings_.labels,
                                      "--http=127.0.0.1:0",
                                      fmt::format("--shard={}/{}", n == 1 ? 0 : i - 1, n)};
    for (const std::string& p : photos) words.push_back("--photos=" + p);
    launch(name, words);
  }
}

std::string Site::said_last(const std::string& log) const {
  const Result<std::string> text = fs_.read(log);
  if (!text.ok()) return "";
  const size_t end = text->find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = text->rfind('\n', end);
  return text->substr(begin == std::string::npos ? 0 : begin + 1,
                      end - (begin == std::string::npos ? -1 : begin));
}

void Site::check_started() const {
  for (const std::string& name : started_) {
    const auto m = std::ranges::find(members_, name, &Member::name);
    if (!cli::is_running(m->process)) {
      throw Error(name, " has ended, having said: ", said_last(m->log), "\n(all of it is in ",
                  m->log, ")");
    }
  }
}

bool Site::await_tuner(const std::function<bool()>& stop) {
  static const std::regex kListens("listens on (\\S+), HTTP on (\\S+)\n");
  while (!stop()) {
    const std::string log = fs_.read(file("tuner.log")).or_throw();
    const std::string own = log.substr(static_cast<size_t>(tuner_log_from_));
    if (std::smatch m; std::regex_search(own, m, kListens)) {
      listen_ = m[1];
      http_ = m[2];
      save();
      return true;
    }
    check_started();
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

bool Site::await_stores(const std::function<bool()>& stop,
                        const std::function<void(const std::string&)>& say) const {
  const TunerClient tuner(http_);
  auto said = std::chrono::steady_clock::now();
  while (!stop()) {
    check_started();
    std::vector<std::string> away;
    const Json stores = tuner.get("/stores");
    for (const std::string& name : store_names()) {
      const bool here = std::ranges::any_of(
          stores, [&](const Json& s) { return s["store"] == name && s["here"].get<bool>(); });
      if (!here) away.push_back(name);
    }
    if (away.empty()) return true;
    if (std::chrono::steady_clock::now() - said > kSayEvery) {
      said = std::chrono::steady_clock::now();
      say(fmt::format("waits for {}, which said last: {}", away[0],
                      said_last(file(std::string(process_of(away[0])) + ".log"))));
    }
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

bool Site::start(const SiteSettings& settings, const std::function<bool()>& stop,
                 const std::function<void(const std::string&)>& say) {
  if (is_running()) {
    if (!(settings == settings_)) {
      throw Error(path_, " is up with other settings: ", settings_.text(), "; ndtrain down ", path_,
                  " first");
    }
  } else {
    settings_ = settings;
    members_.clear();
    listen_ = fmt::format("127.0.0.1:{}", settings.port);
    http_ = settings.http;
  }
  started_.clear();
  bool up = false;
  try {
    const bool tuner_runs = running_member("tuner");
    if (!tuner_runs) launch_tuner();
    up = tuner_runs || await_tuner(stop);
    if (up) launch_stores();
    up = up && await_stores(stop, say);
  } catch (const std::exception&) {
    undo();
    throw;
  }
  if (!up) {
    undo();
  } else if (before_ != settings_) {
    publish(fs_, file("site.json"), json_text(to_json(settings_), 2) + "\n").or_throw();
  }
  return up;
}

void Site::undo() {
  std::vector<Member> mine;
  for (const std::string& name : started_) {
    mine.push_back(*std::ranges::find(members_, name, &Member::name));
  }
  stop_all(mine);
  keep(mine);
}

// Of those that were asked to stop, what still runs; and of the others, all.
void Site::keep(const std::vector<Member>& asked) {
  std::erase_if(members_, [&](const Member& m) {
    return std::ranges::count(asked, m.name, &Member::name) > 0 && !cli::is_running(m.process);
  });
  if (!members_.empty()) return save();
  if (fs_.exists(file("up.json"))) fs_.remove(file("up.json")).or_throw();
}

Site::Stopped Site::stop() {
  Stopped result;
  std::vector<Member> running;
  for (const Member& m : members_) {
    (cli::is_running(m.process) ? running : result.gone).push_back(m);
  }
  stop_all(running);
  for (const Member& m : running) {
    (cli::is_running(m.process) ? result.running : result.stopped).push_back(m);
  }
  keep(std::vector<Member>(members_));
  return result;
}

}  // namespace ndtrain::cli
