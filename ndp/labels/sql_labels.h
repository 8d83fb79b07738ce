// The label database in SQL: its calls as statements on the tables (label_tables.h). Thread-safe.
#pragma once

#include <memory>

#include "ndp/labels/label_db.h"
#include "ndp/labels/label_tables.h"

namespace ndtrain::ndp {

class SqlLabels final : public LabelDb {
 public:
  explicit SqlLabels(std::unique_ptr<LabelTables> tables) : tables_(std::move(tables)) {}

  Result<int64_t> collection(std::string_view name) override;
  Result<int64_t> task(std::string_view name) override;
  Result<std::vector<std::string>> collections() override;
  Result<std::vector<std::string>> tasks() override;
  Result<TaskSize> task_size(std::string_view name) override;
  Status remove_task(std::string_view name) override;
  Result<int64_t> store(std::string_view name) override;
  Result<std::vector<std::string>> stores() override;
  Result<std::vector<int64_t>> class_ids(int64_t task, std::span<const std::string> names) override;
  Result<std::vector<ClassInfo>> classes(int64_t task) override;
  Result<int64_t> version(int64_t task, const NewVersion& version) override;
  Result<std::vector<VersionInfo>> versions(int64_t task) override;
  Status put_in_force(int64_t task, int64_t version) override;
  Result<std::optional<int64_t>> in_force(int64_t task) override;
  Result<UndoReport> undo(int64_t version, int64_t time) override;
  Result<UndoReport> preview_undo(int64_t version) override;
  Result<LabelDiff> diff(int64_t collection, int64_t from, int64_t to) override;
  Result<std::vector<ChangedPhoto>> changed_photos(const DiffQuery& query) override;
  Result<std::vector<int64_t>> add_photos(int64_t collection,
                                          std::span<const PhotoPlace> places) override;
  Status remove_paths(int64_t collection, std::span<const std::string> paths) override;
  Result<int64_t> find_photo(int64_t collection, std::string_view path) override;
  Result<Digest> digest_of(int64_t photo) override;
  Result<std::vector<int64_t>> photos_with(std::span<const Digest> digests) override;
  Result<std::vector<std::vector<CollectedPath>>> places_of(
      std::span<const Digest> digests) override;
  Result<int64_t> remove_photos(std::span<const int64_t> photos) override;
  Status put_in_trash(std::span<const Digest> photos) override;
  Status restore_from_trash(std::span<const Digest> photos) override;
  Result<PutReport> put_labels(const LabelBatch& batch) override;
  Result<std::vector<int64_t>> labelled_by(int64_t version,
                                           std::span<const int64_t> photos) override;
  Status settle() override;
  Result<LabelPage> query(const LabelQuery& query) override;
  Result<std::vector<LabelRow>> history(int64_t task, int64_t photo) override;
  Result<LabelStats> stats(int64_t collection, int64_t task) override;
  Result<LabelCounts> counts(int64_t collection, int64_t task) override;
  Result<std::vector<ClassCount>> class_counts(int64_t collection, int64_t version, int64_t since,
                                               int64_t until) override;
  Result<int64_t> count_truths(int64_t collection, int64_t task, int64_t since,
                               int64_t most) override;
  Status put_issues(int64_t task, std::span<const int64_t> looked_at,
                    std::span<const LabelIssue> issues) override;
  Result<std::vector<ReviewPhoto>> review(int64_t collection, int64_t task, int64_t count,
                                          uint64_t seed) override;
  Result<FieldAccuracy> accuracy(int64_t collection, int64_t version) override;
  Result<std::vector<ConfusedPhotos>> confusion(int64_t collection, int64_t version) override;
  Result<std::vector<NewPhotos>> new_photos(int64_t collection, int64_t task) override;

 private:
  Result<int64_t> named(const char* table, std::string_view name);
  Result<std::vector<std::string>> names(const char* table);
  // A person has said what these show. Within a call of tables_.
  void settle_issues(int64_t task, std::span<const int64_t> photos);

  const std::unique_ptr<LabelTables> tables_;
  // What others had written when the files were last made to forget, since which no photos were
  // deleted here. Within calls of tables_ alone.
  std::optional<int64_t> scrubbed_;
};

}  // namespace ndtrain::ndp
