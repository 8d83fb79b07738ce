// Who says what a photo shows: labels of photos, by people, imports, folders and model versions.
//
// Collections hold photos at paths; a photo is its bytes, the same in any collection. A task is one
// classifier's purpose with class ids of its own. All labels are kept; one of each (photo, task) is
// current: that of the highest source, among a model's the newest version's, then the newest.
//
// All ids are small integers of this database. Members may be called from any thread and return
// what goes wrong with the database as a Status; each call is one transaction. Inconsistent
// arguments (a model label without a version) throw Error. kNotFound: an id that is not there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/status.h"

namespace ndtrain {

inline constexpr std::string_view kDefaultCollection = "default";
inline constexpr std::string_view kDefaultTask = "default";

// By rank: a label never outranks one of a higher source. Stored, so never renumbered.
enum class LabelSource : uint8_t { kModel = 1, kFolder = 2, kImport = 3, kHuman = 4 };

std::string_view name_of(LabelSource source);  // "model", "folder", "import", "human"
std::optional<LabelSource> label_source_named(std::string_view name);

struct PhotoPlace {
  std::string path;
  Digest digest{};
};

struct CollectedPhoto {
  int64_t photo = 0;
  Digest digest{};
  std::string path;  // the first, if it is at several
};

struct ClassInfo {
  int64_t id = 0;
  std::string name;
};

struct NewVersion {
  Digest content{};
  std::optional<Digest> parent;  // ignored if the database does not have it
  int64_t created = 0;           // Unix seconds
  std::string metrics;           // text of the caller's choice
};

struct VersionInfo {
  int64_t id = 0;
  Digest content{};
  std::optional<int64_t> parent;
  int64_t created = 0;
  std::string metrics;
};

struct ScoredClass {
  int64_t class_id = 0;
  double score = 0;
  bool operator==(const ScoredClass&) const = default;
};

struct NewLabel {
  int64_t photo = 0;
  int64_t class_id = 0;
  std::optional<double> score;
  std::vector<ScoredClass> top_k;
  int64_t time = 0;  // Unix seconds
};

// Labels of one source; a version if and only if the source is kModel.
struct LabelBatch {
  int64_t task = 0;
  LabelSource source = LabelSource::kModel;
  std::optional<int64_t> version;
  std::vector<NewLabel> labels;
};

struct PutReport {
  int64_t added = 0;    // the rest was there already
  int64_t current = 0;  // of those added, how many became the current label
};

struct LabelRow {
  int64_t photo = 0;
  Digest digest{};
  std::string path;
  int64_t class_id = 0;
  std::string class_name;
  std::optional<double> score;
  std::vector<ScoredClass> top_k;
  LabelSource source = LabelSource::kModel;
  std::optional<int64_t> version;
  std::optional<Digest> version_content;
  int64_t time = 0;
};

// Where a query goes on.
struct LabelCursor {
  int64_t photo = 0;
  std::string path;
};

// Current labels of a task for the photos of a collection; every condition given must hold.
struct LabelQuery {
  int64_t collection = 0;
  int64_t task = 0;
  std::optional<int64_t> class_id;
  std::optional<double> min_score, max_score;  // labels without a score have none to compare
  std::vector<LabelSource> sources;            // empty: any
  std::optional<int64_t> since, until;         // Unix seconds, inclusive
  std::optional<int64_t> version;              // made by this version
  std::optional<int64_t> stale_for;            // made by another version than this one
  LabelCursor after;
  int64_t limit = 1000;
};

// One row per path, in the order of (photo, path).
struct LabelPage {
  std::vector<LabelRow> rows;
  std::optional<LabelCursor> next;  // none: this was the last page
};

struct LabelStats {
  int64_t photos = 0, labelled = 0;  // photos of the collection; those with a current label
  int64_t stale = 0;                 // current labels by another version than the newest
  std::vector<std::pair<std::string, int64_t>> by_class, by_source;  // most first; none with 0
};

class LabelDb {
 public:
  virtual ~LabelDb() = default;

  // Found by name, or made.
  virtual Result<int64_t> collection(std::string_view name) = 0;
  virtual Result<int64_t> task(std::string_view name) = 0;
  virtual Result<std::vector<std::string>> collections() = 0;  // names, in byte order
  virtual Result<std::vector<std::string>> tasks() = 0;
  // The ids of these class names, in their order. An id belongs to its name for ever: other names
  // or another order later change nothing, and new names get new ids.
  virtual Result<std::vector<int64_t>> class_ids(int64_t task,
                                                 std::span<const std::string> names) = 0;
  virtual Result<std::vector<ClassInfo>> classes(int64_t task) = 0;  // by id
  // Found by content, or made; what is there stays as it is.
  virtual Result<int64_t> version(int64_t task, const NewVersion& version) = 0;
  virtual Result<std::vector<VersionInfo>> versions(int64_t task) = 0;  // newest first

  // The photos' ids, in order. A path that had other bytes before now has these.
  virtual Result<std::vector<int64_t>> add_photos(int64_t collection,
                                                  std::span<const PhotoPlace> places) = 0;
  // Takes paths out of the collection; photos and labels stay.
  virtual Status remove_paths(int64_t collection, std::span<const std::string> paths) = 0;
  virtual Result<int64_t> find_photo(int64_t collection, std::string_view path) = 0;

  // All or none. A label that says nothing new is skipped: a version's second label for a photo, or
  // the class that the source named last for it.
  virtual Result<PutReport> put_labels(const LabelBatch& batch) = 0;
  // Those of `photos` that the version has labelled, in their order.
  virtual Result<std::vector<int64_t>> labelled_by(int64_t version,
                                                   std::span<const int64_t> photos) = 0;
  // Photos of the collection with ids above `after` that it has not, by id.
  virtual Result<std::vector<CollectedPhoto>> photos_without(int64_t version, int64_t collection,
                                                             int64_t after, int64_t limit) = 0;

  virtual Result<LabelPage> query(const LabelQuery& query) = 0;
  // All labels a photo ever had, newest first; `path` is empty.
  virtual Result<std::vector<LabelRow>> history(int64_t task, int64_t photo) = 0;
  virtual Result<LabelStats> stats(int64_t collection, int64_t task) = 0;
};

enum class OpenLabelDb { kMake, kExisting };

// "sqlite:FILE". An absent file is made, or kNotFound with kExisting. kUnsupported: another kind of
// database, or one that a newer program or somebody else made.
Result<std::unique_ptr<LabelDb>> open_label_db(std::string_view url,
                                               OpenLabelDb mode = OpenLabelDb::kMake);

// The id of what is there; nothing is made. kNotFound lists what there is.
Result<int64_t> existing_collection(LabelDb& db, const std::string& name);
Result<int64_t> existing_task(LabelDb& db, const std::string& name);

// What a person says: the photo at `path` shows `class_name` (made if new).
Status set_label(LabelDb& db, int64_t collection, int64_t task, std::string_view path,
                 const std::string& class_name, int64_t time);

}  // namespace ndtrain
