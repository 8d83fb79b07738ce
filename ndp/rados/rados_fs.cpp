#include "ndp/rados/rados_fs.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "framework/core/text.h"
#include "ndp/rados/rados_file.h"
#include "ndp/rados/rados_tree.h"
#include "ndp/rados/rados_url.h"
#include "ndp/rados/rados_view.h"

namespace ndtrain::ndp {
namespace {

Status not_written(const std::string& path) {
  return {Code::kUnsupported,
          printable(path, 1024) + ": this is not done to RADOS; name a directory of this machine"};
}

bool is_same_file(const FileInfo& a, const FileInfo& b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns && a.inode == b.inode;
}

bool has_all(const ObjectAttributes& there, const ObjectAttributes& some) {
  return std::ranges::all_of(some, [&](const auto& attribute) {
    const auto at = there.find(attribute.first);
    return at != there.end() && at->second == attribute.second;
  });
}

// Of `names`, which are below the directory `root`: all directories that they are in, but this.
std::set<std::string> directories_of(const std::string& root,
                                     const std::vector<std::string>& names) {
  std::set<std::string> directories;
  for (const std::string& name : names) {
    for (size_t slash = 0; (slash = name.find('/', slash)) != std::string::npos; ++slash) {
      directories.insert(join(root, name.substr(0, slash)));
    }
  }
  return directories;
}

FileInfo file_of_object(const std::string& path, const ObjectFacts& o) {
  return {.size = o.size,
          .mtime_ns = o.mtime_ns,
          .inode = rados_inode(path + " " + std::to_string(o.content))};
}

class LinkedRadosFs final : public RadosFs {
 public:
  LinkedRadosFs(std::unique_ptr<Fs> others, Clock& clock, RadosScope scope, OpenObjectPool open)
      : others_(std::move(others)),
        clock_(clock),
        scope_(std::move(scope)),
        open_(std::move(open)) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status make_directories(const std::string& path) override {
    return is_rados_url(path) ? not_written(path) : others_->make_directories(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (is_rados_url(from)) return not_written(from);
    return is_rados_url(to) ? not_written(to) : others_->rename(from, to);
  }
  Status remove(const std::string& path) override {
    return is_rados_url(path) ? remove_object(path) : others_->remove(path);
  }
  Result<Space> space(const std::string& path) override {
    return is_rados_url(path) ? Result<Space>(not_written(path)) : others_->space(path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    if (is_rados_url(path)) return not_written(path);
    return others_->lock(path);
  }
  Result<bool> look(const std::string& path) override;
  uint64_t gained(const std::string& path) override;
  std::vector<RadosReads> reads() override;
  std::vector<Status> set_attributes(std::span<const FileAttributes> files) override;

 private:
  using Names = std::vector<std::string>;

  Status try_sync_directory(const std::string& path) override {
    if (!is_rados_url(path)) others_->sync_directory(path);
    return {};
  }
  Result<std::unique_ptr<File>> create(const std::string& path);
  Status remove_object(const std::string& path);
  static void set_in_namespace(RadosView& view, std::span<const FileAttributes> files,
                               std::span<const size_t> places, std::vector<Status>& said);
  Result<std::shared_ptr<RadosView>> view_of(const RadosPlace& place);
  std::optional<Result<FileInfo>> take_info(const std::string& path);
  std::optional<Names> take_names(const std::string& directory);
  Result<Names> list_all_below(const RadosPlace& place);
  Result<FileInfo> look_for(const std::string& path, const RadosPlace& place);
  std::optional<bool> is_known_directory(const std::string& path);
  Result<bool> is_directory(RadosView& view, const RadosPlace& place);

  const std::unique_ptr<Fs> others_;
  Clock& clock_;
  const RadosScope scope_;
  const OpenObjectPool open_;
  std::mutex mutex_;  // of what follows
  std::map<std::pair<std::string, std::string>, std::shared_ptr<RadosView>> views_;
  // What a listing heard and was not asked for yet, by path.
  std::unordered_map<std::string, Result<FileInfo>> infos_;
  std::map<std::string, Names> names_;
  // All directories below one that was listed, as of then.
  std::map<std::string, std::set<std::string>> directories_;
};

Result<std::shared_ptr<RadosView>> LinkedRadosFs::view_of(const RadosPlace& place) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<RadosView>& view = views_[{place.pool, place.nspace}];
  if (!view) {
    Result<std::unique_ptr<ObjectPool>> pool = open_(place.pool, place.nspace);
    if (!pool.ok()) return pool.status();
    view = std::make_shared<RadosView>(std::move(*pool), place.pool, place.nspace, scope_, clock_);
  }
  return view;
}

std::optional<Result<FileInfo>> LinkedRadosFs::take_info(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = infos_.find(path);
  if (found == infos_.end()) return std::nullopt;
  return infos_.extract(found).mapped();
}

std::optional<LinkedRadosFs::Names> LinkedRadosFs::take_names(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(directory);
  if (found == names_.end()) return std::nullopt;
  return names_.extract(found).mapped();
}

Result<std::unique_ptr<File>> LinkedRadosFs::open(const std::string& path, Mode mode) {
  if (!is_rados_url(path)) return others_->open(path, mode);
  if (mode == Mode::kCreate) return create(path);
  if (mode != Mode::kRead) return not_written(path);
  Result<RadosPlace> place = rados_place(path);
  if (!place.ok()) return place.status();
  Result<std::shared_ptr<RadosView>> view = view_of(*place);
  if (!view.ok()) return view.status();
  take_info(path);  // which may be older than what is read now
  return read_rados_file(std::move(*view), path, std::move(place->name));
}

Result<std::unique_ptr<File>> LinkedRadosFs::create(const std::string& path) {
  Result<RadosPlace> place = rados_place(path);
  if (!place.ok()) return place.status();
  if (place->name.empty()) return not_written(path);
  Result<std::shared_ptr<RadosView>> view = view_of(*place);
  if (!view.ok()) return view.status();
  take_info(path);
  {
    const std::lock_guard lock(mutex_);
    for (auto& [listed, directories] : directories_) {
      const std::string within = join(listed, "");
      if (!path.starts_with(within)) continue;
      directories.merge(directories_of(listed, {path.substr(within.size())}));
    }
  }
  return new_rados_file(std::move(*view), path, std::move(place->name));
}

Status LinkedRadosFs::remove_object(const std::string& path) {
  const Result<RadosPlace> place = rados_place(path);
  if (!place.ok()) return place.status();
  if (place->name.empty()) return not_written(path);
  const Result<std::shared_ptr<RadosView>> view = view_of(*place);
  if (!view.ok()) return view.status();
  take_info(path);
  return (*view)->remove(place->name);
}

Result<FileInfo> LinkedRadosFs::info(const std::string& path) {
  if (!is_rados_url(path)) return others_->info(path);
  if (auto known = take_info(path)) return std::move(*known);
  Result<RadosPlace> place = rados_place(path);
  if (!place.ok()) return place.status();
  return look_for(path, *place);
}

// An object, or a directory of some.
Result<FileInfo> LinkedRadosFs::look_for(const std::string& path, const RadosPlace& place) {
  const Result<std::shared_ptr<RadosView>> view = view_of(place);
  if (!view.ok()) return view.status();
  const std::string directory = rados_path(place);
  if (directory == rados_path({place.pool, place.nspace, ""})) {
    if (Status s = (*view)->look().status(); !s.ok()) return s;
    return rados_directory(directory);
  }
  if (!place.name.ends_with('/')) {
    const Result<ObjectFacts> object = (*view)->stat(std::span(&place.name, 1)).front();
    if (object.ok()) return file_of_object(path, *object);
    if (object.status().code() != Code::kNotFound) return object.status();
  }
  const Result<bool> found = is_directory(**view, place);
  if (!found.ok()) return found.status();
  if (*found) return rados_directory(directory);
  return Status(Code::kNotFound, printable(path, 1024) + ": no object, and none below it");
}

// nullopt: nothing above it was listed.
std::optional<bool> LinkedRadosFs::is_known_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::optional<bool> known;
  for (const auto& [listed, directories] : directories_) {
    if (path.starts_with(join(listed, "")))
      known = known.value_or(false) || directories.contains(path);
  }
  return known;
}

// The names of a pool are in no order that could be asked for a prefix: where nobody listed them,
// all are asked for, this once.
Result<bool> LinkedRadosFs::is_directory(RadosView& view, const RadosPlace& place) {
  const std::string path = rados_path(place);
  if (const std::optional<bool> known = is_known_directory(path)) return *known;
  const Result<Names> names = view.list();
  if (!names.ok()) return names.status();
  const std::string root = rados_path({place.pool, place.nspace, ""});
  const std::lock_guard lock(mutex_);
  return directories_.insert_or_assign(root, directories_of(root, *names))
      .first->second.contains(path);
}

Result<std::vector<std::string>> LinkedRadosFs::list(const std::string& directory) {
  if (!is_rados_url(directory)) return others_->list(directory);
  const Result<RadosPlace> place = rados_place(directory);
  if (!place.ok()) return place.status();
  if (auto known = take_names(rados_path(*place))) return std::move(*known);
  return list_all_below(*place);
}

Result<LinkedRadosFs::Names> LinkedRadosFs::list_all_below(const RadosPlace& place) {
  const Result<std::shared_ptr<RadosView>> view = view_of(place);
  if (!view.ok()) return view.status();
  Result<Names> objects = (*view)->list();
  if (!objects.ok()) return objects.status();
  const std::string directory = rados_path(place), within = join(directory, "");
  const std::string prefix =
      within.substr(join(rados_path({place.pool, place.nspace, ""}), "").size());
  std::erase_if(*objects, [&](const std::string& n) { return !n.starts_with(prefix); });
  const std::vector<Result<ObjectFacts>> facts = (*view)->stat(*objects);
  RadosTree tree(directory);
  Names below;
  for (size_t i = 0; i < facts.size(); ++i) {
    const Status& why = facts[i].status();
    if (why.code() == Code::kUnavailable) return why;
    if (why.code() == Code::kNotFound) continue;  // it was removed just now
    below.push_back((*objects)[i].substr(prefix.size()));
    const std::string path = join(directory, below.back());
    tree.add(below.back(), facts[i].ok() ? Result<FileInfo>(file_of_object(path, *facts[i])) : why);
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(infos_, [&](const auto& e) { return e.first.starts_with(within); });
  std::erase_if(names_, [&](const auto& e) { return e.first.starts_with(within); });
  std::erase_if(directories_, [&](const auto& e) { return e.first.starts_with(within); });
  directories_.insert_or_assign(directory, directories_of(directory, below));
  Names names;
  for (auto& [path, entries] : tree.take()) {
    Names& of = path == directory ? names : names_[path];
    for (auto& [entry, info] : entries) {
      of.push_back(entry);
      infos_.insert_or_assign(join(path, entry), std::move(info));
    }
  }
  return names;
}

std::vector<Status> LinkedRadosFs::set_attributes(std::span<const FileAttributes> files) {
  std::vector<Status> said(files.size());
  std::map<std::shared_ptr<RadosView>, std::vector<size_t>> of_view;
  for (size_t i = 0; i < files.size(); ++i) {
    const Result<RadosPlace> place = rados_place(files[i].path);
    const auto view = place.ok() ? view_of(*place) : place.status();
    if (view.ok()) of_view[*view].push_back(i);
    said[i] = view.status();
  }
  for (const auto& [view, places] : of_view) set_in_namespace(*view, files, places, said);
  return said;
}

// Those that are not there already, on objects that are still what the files say.
void LinkedRadosFs::set_in_namespace(RadosView& view, std::span<const FileAttributes> files,
                                     std::span<const size_t> places, std::vector<Status>& said) {
  std::vector<std::string> names;
  for (const size_t i : places) names.push_back(rados_place(files[i].path).or_throw().name);
  const std::vector<Result<ObjectDescription>> now = view.describe(names);
  std::vector<NewAttributes> lacking;
  std::vector<size_t> of_lacking;
  for (size_t n = 0; n < places.size(); ++n) {
    const FileAttributes& file = files[places[n]];
    said[places[n]] = now[n].status();
    if (!now[n].ok()) continue;
    if (!is_same_file(file_of_object(file.path, now[n]->object), file.info)) {
      said[places[n]] = Status(Code::kExists, printable(file.path, 1024) + ": it was written anew");
    } else if (!has_all(now[n]->attributes, file.attributes)) {
      lacking.push_back({names[n], now[n]->object, file.attributes});
      of_lacking.push_back(places[n]);
    }
  }
  const std::vector<Status> done = view.set_attributes(std::move(lacking));
  for (size_t n = 0; n < done.size(); ++n) said[of_lacking[n]] = done[n];
}

Result<bool> LinkedRadosFs::look(const std::string& path) {
  const Result<RadosPlace> place = rados_place(path);
  if (!place.ok()) return place.status();
  const Result<std::shared_ptr<RadosView>> view = view_of(*place);
  if (!view.ok()) return view.status();
  return (*view)->look();
}

uint64_t LinkedRadosFs::gained(const std::string& path) {
  const Result<RadosPlace> place = rados_place(path);
  if (!place.ok()) return 0;
  const std::lock_guard lock(mutex_);
  const auto view = views_.find({place->pool, place->nspace});
  return view == views_.end() || !view->second ? 0 : view->second->gained();
}

std::vector<RadosReads> LinkedRadosFs::reads() {
  std::vector<RadosReads> reads;
  const std::lock_guard lock(mutex_);
  for (const auto& [place, view] : views_) {
    if (view) view->add_reads(reads);
  }
  return reads;
}

}  // namespace

std::unique_ptr<RadosFs> with_rados(std::unique_ptr<Fs> others, Clock& clock, RadosScope scope,
                                    OpenObjectPool open) {
  return std::make_unique<LinkedRadosFs>(std::move(others), clock, std::move(scope),
                                         std::move(open));
}

}  // namespace ndtrain::ndp
