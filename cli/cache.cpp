#include <fmt/format.h>

#include "cli/verb.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string directory_of(const Args& args) {
  return join(args.has("cache") ? args.text("cache") : default_cache_directory(), "features");
}

}  // namespace

void declare_cache_ls(ArgsSpec& args) {
  args.flag("cache", "the cache (default: ~/.cache/ndtrain)", "DIR");
}

int run_cache_ls(Context& context, const Args& args) {
  const auto store =
      SegmentStore::open_to_read(context.fs(), context.clock(), directory_of(args)).or_throw();
  Json json = {{"disk_bytes", store->disk_bytes()}, {"budget_bytes", store->budget_bytes()}};
  std::string text =
      fmt::format("{:<16}  {:>10}  {:>14}  {:>12}\n", "extractor", "photos", "bytes", "last used");
  for (const GroupInfo& g : store->groups()) {
    json["extractors"].push_back({{"id", to_hex(g.group)},
                                  {"photos", g.records},
                                  {"bytes", g.disk_bytes},
                                  {"last_used", g.last_used}});
    text += fmt::format("{:<16}  {:>10}  {:>14}  {:>12}\n", to_hex(g.group).substr(0, 16),
                        g.records, g.disk_bytes, g.last_used);
  }
  text += fmt::format("{} of {} bytes\n", store->disk_bytes(), store->budget_bytes());
  context.print(json, text);
  return kOk;
}

void declare_cache_gc(ArgsSpec& args) {
  args.flag("cache", "the cache (default: ~/.cache/ndtrain)", "DIR");
  args.flag("budget", "shrink to this, e.g. 2G (default: a tenth of the volume)", "BYTES");
}

int run_cache_gc(Context& context, const Args& args) {
  auto opened = SegmentStore::open(
      context.fs(), context.clock(), directory_of(args),
      {.budget_bytes = static_cast<int64_t>(args.bytes("budget")), .who = "ndtrain cache gc"});
  if (opened.status().code() == Code::kExists) {
    throw Error(opened.status().message(), "; wait until it has written, or stop it");
  }
  const auto store = std::move(opened).or_throw();
  const GcReport r = store->gc().or_throw();
  store->close().or_throw();
  const Json json = {{"bytes_before", r.bytes_before},
                     {"bytes_after", r.bytes_after},
                     {"extractors_evicted", r.groups_evicted},
                     {"segments_compacted", r.segments_compacted}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
