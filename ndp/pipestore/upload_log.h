// What a PipeStore promised about uploads: which photos it has taken, what they were labelled, what
// people said of them, which were deleted. An append-only file of lines (upload_format.h has its
// bytes), each a wire::Upload; one without a digest says up to where the Tuner has acknowledged.
// What the Tuner has not acknowledged is the outbox. Lines of one photo replace each other: the
// newest label and the newest truth in each task (ndp/labels/label_db.h), or the news that it was
// deleted.
//
// Lines that the disk has damaged are lost, and no others: the log says between which ones and
// goes on without them, in a new file; the one they stood in stays beside it as log.damaged-N.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/core/digest_hash.h"
#include "framework/core/fs.h"
#include "ndp/labels/label_db.h"
#include "ndp/pipestore/upload_format.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

class UploadLog {
 public:
  // What a photo's lines say together, in one task.
  struct Known {
    std::string path;  // as StorePhotos has it
    int64_t time = 0;  // of the label, or of the newest line without one; Unix seconds
    bool uploaded = false, removed = false;
    uint64_t version = 0;  // that labelled it last; 0: none has
    std::string files;     // of that version: the digests of its extractor and head
    std::vector<wire::TopClass> top;
    std::string truth;  // "": nobody said
    int64_t said = 0;   // when; Unix seconds
  };
  struct Line {
    uint64_t sequence = 0;
    std::string bytes;        // a wire::Upload
    bool other_task = false;  // than the default one
  };
  struct Counts {
    int64_t photos = 0, removed = 0, unacknowledged = 0;
    int64_t unlabelled = 0;             // photos that the version of some task has yet to label
    int64_t bytes = 0, dead_bytes = 0;  // of the file
    bool damaged = false;               // a line could not be read; compact() says what is lost
  };

  // `directory` is made if absent; one process has it. What a crash left of a last commit goes.
  // Logs of the format before are rewritten.
  static Result<std::unique_ptr<UploadLog>> open(Fs& fs, const std::string& directory);
  ~UploadLog();

  // Gives the lines their sequence; all or none, durable on return. What several threads commit at
  // a time shares an fsync. kNoSpace, kIo: nothing of it is there. kUnsupported: a line is none
  // that a Tuner takes (ndp/wire/message_limits.h).
  Status commit(std::vector<wire::Upload> lines);
  // The same, but for lines of photos that are deleted by then, and those without a label of photos
  // that were taken before: these say nothing new.
  Status commit_new(std::vector<wire::Upload> lines);

  // Throws Error when a line cannot be read any more; so do the two below.
  std::optional<Known> find(const Digest& photo, std::string_view task = kDefaultTask) const;
  // In which something is said of the photo, in the order in which the log heard of them.
  std::vector<std::string> tasks_of(const Digest& photo) const;
  // What people did about a photo, which is quick to find out where nobody did anything; in the
  // default task.
  struct Feedback {
    bool removed = false;
    std::string truth;  // as in Known
  };
  Feedback feedback(const Digest& photo) const;
  // The tasks in which photos are to be labelled; the default one, until this is said.
  void label_in(std::set<std::string, std::less<>> tasks);
  // Some of the photos that no version has labelled in one of these tasks, after `after` in byte
  // order.
  std::vector<Digest> unlabelled(const std::optional<Digest>& after, size_t most,
                                 std::string_view task = kDefaultTask) const;
  std::vector<std::pair<Digest, std::string>> removed() const;  // with their paths
  Counts counts() const;

  // The outbox: lines after `sequence`, in order, about `bytes` of them and one at least, if any.
  // One that cannot be read any more leaves it.
  std::vector<Line> after(uint64_t sequence, size_t bytes);
  // All lines up to this one are safe elsewhere. Remembered with the next commit.
  void acknowledged(uint64_t sequence);
  uint64_t acknowledged() const;
  // What is safe elsewhere is so no more: what the log says of each photo is in the outbox again.
  // Durable on return. Rewrites the file.
  Status unacknowledge();

  // Labels by versions up to this one and what people said so far in the task, which was taken
  // away, are not there any more, and not those that are on their way here; photos are. Durable on
  // return. Rewrites the file.
  Status forget_task(const std::string& task, uint64_t version);

  // Rewrites the file without what nobody asks for any more, deleted photos' paths included, and
  // without what is damaged.
  Status compact();

 private:
  struct Place {
    int64_t at = 0;      // of the line itself
    uint32_t bytes = 0;  // 0: there is no line
    explicit operator bool() const { return bytes > 0; }
  };
  struct InTask {
    size_t task = 0;  // in task_names_
    Place label, truth;
  };
  struct Photo {
    Place taken, removal;       // taken: a line without a label, where none has one
    std::vector<InTask> tasks;  // of which something is said

    bool uploaded() const;
    const InTask* in(size_t task) const;
  };
  // A commit that waits for whoever writes.
  struct Waiting {
    std::vector<wire::Upload> lines;
    bool only_new = false;
    bool done = false;
    Status status = {};
  };

  UploadLog(Fs& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  Status recover();
  Status reopen();
  Status commit(Waiting mine);
  void leave_out_known(const std::vector<Waiting*>& batch) const;
  void leave_out_forgotten(const std::vector<Waiting*>& batch) const;
  Status write(const std::vector<Waiting*>& batch);
  void take(const wire::Upload& line, const Place& at);
  void replace(Place& old, const Place& now);
  void count(const Digest& id, const Photo& photo, int sign);
  void find_unlabelled();
  static bool waits_for_label(const Photo& photo, std::optional<size_t> task);
  std::optional<size_t> number_of(std::string_view task) const;
  size_t numbered(std::string_view task);
  Result<wire::Upload> read(const Place& at) const;
  bool alive(const wire::Upload& line, const Place& at) const;
  Status rewrite(const std::string& without_task = "");
  Status alone(const std::function<Status()>& f);  // while nobody else writes
  Result<upload_format::LogWalk> each_line(
      int64_t size, const std::function<void(wire::Upload, const Place&)>& f) const;
  Status keep_damaged(const std::vector<upload_format::LogDamage>& damage) const;
  void end_writing();  // under commit_mutex_
  wire::Upload mark() const;

  Fs& fs_;
  const std::string path_;

  std::mutex commit_mutex_;  // of these
  std::condition_variable committed_;
  std::vector<Waiting*> waiting_;
  bool writing_ = false;

  // Of the one that is writing.
  std::unique_ptr<File> file_;
  Status broken_;  // why nothing can be written any more
  uint64_t next_ = 1;

  mutable std::mutex mutex_;  // of all below; not held while disks are waited for
  std::shared_ptr<File> reader_;
  upload_format::LogHeader header_;  // of what reader_ reads
  mutable bool damaged_ = false;
  std::unordered_map<Digest, Photo, DigestHash> photos_;
  std::vector<std::string> task_names_;
  std::map<std::string, std::set<Digest>, std::less<>> unlabelled_{
      {std::string(kDefaultTask), {}}};  // by task, of all that photos are labelled in
  std::map<std::string, uint64_t, std::less<>> forgotten_;  // tasks, up to these versions
  std::map<uint64_t, Place> outbox_;
  uint64_t acknowledged_ = 0;
  bool mark_due_ = false;
  int64_t end_ = 0, dead_ = 0;
  int64_t uploaded_ = 0, removed_ = 0, waiting_photos_ = 0;
};

}  // namespace ndtrain::ndp
