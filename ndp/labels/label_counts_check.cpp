#include "ndp/labels/label_counts_check.h"

#include <fmt/format.h>

#include "ndp/labels/schema.h"
#include "ndp/sqlite/interruption.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {
namespace {

// Tables that hide those of the file from kCountAll, and are filled by it.
constexpr const char* kHiding =
    "CREATE TEMP TABLE photo_counts AS SELECT * FROM main.photo_counts WHERE 0;"
    "CREATE TEMP TABLE label_counts AS SELECT * FROM main.label_counts WHERE 0;";

constexpr const char* kOtherPhotos =
    "SELECT collection, sum(kept), sum(found) FROM"
    " (SELECT collection, photos AS kept, 0 AS found FROM main.photo_counts"
    " UNION ALL SELECT collection, 0, photos FROM temp.photo_counts)"
    " GROUP BY collection HAVING sum(kept) <> sum(found) LIMIT 1";

constexpr const char* kOtherLabels =
    "SELECT collection, task, version, seconds, since, class, sum(kept), sum(found),"
    " total(kept_scores), total(found_scores) FROM"
    " (SELECT collection, task, version, seconds, since, class, labels AS kept, 0 AS found,"
    " scores AS kept_scores, 0.0 AS found_scores FROM main.label_counts"
    " UNION ALL SELECT collection, task, version, seconds, since, class, 0, labels, 0.0, scores"
    " FROM temp.label_counts)"
    " GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(kept) <> sum(found)"
    " OR abs(total(kept_scores) - total(found_scores)) > 1e-6 * (1 + sum(found)) LIMIT 1";

Status compare_photos(sql::Database& db) {
  sql::Statement other(db, kOtherPhotos);
  if (!other.step()) return {};
  return {Code::kCorrupt, fmt::format("of collection {} {} photos are counted, {} are there",
                                      other.integer(0), other.integer(1), other.integer(2))};
}

Status compare_labels(sql::Database& db) {
  sql::Statement other(db, kOtherLabels);
  if (!other.step()) return {};
  return {Code::kCorrupt,
          fmt::format("of collection {}, task {}, version {}, class {}, {} seconds from {} on {} "
                      "labels with scores of {} are counted, {} with scores of {} are there",
                      other.integer(0), other.integer(1), other.integer(2), other.integer(5),
                      other.integer(3), other.integer(4), other.integer(6), other.real(8),
                      other.integer(7), other.real(9))};
}

}  // namespace

Status check_label_counts(const std::string& path, const std::stop_token& stop) {
  try {
    sql::Database db(path);
    const sql::Interruption interruption(db, stop);
    db.execute("BEGIN");
    if (db.integer("PRAGMA user_version") < kFirstWithCounts) return {};
    db.execute(kHiding);
    db.execute(std::string(kCountAll));
    const Status photos = compare_photos(db);
    return photos.ok() ? compare_labels(db) : photos;
  } catch (const sql::Failure& failure) {
    return failure.status;
  }
}

Status count_labels_again(const std::string& path) {
  try {
    sql::Database db(path);
    sql::Transaction transaction(db);
    db.execute("DELETE FROM photo_counts; DELETE FROM label_counts;");
    db.execute(std::string(kCountAll));
    transaction.commit();
    return {};
  } catch (const sql::Failure& failure) {
    return failure.status;
  }
}

}  // namespace ndtrain::ndp
