#include "ndp/jobs/photo_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <unordered_map>

#include "framework/core/csv.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/in_turn.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kPage = 10'000;

Status scan(PhotoSource& source, Catalogue& catalogue, const std::string& root, Progress& progress,
            ScanOptions options = {}) {
  const auto alone = lock_scan(catalogue, root, progress);
  progress.begin("scanning " + root, 0, "photos");
  options.far = is_object_url(root);
  options.on_page = [&](int64_t seen, int64_t) { progress.update(seen); };
  const Result<ScanReport> report = catalogue.scan(source, shared_threads(), options);
  progress.end();
  if (report.ok()) say_problems(*report, progress);
  return report.status();
}

// Calls f(entry) for every photo that is there.
template <typename F>
void for_each_entry(Catalogue& catalogue, F f) {
  for (std::string after;;) {
    const std::vector<CatalogueEntry> page = catalogue.entries_after(after, kPage).or_throw();
    for (const CatalogueEntry& e : page) {
      if (e.state != PhotoState::kMissing && e.state != PhotoState::kDeleted) f(e);
    }
    if (page.size() < kPage) return;
    after = page.back().ref.path;
  }
}

void add(PhotoSet& set, const CatalogueEntry& e, int label) {
  if (e.state == PhotoState::kSkipped) {
    ++set.skipped[extension_of(e.ref.path)];
  } else if (e.state != PhotoState::kOk || !e.digest) {
    set.quarantined.push_back({e.ref.path, e.reason.empty() ? "cannot be read" : e.reason});
  } else {
    set.photos.push_back({e.ref.path, *e.digest, e.ref.size, label});
  }
}

}  // namespace

double PhotoSet::mean_bytes() const {
  double sum = 0;
  for (const Photo& p : photos) sum += static_cast<double>(p.bytes);
  return photos.empty() ? 0 : sum / static_cast<double>(photos.size());
}

int64_t PhotoSet::skipped_count() const {
  int64_t n = 0;
  for (const auto& [format, count] : skipped) n += count;
  return n;
}

std::string default_cache_directory() {
  if (const char* own = std::getenv("NDTRAIN_CACHE"); own && *own) return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return join(xdg, "ndtrain");
  if (const char* home = std::getenv("HOME"); home && *home) return join(home, ".cache/ndtrain");
  return ".ndtrain-cache";
}

std::string catalogue_directory(const std::string& cache, const std::string& root) {
  std::string place = root;
  if (is_object_url(root)) {
    while (place.ends_with('/')) place.pop_back();
  } else {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::weakly_canonical(root, error);
    if (!error) place = absolute.string();
  }
  const std::string name = to_hex(sha256(place)).substr(0, 16);
  return join(join(cache, "catalogues"), name);
}

std::unique_ptr<Catalogue> open_catalogue(Fs& fs, const std::string& cache,
                                          const std::string& root) {
  Result<std::unique_ptr<Catalogue>> catalogue =
      Catalogue::open(fs, catalogue_directory(cache, root));
  if (!catalogue.ok()) throw Error("catalogue of ", root, ": ", catalogue.status().message());
  return std::move(*catalogue);
}

PhotoSet hash_photos(Fs& fs, Catalogue& catalogue, const LabelledPhotos& labelled,
                     Progress& progress) {
  DirectorySource source(fs, labelled.root);
  scan(source, catalogue, labelled.root, progress).or_throw();
  std::unordered_map<std::string, CatalogueEntry> by_path;
  for_each_entry(catalogue, [&](const CatalogueEntry& e) { by_path.emplace(e.ref.path, e); });
  PhotoSet set{.root = labelled.root, .classes = labelled.classes, .skipped = labelled.skipped};
  for (const LabelledPhotos::Item& item : labelled.items) {
    const auto it = by_path.find(item.path);
    if (it == by_path.end()) {
      set.quarantined.push_back({item.path, "cannot be read"});
    } else {
      add(set, it->second, item.label);
    }
  }
  if (labelled.uploads > 0) {
    progress.say(fmt::format(
        "{}: {} photos are left out that people uploaded to a PipeStore of an older version, since "
        "no folder says what they show",
        join(labelled.root, kUploadDirectory), labelled.uploads));
  }
  return set;
}

// Catalogues are SQLite's, so they are on disks, whatever the photos are on.
std::unique_ptr<FileLock> lock_scan(const Catalogue& catalogue, const std::string& root,
                                    Progress& progress) {
  return lock_in_turn(real_fs(), join(catalogue.directory(), "scan.lock"), "scans " + root,
                      "what it finds will serve here too; another --cache does not have to wait",
                      progress)
      .or_throw();
}

void say_problems(const ScanReport& report, Progress& progress) {
  for (const PhotoProblem& p : report.problems) progress.say(p.path + ": " + p.message);
}

PhotoSet known_photos(Catalogue& catalogue, const std::string& root) {
  PhotoSet set{.root = root};
  for_each_entry(catalogue, [&](const CatalogueEntry& e) { add(set, e, -1); });
  return set;
}

PhotoSet listed_photos(PhotoSource& source, Catalogue& catalogue, const std::string& root,
                       int64_t& unread) {
  PhotoSet set{.root = root};
  for (std::string cursor;;) {
    const PhotoPage page = source.list(cursor, kPage).or_throw();
    for (const PhotoRef& ref : page.photos) {
      const std::optional<CatalogueEntry> e = catalogue.find(ref.path).or_throw();
      const bool known = e && e->digest && e->ref == ref;
      if (known && (e->state == PhotoState::kMissing || e->state == PhotoState::kDeleted)) {
        set.photos.push_back({ref.path, *e->digest, ref.size});  // it is back
      } else if (known) {
        add(set, *e, -1);
      } else {
        unread += can_decode(format_of_extension(extension_of(ref.path)));
      }
    }
    if (page.next.empty()) return set;
    cursor = page.next;
  }
}

PhotoSet all_photos(Fs& fs, Catalogue& catalogue, const std::string& root, Progress& progress) {
  DirectorySource source(fs, root);
  return all_photos(source, catalogue, root, progress).or_throw();
}

Result<PhotoSet> all_photos(PhotoSource& source, Catalogue& catalogue, const std::string& root,
                            Progress& progress, const ScanOptions& options) {
  if (Status s = scan(source, catalogue, root, progress, options); !s.ok()) return s;
  return known_photos(catalogue, root);
}

std::vector<std::string> with_added(std::vector<std::string> classes, const PhotoSet& set) {
  const std::set<std::string> there(classes.begin(), classes.end());
  std::ranges::copy_if(set.classes, std::back_inserter(classes),
                       [&](const std::string& name) { return !there.contains(name); });
  return classes;
}

void count_in(PhotoSet& set, const std::vector<std::string>& classes) {
  std::unordered_map<std::string, int> index;
  for (size_t i = 0; i < classes.size(); ++i) index.emplace(classes[i], static_cast<int>(i));
  for (Photo& p : set.photos) {
    const std::string& name = set.classes.at(static_cast<size_t>(p.label));
    const auto found = index.find(name);
    if (found == index.end()) {
      throw Error(join(set.root, p.path), " shows '", name, "', which is not among the ",
                  classes.size(), " classes of the model");
    }
    p.label = found->second;
  }
  set.classes = classes;
}

std::string describe_classes(const std::string& name, const PhotoSet& set) {
  constexpr size_t kShown = 12;
  std::vector<int64_t> counts(set.classes.size());
  for (const Photo& p : set.photos) ++counts.at(static_cast<size_t>(p.label));
  std::string text = fmt::format("{}: {} photos of {} class{}:", name, set.photos.size(),
                                 counts.size(), counts.size() == 1 ? "" : "es");
  for (size_t i = 0; i < std::min(counts.size(), kShown); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", set.classes[i], counts[i]);
  }
  if (counts.size() <= kShown) return text;
  const auto [least, most] = std::ranges::minmax(counts);
  return text +
         fmt::format(", and {} more; {} to {} photos each", counts.size() - kShown, least, most);
}

std::string quarantine_csv(const std::vector<QuarantinedPhoto>& photos) {
  std::string out = "file,reason\n";
  for (const QuarantinedPhoto& p : photos) out += csv_row({p.path, p.reason});
  return out;
}

}  // namespace ndtrain::ndp
