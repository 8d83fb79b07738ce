// Attributes that are written on an object make a new version of it, though its bytes are as they
// were. So a mark is written with them, as an attribute too: the version that the bytes are of, and
// the object's time, which such a write leaves as it was. Where the time is another one, somebody
// has written the object since, and the mark says nothing.
#pragma once

#include <string>

#include "ndp/rados/object_pool.h"

namespace ndtrain::ndp {

inline constexpr const char* kContentMark = "ndtrain.content";

// "VERSION SECONDS", for attributes that are written on `object`.
std::string content_mark(const ObjectFacts& object);

// ObjectFacts::content of an object with these attributes.
uint64_t content_version(const ObjectFacts& object, const ObjectAttributes& attributes);

// Whether an object of this time can be marked at `now` (Unix seconds): what is written later would
// have another time in seconds, also by a clock that is a little behind.
bool is_settled(const ObjectFacts& object, int64_t now);

}  // namespace ndtrain::ndp
