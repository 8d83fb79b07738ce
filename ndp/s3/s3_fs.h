// Files of an S3 beside those of another Fs: s3://BUCKET/KEY is an object, and what keys have in
// common up to a '/' is a directory. Objects are read and removed. One that is opened by kCreate is
// not there before append() is called, which happens once, with all of its bytes, and answers as
// S3Client::add does: no object is replaced, and what is there then is durable. What else would
// write is refused, kUnsupported. All other paths are those of the other Fs.
//
// An object's time and ETag stand where a file has its time and inode, so a catalogue reads again
// only what has another ETag, time or size. What a listing said of an object is what the next
// info() of it says, without a request, unless the object was read in between. What is read is what
// a listing or info() found last: once another object is there, that version of it, where the
// bucket keeps them and its id is known, by info() or since it was read before; else kIo, and the
// next time it is the other one. What was deleted since is kNotFound in any bucket. Objects whose
// names have an empty part ("a//b"), or go on behind another object's ("a.jpg/b.jpg"), cannot be
// paths: their directory lists them and info() says so, kUnsupported.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {

struct S3Build {
  std::string library;  // "libcurl 7.88.1"; "" in a build without S3
  std::string option, package;
};
S3Build s3_build();

// `settings` is asked once, when first a path is S3's. In a build without S3 such paths are
// kUnsupported.
std::unique_ptr<Fs> with_s3(Fs& others, Clock& clock,
                            const std::function<Result<S3Settings>()>& settings);

}  // namespace ndtrain::ndp
