#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cli/computing_args.h"
#include "cli/hosted_photos.h"
#include "cli/photo_fs.h"
#include "cli/role_args.h"
#include "cli/site.h"
#include "cli/verb.h"
#include "ndp/pipestore/store_photos.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

constexpr char kHttp[] = "127.0.0.1:8420";
constexpr int64_t kMostStores = 64;

std::vector<std::string> absolute_photos(Fs& fs, const std::vector<std::string>& photos) {
  std::vector<std::string> all;
  for (const HostedPhotos& p : hosted_photos_in(fs, photos)) {
    all.push_back(p.name + "=" + absolute_path(p.directory));
  }
  return all.empty() ? std::vector{absolute_path(photos.front())} : all;
}

// What is given goes over what the site was up with before.
SiteSettings settings_of(Fs& fs, const Args& args, const std::optional<SiteSettings>& before) {
  SiteSettings s = before.value_or(SiteSettings());
  const auto said = [&](const char* flag) { return !before || args.given(flag); };
  if (said("stores")) s.stores = args.integer("stores");
  if (s.stores < 1 || s.stores > kMostStores) {
    throw UsageError(fmt::format("--stores {}: 1 to {}", s.stores, kMostStores));
  }
  if (said("port")) s.port = args.integer("port");
  if (s.port < 0 || s.port > 65535) throw UsageError(fmt::format("--port {}: 0 to 65535", s.port));
  if (said("http")) s.http = args.required("http");
  if (s.http == "none") throw UsageError("--http none: the Tuner is asked over HTTP who is here");
  if (args.has("photos")) s.photos = absolute_photos(fs, args.list("photos"));
  if (said("labels")) s.labels = args.required("labels");
  if (s.labels != "folder" && s.labels != "none") s.labels = absolute_path(s.labels);
  check_hosted_photos(hosted_photos_in(fs, s.photos), fmt::format("store{}", s.stores), s.labels);
  if (said("loopback")) s.loopback = loopback_of(args);
  if (said("device")) s.device = args.text("device");
  if (said("threads")) s.threads = args.integer("threads");
  if (said("less-memory")) s.less_memory = args.on("less-memory");
  if (said("tf32")) s.tf32 = args.on("tf32");
  if (args.has("tuning")) s.tuning = absolute_path(args.text("tuning"));
  return s;
}

// Once for each directory in which it may be meant.
void say_where_folders_may_be_classes(Context& context, const Site& site) {
  if (site.settings().labels != "none") return;
  std::set<std::string> directories;
  for (int64_t i = 1; i <= site.settings().stores; ++i) {
    for (const std::string& photos : site.photos_of(i)) directories.insert(photos);
  }
  for (const std::string& photos : directories) {
    const std::string hint = class_folders_hint(context.fs(), photos);
    if (!hint.empty()) context.progress().say(photos + ": " + hint);
  }
}

// Nothing of what is repeated, or is another than before, without a word.
std::string about(const SiteSettings& now, const SiteSettings& before) {
  if (now == before) return "as before: " + now.text();
  std::string text = "from now on " + now.text() + ", before " + before.text();
  for (int64_t i = now.stores + 1; i <= before.stores; ++i) {
    text += fmt::format("{}store{}", i == now.stores + 1 ? "; jobs do without " : ", ", i);
  }
  return text + (now.stores < before.stores ? " (ndtrain store forget)" : "");
}

std::string next_commands(Fs& fs, const Site& site) {
  const std::vector<HostedPhotos> several = hosted_photos_in(fs, site.settings().photos);
  const std::string of = several.empty() ? "" : " --collection " + several.front().name;
  const std::string http = site.http() == kHttp ? "" : " --http " + site.http();
  std::string text = fmt::format(
      "\nNow for example:\n"
      "  http://{2}/ in a browser\n"
      "  ndtrain store ls{0}\n"
      "  ndtrain job submit finetune -m MODEL.onnx --head linear --follow{3}{0}\n"
      "  ndtrain job submit relabel --follow{3}{0}\n"
      "  ndtrain labels query --db sqlite:{1}/tuner/labels.db\n"
      "  ndtrain down {1}\n",
      http, site.path(), site.http(), of);
  return text;
}

Json names_of(const std::vector<Site::Member>& members) {
  Json names = Json::array();
  for (const Site::Member& m : members) names.push_back(m.name);
  return names;
}

}  // namespace

void declare_up(ArgsSpec& args) {
  args.positional(
      "DIR",
      "state, logs and up.json are kept here; flags that are not given are as they were "
      "when it was up before");
  args.flag("stores", "how many PipeStores", "N", "2");
  args.flag(
      "photos",
      "a directory that they share, each a part of it (default: DIR/storeN/photos); NAME=DIR, "
      "once for each of several: photos of the collection NAME",
      "[NAME=]DIR");
  args.flag("labels",
            "what photos show: none; folder, the name of the first directory on their path; or a "
            "CSV file,class",
            "WHAT", "none");
  args.flag("port", "where the PipeStores dial; 0: any that is free", "PORT", "25258");
  args.flag("http", "where people and tools ask; port 0: any that is free", "HOST:PORT", kHttp);
  declare_loopback(args);
  declare_computing(args);
}

int run_up(Context& context, const Args& args) {
  (void)settings_of(context.fs(), args, {});  // throws before anything is made
  refuse_object_stores({args.required("DIR")});
  Site site(context.fs(), args.required("DIR"), true);
  const std::optional<SiteSettings> before = site.before();
  const SiteSettings settings = settings_of(context.fs(), args, before);
  if (before && (settings == *before || !site.is_running())) {
    context.progress().say(about(settings, *before));
  }
  const bool up = site.start(settings, told_to_stop,
                             [&](const std::string& line) { context.progress().say(line); });
  if (!up) return kInterrupted;
  say_where_folders_may_be_classes(context, site);
  Json members = Json::array();
  std::string text =
      fmt::format("{} {}, the Tuner on {}, HTTP on {}\n\n", site.path(),
                  site.started() > 0 ? "is up" : "was up already", site.listen(), site.http());
  for (size_t i = 0; i < site.members().size(); ++i) {
    const Site::Member& m = site.members()[i];
    members.push_back({{"name", m.name}, {"pid", m.process.pid}, {"log", m.log}});
    text += fmt::format("  {:<9} pid {:<8} {}\n", m.name, m.process.pid, m.log);
  }
  if (settings.photos.empty()) {
    text += fmt::format("\nPhotos go to {} and so on{}.\n", site.photos_of(1).front(),
                        settings.labels == "folder" ? ", a directory per class" : "");
  }
  context.print({{"directory", site.path()},
                 {"listen", site.listen()},
                 {"http", site.http()},
                 {"started", site.started()},
                 {"members", members}},
                text + next_commands(context.fs(), site));
  return kOk;
}

void declare_down(ArgsSpec& args) { args.positional("DIR", "what ndtrain up was given"); }

int run_down(Context& context, const Args& args) {
  Site site(context.fs(), args.required("DIR"), false);
  const bool nothing = site.members().empty();
  const Site::Stopped s = site.stop();
  std::string text = nothing ? "nothing is up in " + site.path() + "\n" : "";
  for (const Site::Member& m : s.gone) {
    text += fmt::format("{} had ended before; {} says why\n", m.name, m.log);
  }
  for (const Site::Member& m : s.stopped) text += m.name + " has stopped\n";
  for (const Site::Member& m : s.running) {
    text += fmt::format(
        "{0} has not stopped yet; ndtrain down {1} waits again, kill -9 {2} ends it at once (what "
        "it has acknowledged is safe)\n",
        m.name, site.path(), m.process.pid);
  }
  context.print({{"directory", site.path()},
                 {"stopped", names_of(s.stopped)},
                 {"gone", names_of(s.gone)},
                 {"running", names_of(s.running)}},
                text);
  return s.running.empty() ? kOk : kFailed;
}

}  // namespace ndtrain::cli
