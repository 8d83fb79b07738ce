// The databases of both roles as state files.
#include "framework/core/thread_pool.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/catalogue.h"
#include "tests/faults/state_files.h"

namespace ndtrain::faults {
using namespace ndp;

namespace {

constexpr const char* kSuffix = ".jpg";

std::string path_for(const std::string& name) { return name + kSuffix; }
std::string name_at(const std::string& path) { return path.substr(0, 1); }

// What people said of photos.
class LabelDatabase final : public StateFile {
 public:
  LabelDatabase()
      : db_(open_label_db("sqlite:state/labels.sqlite").or_throw()),
        collection_(db_->collection(kDefaultCollection).or_throw()),
        task_(db_->task(kDefaultTask).or_throw()) {}

  Status add(const std::vector<std::string>& names) override {
    std::vector<PhotoPlace> places;
    for (const std::string& name : names) places.push_back({path_for(name), sha256(name)});
    const auto classes = db_->class_ids(task_, std::vector<std::string>{"rose"});
    if (!classes.ok()) return classes.status();
    const auto photos = db_->add_photos(collection_, places);
    if (!photos.ok()) return photos.status();
    LabelBatch batch{.task = task_, .source = LabelSource::kHuman};
    for (const int64_t photo : *photos) {
      batch.labels.push_back({.photo = photo, .class_id = classes->at(0), .time = 1});
    }
    return db_->put_labels(batch).status();
  }
  Status remove(const std::string& name) override {
    const auto photo = db_->photos_with(std::vector{sha256(name)});
    if (!photo.ok()) return photo.status();
    return db_->remove_photos(*photo).status();
  }
  Status tidy() override { return db_->settle(); }
  std::vector<std::string> names() override {
    const LabelPage page = db_->query({.collection = collection_, .task = task_}).or_throw();
    std::vector<std::string> all;
    for (const LabelRow& row : page.rows) {
      if (row.class_name != "rose" || row.digest != sha256(name_at(row.path))) {
        throw Error("state/labels.sqlite: another label than was put");
      }
      all.push_back(name_at(row.path));
    }
    return all;
  }

 private:
  const std::unique_ptr<LabelDb> db_;
  const int64_t collection_, task_;
};

// Files that are called as they are.
class NamedPhotos final : public PhotoSource {
 public:
  explicit NamedPhotos(const std::vector<std::string>& names) : names_(names) {}
  Result<PhotoPage> list(const std::string&, size_t) override {
    PhotoPage page;
    for (const std::string& name : names_)
      page.photos.push_back({.path = path_for(name), .size = 1});
    return page;
  }
  Result<std::string> open(const std::string& path) override { return name_at(path); }

 private:
  const std::vector<std::string>& names_;
};

// What a scan has found in a photo directory.
class CatalogueFile final : public StateFile {
 public:
  explicit CatalogueFile(Fs& fs) : catalogue_(Catalogue::open(fs, "state").or_throw()) {
    there_ = names();
  }
  Status add(const std::vector<std::string>& names) override {
    there_.insert(there_.end(), names.begin(), names.end());
    NamedPhotos source(there_);
    const auto report = catalogue_->scan(source, pool_);
    if (!report.ok()) there_.resize(there_.size() - names.size());
    return report.status();
  }
  Status remove(const std::string& name) override {
    const Status s = catalogue_->remove(sha256(name));
    if (s.ok()) std::erase(there_, name);
    return s;
  }
  Status tidy() override { return catalogue_->scrub(); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const CatalogueEntry& e : catalogue_->entries_after("", 100).or_throw()) {
      if (e.state == PhotoState::kMissing || e.state == PhotoState::kDeleted) continue;
      if (e.digest != sha256(name_at(e.ref.path))) throw Error("state/catalogue.sqlite: digest");
      all.push_back(name_at(e.ref.path));
    }
    return all;
  }

 private:
  ThreadPool pool_{1};
  const std::unique_ptr<Catalogue> catalogue_;
  std::vector<std::string> there_;  // in the directory
};

}  // namespace

const std::vector<StateFileKind>& database_kinds() {
  static const std::vector<StateFileKind> kinds = {
      {"Labels", true, false, false,
       [](Fs&, Clock&) -> std::unique_ptr<StateFile> { return std::make_unique<LabelDatabase>(); }},
      {"Catalogue", true, false, false, [](Fs& fs, Clock&) -> std::unique_ptr<StateFile> {
         return std::make_unique<CatalogueFile>(fs);
       }}};
  return kinds;
}

}  // namespace ndtrain::faults
