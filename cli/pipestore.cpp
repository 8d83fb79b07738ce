#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "cli/computing_args.h"
#include "cli/hosted_photos.h"
#include "cli/photo_fs.h"
#include "cli/role_args.h"
#include "cli/state_place.h"
#include "cli/verb.h"
#include "framework/core/descriptor_limit.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/pipestore/daemon.h"
#include "ndp/rados/rados_url.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

void declare_rados(ArgsSpec& args) {
  args.flag("rados-osds",
            "of photos in RADOS those are here whose acting primary is one of these OSDs, as 0,1 "
            "(default: the OSDs at addresses of this host)",
            "IDS");
  args.flag("rados-labels",
            "labels by the version in force are written on the objects of photos in RADOS, as "
            "xattrs ndtrain.label and ndtrain.label.TASK, for other clients of Ceph");
}

void declare_store(ArgsSpec& args) {
  args.flag("photos",
            "the photos, a directory, s3://BUCKET/PREFIX or rados://POOL/NAMESPACE (required); "
            "NAME=DIR, once for each of several: each a store that is called NAME@ and this "
            "--name, with photos of the "
            "collection NAME, or of --collection where that is given",
            "[NAME=]DIR");
  args.flag("collection",
            "that the photos are in, for good: jobs, labels and tokens are of one; given with "
            "several --photos, all of them are in it, and --http shows no photos",
            "NAME", std::string(kDefaultCollection));
  args.flag(
      "state",
      "models, features, the list of photos and what people upload are kept here, not among "
      "the photos; where these are in S3 or RADOS, what people upload is put there (required)",
      "DIR");
  args.flag("name",
            "unique among the stores of a Tuner; where there are certificates, the name that its "
            "own is for (default: the host's name)",
            "NAME");
  args.flag(
      "labels",
      "what photos show: none, people or the label database will say; folder, the name of the "
      "first directory on their path; or a CSV file,class",
      "WHAT", "none");
  args.flag("http", "where people upload photos and tools ask: health, metrics", "HOST:PORT");
  args.flag("max-delay-ms",
            "an uploaded photo waits this long, at most, for others to be inferred with", "MS",
            "5");
  args.flag("max-upload", "the largest photo that may be uploaded", "BYTES", "32M");
  args.flag("upload-queue", "uploads in progress at a time; more are answered with 429", "N", "64");
  args.flag("quota", "uploads per second from one address; 0: any number", "N", "0");
  args.flag("cache-bytes",
            "features and crops kept on disk, of each collection (default: a tenth of the volume)",
            "BYTES");
  args.flag("compress-crops",
            "keep crops compressed, without loss: about half of the bytes; those that are there "
            "stay as they are");
  declare_rados(args);
  args.flag("shard", "a part of the photos, as 0/2 and 1/2: to try several stores on one directory",
            "I/N", "0/1");
  args.flag("no-watch",
            "do not follow the photo directory: photos that are put there are seen by the next job "
            "alone, and not labelled before");
  args.flag(
      "rescan",
      "seconds between looks through all of the photo directory, for what was not heard of; 0: "
      "only at the start (default: 600, on a network file system and in S3 60)",
      "SECONDS");
  declare_scrub(args,
                "all photos are read once in this time, uploads first, to find those that the disk "
                "has changed");
  args.flag("b,batch", "the most photos at a time", "N", "32");
  declare_sandbox(args,
                  "uploads, photos that people upload and models from the Tuner; all, photos of "
                  "--photos too");
  declare_security(args);
  declare_http_security(args);
}

void read_shard(const std::string& text, PipeStoreConfig& config) {
  unsigned i = 0, n = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%u/%u%c", &i, &n, &rest) != 2 || n < 1 || i >= n) {
    throw UsageError("--shard " + text + ": I/N with I from 0 to N-1");
  }
  config.shard = i;
  config.shards = n;
}

RadosScope rados_scope(const Args& args) {
  RadosScope scope{.all = false};
  if (!args.given("rados-osds")) return scope;
  const std::string& text = args.text("rados-osds");
  std::string_view rest = text;
  while (!rest.empty()) {
    int osd = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), osd);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const bool more = rest.starts_with(',') && rest.size() > 1;
    if (error != std::errc() || osd < 0 || (!rest.empty() && !more)) break;
    scope.osds.insert(osd);
    if (rest.empty()) return scope;
    rest.remove_prefix(1);
  }
  throw UsageError("--rados-osds " + text + ": numbers of OSDs, as 0,1");
}

// Of a directory or of S3 the flag would say nothing, without a word.
void demand_rados(const PipeStoreConfig& config, const char* flag) {
  const bool several = std::ranges::any_of(
      config.several, [](const HostedPhotos& p) { return is_rados_url(p.directory); });
  if (several || is_rados_url(config.photos)) return;
  throw UsageError(std::string("--") + flag + ": no --photos is in RADOS, rados://POOL/NAMESPACE");
}

void read_uploads(const Args& args, UploadConfig& config) {
  const auto at_least = [&](const char* flag, double value, double least) {
    if (value < least) {
      throw UsageError(fmt::format("--{} {}: at least {}", flag, args.text(flag), least));
    }
  };
  const double delay = args.number("max-delay-ms");
  at_least("max-delay-ms", delay, 0);
  at_least("upload-queue", args.number("upload-queue"), 1);
  at_least("quota", args.number("quota"), 0);
  config.online.max_delay = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(std::min(delay, 60'000.0)));
  config.most_bytes = static_cast<int64_t>(args.bytes("max-upload"));
  config.queue = static_cast<size_t>(args.integer("upload-queue"));
  config.quota = args.number("quota");
}

// Of several stores, or of the only one; the process's name is known.
void read_photos(Fs& fs, const Args& args, PipeStoreConfig& config) {
  (void)args.required("photos");
  const std::vector<std::string> all = args.list("photos");
  config.several = hosted_photos_in(fs, all);
  check_hosted_photos(config.several, config.name, config.labels);
  if (config.several.empty()) config.photos = all.front();
  config.one_collection = args.given("collection");
}

int serve(Context& context, const Args& args, const std::string& tuner) {
  PipeStoreConfig config;
  config.tuner = tuner;
  config.collection = args.required("collection");
  if (!wire::is_set_name(config.collection)) {
    throw UsageError(
        fmt::format("--collection '{}': from 1 to {} bytes of UTF-8 without control characters",
                    printable(config.collection, 256), wire::kSetNameBytes));
  }
  config.state = args.required("state");
  demand_directory_of_state(config.state, "only a Tuner that serves keeps its state in one");
  config.name = name_of_role(args, "store");
  config.labels = args.text("labels");
  const auto fs = photo_fs(context, rados_scope(args));
  config.rados = fs.get();
  read_photos(*fs, args, config);
  config.rados_labels = args.on("rados-labels");
  if (args.given("rados-osds")) demand_rados(config, "rados-osds");
  if (config.rados_labels) demand_rados(config, "rados-labels");
  config.http = args.text("http");
  config.drain = drain_of(args);
  config.cache_bytes = static_cast<int64_t>(args.bytes("cache-bytes"));
  config.compress_crops = args.on("compress-crops");
  config.batch = args.integer("batch");
  if (config.batch < 1) throw UsageError("--batch " + args.text("batch") + ": at least 1");
  read_shard(args.text("shard"), config);
  config.watch = !args.on("no-watch");
  if (args.has("rescan")) config.rescan = args.number("rescan");
  if (const double seconds = config.rescan.value_or(0); !(seconds >= 0 && seconds <= 1e9)) {
    throw UsageError("--rescan " + args.text("rescan") + ": from 0 to 1e9 seconds");
  }
  config.scrub = scrub_of(args);
  read_uploads(args, config.uploads);
  config.sandbox = sandbox_of(args);
  config.version = NDT_VERSION;
  config.read_security = [&] {
    return security_of_tuners(context, args, LinkRole::kStore, config.tuner);
  };
  config.security = config.read_security();
  config.read_http_security = [&](const LinkSecurity&) {
    return http_security_of(context, args, config.http, {});
  };
  config.http_security = config.read_http_security({});
  raise_descriptor_limit();
  Devices devices(context.device_name(), context.device_options());
  PipeStoreDaemon store(config, devices, *fs, context.clock());
  log::info(
      "PipeStore {} dials {}{}", config.name, config.tuner,
      store.http_address().empty()
          ? ""
          : (config.http_security.tls() ? ", HTTPS on " : ", HTTP on ") + store.http_address());
  store.run(told_to_stop);
  log::info("stopped");
  return kOk;
}

}  // namespace

void declare_pipestore_serve(ArgsSpec& args) {
  args.flag("tuner",
            "the Tuner to dial; with commas between them, it and its standbys, one after the other",
            "HOST:PORT", "127.0.0.1:25258");
  declare_store(args);
  declare_computing(args);
}
int run_pipestore_serve(Context& context, const Args& args) {
  return serve(context, args, args.required("tuner"));
}

void declare_pipestore(ArgsSpec& args) {
  args.positional("PORT", "the Tuner's; its host is $TUNER_IP, or 127.0.0.1");
  declare_store(args);
  declare_computing(args);
}
int run_pipestore(Context& context, const Args& args) {
  const char* host = std::getenv("TUNER_IP");
  return serve(context, args,
               std::string(host && *host ? host : "127.0.0.1") + ":" + args.required("PORT"));
}

}  // namespace ndtrain::cli
