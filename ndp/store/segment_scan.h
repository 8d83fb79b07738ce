// Reads the records of a segment file: one, or all where the index is missing.
#pragma once

#include <functional>

#include "framework/core/fs.h"
#include "ndp/store/key_table.h"
#include "ndp/store/segment_format.h"

namespace ndtrain::ndp {

// Header, then offset of the header in the file.
using RecordVisitor = std::function<Status(const RecordHeader&, int64_t)>;

// Visits every whole record that begins at `begin` or later, in order. A record with a wrong
// checksum counts as never written; after damage the walk goes on at the next good header. Payloads
// are read only with `verify_payloads`: without it a record whose payload is wrong is visited, and
// found out by whoever reads it. Returns the end of the last record visited, `begin` if none.
Result<int64_t> scan_segment(File& file, uint64_t salt, int64_t begin, bool verify_payloads,
                             const RecordVisitor& visit);

// Fills `payload`, which has header.length bytes; kCorrupt if they are not what `header` promises.
// `offset` is the record's.
Status read_payload(File& file, const RecordHeader& header, int64_t offset,
                    std::span<std::byte> payload);

// The header of the record that is said to be there. kCorrupt.
Result<RecordHeader> read_header(File& file, uint64_t salt, const Location& at);
// The same; kNotFound: it is of another key.
Result<RecordHeader> read_header(File& file, uint64_t salt, const Location& at, const Digest& key);
// The same, and the payload, which has `at.length` bytes.
Result<RecordHeader> read_record(File& file, uint64_t salt, const Location& at, const Digest& key,
                                 std::span<std::byte> payload);

}  // namespace ndtrain::ndp
