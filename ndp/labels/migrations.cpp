#include "ndp/labels/migrations.h"

#include "ndp/labels/label_row.h"
#include "ndp/labels/schema.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kApplicationId = 0x4e44544c;  // "NDTL", PRAGMA application_id

constexpr std::string_view kMigrations[] = {kSchema1, kSchema2, kSchema3, kSchema4,
                                            kSchema5, kSchema6, kSchema7};

}  // namespace

std::span<const std::string_view> label_migrations() { return kMigrations; }

void migrate(sql::Database& db, std::span<const std::string_view> migrations) {
  db.define("ndt_top_k", [](const std::string& text) { return top_k_blob(top_k_from_text(text)); });
  // To open one that is as it should be waits for no writer.
  if (db.integer("PRAGMA user_version") == static_cast<int64_t>(migrations.size()) &&
      db.integer("PRAGMA application_id") == kApplicationId) {
    return;
  }
  sql::Transaction transaction(db);
  const int64_t version = db.integer("PRAGMA user_version");
  const bool ours = db.integer("PRAGMA application_id") == kApplicationId;
  if (!ours && (version != 0 || db.integer("SELECT count(*) FROM sqlite_master") != 0)) {
    throw sql::Failure{Status(Code::kUnsupported, "the file is not a label database")};
  }
  const auto newest = static_cast<int64_t>(migrations.size());
  if (version > newest || version < 0) {
    throw sql::Failure{Status(Code::kUnsupported,
                              "the label database has schema version " + std::to_string(version) +
                                  ", this program knows " + std::to_string(newest))};
  }
  for (int64_t v = version; v < newest; ++v) {
    db.execute(std::string(migrations[static_cast<size_t>(v)]));
  }
  if (version < newest) {
    db.execute("PRAGMA application_id=" + std::to_string(kApplicationId) +
               "; PRAGMA user_version=" + std::to_string(newest));
  }
  transaction.commit();
}

}  // namespace ndtrain::ndp
