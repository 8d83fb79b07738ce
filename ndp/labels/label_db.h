// Who says what a photo shows: labels of photos, by people, imports, folders and model versions.
//
// Collections hold photos at paths; a photo is its bytes, the same in any collection. A task is one
// classifier's purpose with class ids of its own. All labels are kept; one of each (photo, task) is
// current: that of the highest source; among a model's that of the version in force, then the
// newest version's; then the newest by its time. A label that is said just now is given a time
// after that of all its source has said of the photo, however the clock was set; others keep
// theirs, in whatever order they come. A version that was undone has none.
//
// All ids are small integers of this database. Members may be called from any thread and return
// what goes wrong with the database as a Status; each call is one transaction. Inconsistent
// arguments (a model label without a version) throw Error. kNotFound: an id that is not there.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "ndp/labels/label_types.h"

namespace ndtrain::ndp {

inline constexpr std::string_view kDefaultCollection = "default";
inline constexpr std::string_view kDefaultTask = "default";

class LabelDb {
 public:
  virtual ~LabelDb() = default;

  // Found by name, or made.
  virtual Result<int64_t> collection(std::string_view name) = 0;
  virtual Result<int64_t> task(std::string_view name) = 0;
  virtual Result<std::vector<std::string>> collections() = 0;  // names, in byte order
  virtual Result<std::vector<std::string>> tasks() = 0;
  // What would go with it; nothing, where it is not there.
  virtual Result<TaskSize> task_size(std::string_view name) = 0;
  // The task with its classes, its versions and all labels in it, for good; photos stay. That it is
  // not there is no error.
  virtual Status remove_task(std::string_view name) = 0;
  // PipeStores that make labels.
  virtual Result<int64_t> store(std::string_view name) = 0;
  virtual Result<std::vector<std::string>> stores() = 0;
  // The ids of these class names, in their order. An id belongs to its name for ever: other names
  // or another order later change nothing, and new names get new ids.
  virtual Result<std::vector<int64_t>> class_ids(int64_t task,
                                                 std::span<const std::string> names) = 0;
  virtual Result<std::vector<ClassInfo>> classes(int64_t task) = 0;  // by id
  // Found by content, or made; what is there stays as it is, but for its number: the greatest that
  // it was ever given.
  virtual Result<int64_t> version(int64_t task, const NewVersion& version) = 0;
  virtual Result<std::vector<VersionInfo>> versions(int64_t task) = 0;  // newest first

  // The version whose labels count; any other's are stale. One that was undone comes back.
  virtual Status put_in_force(int64_t task, int64_t version) = 0;
  virtual Result<std::optional<int64_t>> in_force(int64_t task) = 0;
  // The version's labels stay in the history, withdrawn, and the next best of each photo become
  // current. If it was in force, the newest of the others is. Once more changes nothing.
  virtual Result<UndoReport> undo(int64_t version, int64_t time) = 0;
  virtual Result<UndoReport> preview_undo(int64_t version) = 0;  // what undo would do
  virtual Result<LabelDiff> diff(int64_t collection, int64_t from, int64_t to) = 0;
  // Photos whose labels differ, by id; fewer than the limit: there are no more.
  virtual Result<std::vector<ChangedPhoto>> changed_photos(const DiffQuery& query) = 0;

  // The photos' ids, in order. A path that had other bytes before now has these.
  virtual Result<std::vector<int64_t>> add_photos(int64_t collection,
                                                  std::span<const PhotoPlace> places) = 0;
  // Takes paths out of the collection; photos and labels stay.
  virtual Status remove_paths(int64_t collection, std::span<const std::string> paths) = 0;
  virtual Result<int64_t> find_photo(int64_t collection, std::string_view path) = 0;
  virtual Result<Digest> digest_of(int64_t photo) = 0;  // kNotFound also in the trash
  // Their ids, in order; 0 for those that are not there.
  virtual Result<std::vector<int64_t>> photos_with(std::span<const Digest> digests) = 0;
  // Where each photo is, in all collections, in the trash as well; of one that is not there,
  // nowhere.
  virtual Result<std::vector<std::vector<CollectedPath>>> places_of(
      std::span<const Digest> digests) = 0;
  // Photos, their paths and all their labels, for good: the database's files hold nothing of them
  // any more. Costs a rewriting of the files, so many at once are better than one by one. Those
  // that are not there are not counted; once more is harmless.
  virtual Result<int64_t> remove_photos(std::span<const int64_t> photos) = 0;

  // From now on no path leads to these photos, nor to those of them that are only added later, so
  // that queries, statistics, reviews and exports are without them. Their labels stay, and what
  // comes of them meanwhile is kept as well. Once more is harmless.
  virtual Status put_in_trash(std::span<const Digest> photos) = 0;
  // At their paths again, with all that was said; but for paths that other photos have by now.
  virtual Status restore_from_trash(std::span<const Digest> photos) = 0;

  // All or none. A label that says nothing new is skipped: a version's second label for a photo, or
  // the class that the source named last for it. kCancelled: the version was undone.
  virtual Result<PutReport> put_labels(const LabelBatch& batch) = 0;
  // Those of `photos` that the version has labelled, in their order.
  virtual Result<std::vector<int64_t>> labelled_by(int64_t version,
                                                   std::span<const int64_t> photos) = 0;

  // When many labels have been replaced: queries need not pass over those that were, from now on.
  // Others read and write meanwhile.
  virtual Status settle() = 0;

  virtual Result<LabelPage> query(const LabelQuery& query) = 0;
  // All labels a photo ever had, newest first; `path` is empty. Of one in the trash, none.
  virtual Result<std::vector<LabelRow>> history(int64_t task, int64_t photo) = 0;
  virtual Result<LabelStats> stats(int64_t collection, int64_t task) = 0;

  // For who asks every few seconds: these read no labels but the truths that they count
  // (label_counts.h).
  virtual Result<LabelCounts> counts(int64_t collection, int64_t task) = 0;
  // The version's current labels, from `since` until before `until`; none with 0.
  virtual Result<std::vector<ClassCount>> class_counts(int64_t collection, int64_t version,
                                                       int64_t since, int64_t until) = 0;
  // Photos whose current label people, imports or folders gave them, from `since` on; counting ends
  // at `most`. Those of other collections and the same time are passed over.
  virtual Result<int64_t> count_truths(int64_t collection, int64_t task, int64_t since,
                                       int64_t most) = 0;

  // Replaces the issues of the photos that were `looked_at`. What a person has answered is none any
  // more, unless the photo is called something else by now.
  virtual Status put_issues(int64_t task, std::span<const int64_t> looked_at,
                            std::span<const LabelIssue> issues) = 0;
  // Photos for a person to look at. Half of them have a model's label and are drawn by the seed and
  // their digests alone. The others come before and behind these: labels with issues, the least
  // likely ones first, then a model's labels with the lowest scores of the rest.
  virtual Result<std::vector<ReviewPhoto>> review(int64_t collection, int64_t task, int64_t count,
                                                  uint64_t seed) = 0;
  virtual Result<FieldAccuracy> accuracy(int64_t collection, int64_t version) = 0;
  // The same photos class by class: by truth, then by what was said; none with 0.
  virtual Result<std::vector<ConfusedPhotos>> confusion(int64_t collection, int64_t version) = 0;
  // By day, then by class; none with 0.
  virtual Result<std::vector<NewPhotos>> new_photos(int64_t collection, int64_t task) = 0;
};

enum class OpenLabelDb { kMake, kExisting };

// "sqlite:FILE", or "postgresql://…" for a database that is there. What is absent in it is made, or
// kNotFound with kExisting. kUnsupported: another kind of database, or one that a newer program or
// somebody else made.
Result<std::unique_ptr<LabelDb>> open_label_db(std::string_view url,
                                               OpenLabelDb mode = OpenLabelDb::kMake);

// The id of what is there; nothing is made. kNotFound lists what there is.
Result<int64_t> existing_collection(LabelDb& db, const std::string& name);
Result<int64_t> existing_task(LabelDb& db, const std::string& name);
Result<int64_t> existing_store(LabelDb& db, const std::string& name);
Result<int64_t> existing_class(LabelDb& db, int64_t task, const std::string& name);
// A version by the Tuner's number, the beginning of its content in hex (four digits at least), or
// "in-force". kNotFound also when it is said of more than one.
Result<VersionInfo> existing_version(LabelDb& db, int64_t task, const std::string& name);

// Whether a person may call a class this: 1 to 256 bytes, no control characters.
Status check_class_name(std::string_view name);

// What a person says just now: the photo at `path` shows `class_name` (made if new).
Status set_label(LabelDb& db, int64_t collection, int64_t task, std::string_view path,
                 const std::string& class_name, int64_t time);

}  // namespace ndtrain::ndp
