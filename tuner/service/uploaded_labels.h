// What stores say of photos that people upload to them, into the label database.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>

#include "ndp/http/audit.h"
#include "ndp/labels/label_db.h"
#include "ndp/wire/wire.pb.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

// A store, and the collection that its photos are in.
struct StorePlace {
  std::string store, collection = std::string(kDefaultCollection);
};

class UploadSink {
 public:
  virtual ~UploadSink() = default;
  // Lines of one store's log, in their order, of photos that are not deleted; `versions` are those
  // that they name and this Tuner knows. Durable on return; lines that were kept before change
  // nothing. One thread at a time.
  virtual Status keep(const StorePlace& at, std::span<const wire::Upload> lines,
                      const std::map<uint64_t, PublishedModel>& versions) = 0;
  // The stores that each of the photos is at, as far as is known here.
  virtual Result<std::vector<std::set<std::string>>> holders(std::span<const Digest> photos) = 0;
  // Photos that were deleted: nothing of them is left on return.
  virtual Status forget(const std::vector<Digest>& photos) = 0;
  // As LabelDb has them.
  virtual Status remove_task(const std::string& task) = 0;
  virtual Status put_in_trash(const std::vector<Digest>& photos) = 0;
  virtual Status restore_from_trash(const std::vector<Digest>& photos) = 0;
};

// Photos are at STORE/path in the store's collection. A label of a version that this Tuner does not
// know (it was restored from a backup, say), or not of that task, is left out: a relabel makes
// another.
class UploadedLabels final : public UploadSink {
 public:
  // `db` opens the database, or has it; throws Error. `audit`, if there is one, lets go of deleted
  // photos as well, and outlives this.
  explicit UploadedLabels(std::function<LabelDb&()> db, AuditLog* audit = nullptr)
      : db_(std::move(db)), audit_(audit) {}

  Status keep(const StorePlace& at, std::span<const wire::Upload> lines,
              const std::map<uint64_t, PublishedModel>& versions) override;
  Result<std::vector<std::set<std::string>>> holders(std::span<const Digest> photos) override;
  Status forget(const std::vector<Digest>& photos) override;
  Status remove_task(const std::string& task) override;
  Status put_in_trash(const std::vector<Digest>& photos) override;
  Status restore_from_trash(const std::vector<Digest>& photos) override;

 private:
  using Lines = std::span<const wire::Upload>;
  void add(LabelDb& db, const StorePlace& at, Lines lines,
           const std::map<uint64_t, PublishedModel>& versions);

  std::function<LabelDb&()> db_;
  AuditLog* const audit_;
};

// Whether the label is by this version, and not by one that had its number before a restore.
bool is_by(const wire::Upload& line, const PublishedModel& model);

}  // namespace ndtrain::tuner
