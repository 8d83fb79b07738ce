// Whether one file is as it was written: kCorrupt, and why, or what cannot be read.
#pragma once

#include <string>

#include "framework/core/fs.h"

namespace ndtrain::cli {

Status check_json(Fs& fs, const std::string& path);  // and its checksum, where it has one
Status check_state_json(Fs& fs, const std::string& path);
Status check_checkpoint(Fs& fs, const std::string& path);  // of a training
Status check_lowered(Fs& fs, const std::string& path);
Status check_json_lines(Fs& fs, const std::string& path);  // the last one may be cut off
Status check_cbor(Fs& fs, const std::string& path);        // of a job: behind it its checksum
Status check_tokens(Fs& fs, const std::string& path);
Status check_model(Fs& fs, const std::string& path);    // called as its SHA-256
Status check_upload(Fs& fs, const std::string& path);   // a photo, so called, too
Status check_segment(Fs& fs, const std::string& path);  // every record of it
Status check_index(Fs& fs, const std::string& path);    // of segments
Status check_upload_log(Fs& fs, const std::string& path);
Status check_store_trash(Fs& fs, const std::string& path);
Status check_deletions(Fs& fs, const std::string& path);
Status check_trash(Fs& fs, const std::string& path);
Status check_digest_set(Fs& fs, const std::string& path);
Status check_database(Fs& fs,
                      const std::string& path);  // every page of it; `fs` must be the real one

}  // namespace ndtrain::cli
