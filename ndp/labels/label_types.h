// What goes into a label database and what comes out. All ids are small integers of one database.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/labels/version_name.h"

namespace ndtrain::ndp {

// By rank: a label never outranks one of a higher source. Stored, so never renumbered.
enum class LabelSource : uint8_t { kModel = 1, kFolder = 2, kImport = 3, kHuman = 4 };

std::string_view name_of(LabelSource source);  // "model", "folder", "import", "human"
std::optional<LabelSource> label_source_named(std::string_view name);

struct PhotoPlace {
  std::string path;
  Digest digest{};
};

struct CollectedPath {
  std::string collection, path;
  bool operator==(const CollectedPath&) const = default;
};

struct ClassInfo {
  int64_t id = 0;
  std::string name;
};

struct NewVersion {
  std::optional<int64_t> number = std::nullopt;  // that a Tuner gave it
  Digest content{};
  std::optional<Digest> parent;  // ignored if the database does not have it
  int64_t created = 0;           // Unix seconds
  std::string metrics;           // text of the caller's choice
};

// What there is in one task, in all collections.
struct TaskSize {
  int64_t labels = 0;     // those that others have replaced included
  int64_t by_people = 0;  // of them: said by people
  int64_t classes = 0;
};

struct VersionInfo {
  int64_t id = 0;                 // of this database; people say the number or the content
  std::optional<int64_t> number;  // that a Tuner gave it
  Digest content{};
  std::optional<int64_t> parent;
  int64_t created = 0;
  std::string metrics;
  std::optional<int64_t> withdrawn;  // when it was undone, in Unix seconds
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
  // Said as it is put: whatever the clock says, it is later than all that the source said before.
  bool just_now = false;
  std::optional<int64_t> store = std::nullopt;  // that made it
  bool at_random = false;  // an answer about a photo that was drawn by chance: see ReviewPhoto
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
  std::optional<int64_t> version, version_number;  // see VersionInfo
  std::optional<Digest> version_content;
  int64_t time = 0;
  std::string store;       // "": none is known
  bool at_random = false;  // as in NewLabel
  bool withdrawn = false;  // its version was undone
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
  std::optional<int64_t> photo;
  std::string path;  // a part of the photo's, byte by byte; "": any. No index helps to find it
  std::optional<int64_t> class_id;
  std::optional<double> min_score, max_score;  // labels without a score have none to compare
  std::vector<LabelSource> sources;            // empty: any
  std::optional<int64_t> since, until;         // Unix seconds, inclusive
  std::optional<int64_t> version;              // made by this version
  std::optional<int64_t> store;                // made by this store
  bool stale = false;                          // by a model version other than the one in force
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
  int64_t stale = 0;                 // by a version other than the one in force
  std::vector<std::pair<std::string, int64_t>> by_class, by_source;  // most first; none with 0
};

// Photos of a collection, those with a current label, and of these those with one of each version.
struct LabelCounts {
  int64_t photos = 0, labelled = 0;
  std::map<int64_t, int64_t> by_version;  // none with 0
  bool operator==(const LabelCounts&) const = default;
};

struct ClassCount {
  std::string class_name;
  int64_t photos = 0;
  double scores = 0;  // their sum; a label without one counts as 0
};

struct UndoReport {
  int64_t withdrawn = 0;  // labels that were current
  int64_t restored = 0;   // of their photos, those that have an earlier label again
  std::optional<int64_t> in_force;
  bool operator==(const UndoReport&) const = default;
};

struct LabelChange {
  std::string from, to;  // class names
  int64_t photos = 0;
};

// Two versions' labels of the photos of a collection.
struct LabelDiff {
  int64_t same = 0, changed = 0;       // photos that both have labelled
  int64_t only_from = 0, only_to = 0;  // that one of them has
  std::vector<LabelChange> changes;    // most first, then by name; only where they differ
};

struct DiffQuery {
  int64_t collection = 0;
  int64_t from = 0, to = 0;  // versions of one task
  std::optional<int64_t> from_class, to_class;
  int64_t after = 0;  // photo
  int64_t limit = 1000;
};

struct ChangedPhoto {
  int64_t photo = 0;
  std::string path;  // the first, if it is at several
  std::string from, to;
  std::optional<double> from_score, to_score;
};

// A label of a person, an import or a folder that what the photo shows contradicts: what is likely
// of its class without it, and of the class that is likelier.
struct LabelIssue {
  int64_t photo = 0;
  int64_t class_id = 0;  // that it has
  double score = 0;
  int64_t suggested = 0;  // the other class
  double suggested_score = 0;
};

// A photo for a person to look at. Only those drawn at random say how good a version is: the least
// certain ones are wrong more often than others.
struct ReviewPhoto {
  int64_t photo = 0;
  Digest digest{};
  std::string path, label;
  std::optional<double> score;
  bool at_random = false;
  // Of a label with an issue: what it may be instead. `score` is of the label then.
  std::string suggested = {};
  std::optional<double> suggested_score = std::nullopt;
};

struct Agreement {
  int64_t photos = 0, agree = 0;
};

// Photos that people or imports say are of one class and the version of another, or the same.
struct ConfusedPhotos {
  std::string truth, said;  // class names
  int64_t photos = 0;
  bool operator==(const ConfusedPhotos&) const = default;
};

// Photos whose first label, by whomever, is of one day, by what they are called now.
struct NewPhotos {
  int64_t day = 0;  // Unix seconds of its beginning, UTC
  std::string class_name;
  int64_t photos = 0;
  bool operator==(const NewPhotos&) const = default;
};

// A version's labels against what people and imports say now.
struct FieldAccuracy {
  int64_t truths = 0;   // photos of the collection with such a label
  Agreement all;        // of those, what the version has labelled; it may be trained on them
  Agreement at_random;  // of those, what was drawn at random for review since there is the version
};

}  // namespace ndtrain::ndp
