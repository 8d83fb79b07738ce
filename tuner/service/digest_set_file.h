// A set of digests in a file that is asked by position and never read whole. Digests are uniform,
// so one is found where it says that it is, within one to three blocks; a filter of 10 bits for
// each, which may be held in memory, says of 99 in 100 that are not there that they are not.
//
// Blocks of 4096 bytes: 4064 of content, then as 8 bytes each 0, the place of the block in the
// file, the identity of the set (XXH3 of its name and digests), XXH3 of all before. Block 0 has
// "NDTDIGS1", the number of digests, the length of the name and the name; then come 127 digests a
// block, rising; then the filter.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::tuner {

// Of Bloom: what was added it may have, of others it may have one in a hundred.
class DigestFilter {
 public:
  explicit DigestFilter(uint64_t digests = 0);
  void add(const Digest& digest);
  bool may_have(const Digest& digest) const;
  std::span<std::byte> bytes() { return bits_; }
  bool operator==(const DigestFilter&) const = default;

 private:
  std::vector<std::byte> bits_;
};

struct DigestSetFacts {
  std::string name;  // whose set it is
  uint64_t digests = 0, identity = 0;
};

// Replaces the file, whose directory must exist. `digests` rise; the filter is theirs on return.
Result<DigestSetFacts> write_digest_set(Fs& fs, const std::string& path, const std::string& name,
                                        std::span<const Digest> digests, DigestFilter& filter);

// kCorrupt from any of these: the file is not as it was written.
class DigestSetFile {
 public:
  static Result<DigestSetFile> open(Fs& fs, const std::string& path);
  // As it was when these facts were read or written; nothing is read.
  static Result<DigestSetFile> open(Fs& fs, const std::string& path, DigestSetFacts facts);

  const DigestSetFacts& facts() const { return facts_; }
  Result<bool> has(const Digest& digest);
  // In byte order, some at a time.
  Status each(const std::function<void(std::span<const Digest>)>& some);
  Result<DigestFilter> filter();
  Status check();  // all of it

 private:
  DigestSetFile(std::unique_ptr<File> file, DigestSetFacts facts)
      : file_(std::move(file)), facts_(std::move(facts)) {}
  Status read(uint64_t block, std::span<std::byte> to);
  Result<std::span<const Digest>> digests_of(uint64_t block);  // borrowed until the next

  std::unique_ptr<File> file_;
  DigestSetFacts facts_;
  std::vector<Digest> block_;  // read last
};

}  // namespace ndtrain::tuner
