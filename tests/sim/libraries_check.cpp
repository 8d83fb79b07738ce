// What must be so at the end of a simulation of several tasks and collections.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "tests/sim/labelling.h"
#include "tests/sim/libraries.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

const std::string kTasks[] = {std::string(kDefaultTask), Libraries::kBirds};

std::string name_of(const Digest& photo) { return "photo " + to_hex(photo).substr(0, 12); }

// Of two versions with the same bytes a database has the newer number.
bool is_labelled_by(const std::vector<LabelRow>& labels, const PublishedModel& version) {
  return std::ranges::any_of(
      labels, [&](const LabelRow& l) { return l.version_content == version.content; });
}

}  // namespace

// What is asked of the database, once each.
class Libraries::Histories {
 public:
  explicit Histories(LabelDb& db) : db_(db) {
    for (const std::string& task : kTasks) tasks_[task] = db.task(task).or_throw();
  }

  // Their numbers, in one call.
  void look_up(const std::vector<Digest>& photos) {
    const std::vector<int64_t> numbers = db_.photos_with(photos).or_throw();
    for (size_t i = 0; i < photos.size(); ++i) photos_[photos[i]] = numbers[i];
  }

  // The photo's number; 0: it is not there.
  int64_t number_of(const Digest& photo) {
    const auto [number, is_new] = photos_.try_emplace(photo);
    if (is_new) number->second = db_.photos_with({&photo, 1}).or_throw().at(0);
    return number->second;
  }

  const History& of(const std::string& task, const Digest& photo) {
    const auto [history, is_new] = all_.try_emplace({photo, task});
    const int64_t number = is_new ? number_of(photo) : 0;
    if (number != 0) history->second = db_.history(tasks_.at(task), number).or_throw();
    return history->second;
  }

  uint64_t digest() const {
    std::string text;
    for (const auto& [of, history] : all_) {
      for (const LabelRow& l : history) {
        text += fmt::format("{} {} {} {} {} {} {} {}\n", to_hex(of.first), of.second, l.class_name,
                            static_cast<int>(l.source), l.version_number.value_or(0),
                            l.score.value_or(-1), l.time, l.withdrawn);
      }
    }
    return xxh3(text.data(), text.size());
  }

 private:
  LabelDb& db_;
  std::map<std::string, int64_t> tasks_;
  std::map<Digest, int64_t> photos_;
  std::map<std::pair<Digest, std::string>, History> all_;
};

bool Libraries::is_out(const Digest& photo) const {
  return tuner_->service().is_deleted(photo) || tuner_->service().trash().has(photo);
}

void Libraries::check() {
  for (const auto& [task, collection] : labels_) {
    if (!tuner_->versions().collections(task).contains(collection)) {
      violation("the Tuner has forgotten that " + task + " labels photos of " + collection);
    }
  }
  const auto db = open_label_db(url_).or_throw();
  Histories histories(*db);
  check_photos(histories);
  check_uploads(histories);
  labels_digest_ = histories.digest();
}

uint64_t Libraries::digest_of_all() const {
  static const std::regex temporary("ndt-tmp-[0-9a-f]+-[0-9]+");  // has a number of this process
  std::string text = fmt::format("{:x} {:x}", timeline_.trace(), labels_digest_);
  for (const std::string& line : story_) text += "\n" + std::regex_replace(line, temporary, "");
  text += fmt::format("\n{:x}", tuner_->disk_digest());
  for (const auto& store : stores_) text += fmt::format(" {:x}", store->disk_digest());
  return xxh3(text.data(), text.size());
}

void Libraries::check_photos(Histories& histories) {
  std::map<Digest, std::set<std::string>> first, readable;  // collections
  for (size_t s = 0; s < stores_.size(); ++s) {
    for (const StorePhoto& p : first_.of(s)) {
      first[p.digest].insert(collection_of(s));
      const bool here = collection_.holds(s, p.digest) && !Collection::bad(s, p.digest);
      if (here) readable[p.digest].insert(collection_of(s));
    }
  }
  std::vector<Digest> all;
  for (const auto& [photo, collections] : first) all.push_back(photo);
  histories.look_up(all);
  for (const auto& [photo, collections] : first) check_labels(histories, photo, collections);
  for (const auto& [task, collection] : labels_) {
    const PublishedModel version = tuner_->versions().in_force(task).value();
    for (const auto& [photo, collections] : readable) {
      if (!collections.contains(collection)) continue;
      if (!is_labelled_by(histories.of(task, photo), version)) {
        violation(fmt::format("{} has no label of version {} of {}", name_of(photo),
                              version.version, task));
      }
    }
  }
}

// Trainings that come to the same weights are one version for labels, under the greater number,
// though their files may differ in what they say besides.
bool Libraries::says(const PublishedModel& version, const Digest& photo,
                     const std::string& name) const {
  return std::ranges::any_of(tuner_->versions().all(), [&](const PublishedModel& other) {
    return other.content == version.content && other.task == version.task &&
           name == class_name(other.task, labelled_class(photo, other.head));
  });
}

// Of whatever version it has labels: they are right, and of tasks of its collections alone.
void Libraries::check_labels(Histories& histories, const Digest& photo,
                             const std::set<std::string>& collections) {
  for (const std::string& task : kTasks) {
    const bool may = std::ranges::any_of(collections, [&](const std::string& c) {
      return labels_.contains({task, c});
    });
    check_labels(histories.of(task, photo), task, photo, may);
  }
}

void Libraries::check_labels(const History& labels, const std::string& task, const Digest& photo,
                             bool may) {
  std::set<int64_t> by;
  for (const LabelRow& label : labels) {
    if (label.source != LabelSource::kModel) continue;
    const std::string what = fmt::format("{}, task {}: ", name_of(photo), task);
    const auto version =
        tuner_->versions().find(static_cast<uint64_t>(label.version_number.value_or(0)));
    if (!may) violation(what + "it is labelled, and is in no collection of the task");
    if (!version || version->task != task) {
      violation(what + "a label is of a version of another task");
    } else if (!says(*version, photo, label.class_name)) {
      violation(fmt::format("{}version {} calls it {}, not {}", what, version->version,
                            class_name(task, labelled_class(photo, version->head)),
                            label.class_name));
    }
    if (!by.insert(label.version.value_or(0)).second) violation(what + "a label is there twice");
  }
}

void Libraries::check_uploads(Histories& histories) {
  for (size_t s = 0; s < stores_.size(); ++s) {
    for (uint64_t n = 0; n < StoreMachine::kUploads; ++n) {
      const Digest photo = StoreMachine::uploaded(s, n);
      check_labels(histories, photo, {collection_of(s)});
      check_upload(histories, *stores_[s], photo);
    }
  }
  for (const auto& [photo, store] : taken_) {
    if (deleted_.contains(photo)) continue;
    const auto known = stores_[store]->log().find(photo);
    if (!known || !known->uploaded) violation("an upload is lost: " + name_of(photo));
  }
  for (const auto& [photo, answered] : deleted_) {
    if (answered && histories.number_of(photo) != 0) {
      violation("there are labels of a photo that was deleted: " + name_of(photo));
    }
  }
  for (const auto& [photo, in] : trashed_) {
    if (!in || deleted_.contains(photo)) continue;
    if (tuner_->service().trash().has(photo) != *in) {
      violation(name_of(photo) + (*in ? " is not in the trash any more" : " is not restored"));
    }
  }
}

// The database has what the store's log says, and what people were answered.
void Libraries::check_upload(Histories& histories, const StoreMachine& store, const Digest& photo) {
  if (is_out(photo)) return;
  for (const std::string& task : kTasks) {
    const History& labels = histories.of(task, photo);
    const auto known = store.log().find(photo, task);
    const auto version = tuner_->versions().find(known ? known->version : 0);
    if (version && !is_labelled_by(labels, *version)) {
      violation(fmt::format("{} has lost its label of version {} of {}", name_of(photo),
                            version->version, task));
    }
    const auto said = said_.find({photo, task});
    if (said == said_.end() || deleted_.contains(photo)) continue;
    History people = labels;
    std::erase_if(people, [](const LabelRow& l) { return l.source != LabelSource::kHuman; });
    const auto last = std::ranges::max_element(people, {}, &LabelRow::time);
    const Said& answered = said->second;
    // What was said before, and is said again, is no new label.
    if (last != people.end() &&
        (last->time > answered.time || last->class_name == answered.class_name)) {
      continue;
    }
    violation(fmt::format("{}, task {}: it was answered that it is {}, which is lost",
                          name_of(photo), task, answered.class_name));
  }
}

}  // namespace ndtrain::sim
