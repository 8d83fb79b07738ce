// What somebody may do. Each role may do all that those before it may.
#pragma once

#include <optional>
#include <string_view>

namespace ndtrain::ndp {

enum class Role { kAnyone, kViewer, kUploader, kLabeller, kOperator, kAdmin };

std::string_view name_of(Role role);
std::optional<Role> role_of(std::string_view name);  // that a token can have: any but kAnyone

// A token may be for one collection: for its photos and labels, and for nothing of the whole site.
enum class HttpScope {
  kSite,
  kPhotos,      // of the collection that the server has, whatever is asked for
  kCollection,  // of the one that the query's `collection` names, by which the handler goes too
  kNone,        // what is of no photos: for each token
};

// A token may be for one task (ndp/labels/label_db.h): for what is said in it of photos, and for
// these as they are.
enum class HttpTask {
  kAll,    // what is asked for is of no task, or of all: not for such a token
  kPhoto,  // a photo's pixels
  kNamed,  // of the one that the query's `task` names, by which the handler goes too
  kNone,   // what says nothing of photos: for each token
};

// Who may ask for something over HTTP. There is none that nobody thought of: no default.
struct HttpPermission {
  HttpPermission(Role r, HttpScope s = HttpScope::kSite, HttpTask t = HttpTask::kAll)  // NOLINT
      : role(r), scope(s), task(t) {}
  Role role;  // the least
  HttpScope scope;
  HttpTask task;
};

}  // namespace ndtrain::ndp
