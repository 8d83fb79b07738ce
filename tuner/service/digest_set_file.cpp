#include "tuner/service/digest_set_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/core/coding.h"
#include "framework/core/publish.h"

namespace ndtrain::tuner {

namespace {

constexpr uint64_t kBlock = 4096, kContent = 4064;
constexpr uint64_t kDigestsOfBlock = kContent / sizeof(Digest);
constexpr uint64_t kPlaceAt = kContent + 8, kIdentityAt = kPlaceAt + 8, kChecksumAt = kBlock - 8;
constexpr uint64_t kNameAt = 24;
constexpr uint64_t kBitsOfDigest = 10;
constexpr uint64_t kMostDigests = uint64_t{1} << 40;  // so that sizes do not overflow
constexpr std::string_view kMagic = "NDTDIGS1";
constexpr size_t kBlocksAtOnce = 64;  // written

uint64_t digest_blocks(uint64_t digests) {
  return (digests + kDigestsOfBlock - 1) / kDigestsOfBlock;
}
uint64_t filter_bytes(uint64_t digests) { return (digests * kBitsOfDigest + 7) / 8; }
uint64_t all_blocks(uint64_t digests) {
  return 1 + digest_blocks(digests) + (filter_bytes(digests) + kContent - 1) / kContent;
}

Status corrupt(std::string_view why) { return {Code::kCorrupt, std::string(why)}; }

// Rises with the digest.
uint64_t key_of(const Digest& d) {
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i) key = key << 8 | d[i];
  return key;
}

uint64_t identity_of(std::string_view name, std::span<const Digest> digests) {
  return xxh3(digests.data(), digests.size_bytes(), xxh3(name.data(), name.size()));
}

class BlockWriter {
 public:
  BlockWriter(Publisher& to, uint64_t identity) : to_(to), identity_(identity) {}

  Status add(std::span<const std::byte> content) {
    const size_t at = bytes_.size();
    bytes_.resize(at + kBlock);
    std::byte* const block = bytes_.data() + at;
    std::ranges::copy(content, block);
    store_le(block + kPlaceAt, place_++);
    store_le(block + kIdentityAt, identity_);
    store_le(block + kChecksumAt, xxh3(block, kChecksumAt));
    return bytes_.size() < kBlocksAtOnce * kBlock ? Status() : flush();
  }
  Status add_all(std::span<const std::byte> bytes, uint64_t of_block) {
    for (uint64_t at = 0; at < bytes.size(); at += of_block) {
      Status s = add(bytes.subspan(at, std::min<uint64_t>(of_block, bytes.size() - at)));
      if (!s.ok()) return s;
    }
    return {};
  }
  Status flush() {
    const Status s = to_.write(bytes_);
    bytes_.clear();
    return s;
  }

 private:
  Publisher& to_;
  const uint64_t identity_;
  uint64_t place_ = 0;
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> header_of(std::string_view name, uint64_t digests) {
  std::vector<std::byte> header(kNameAt + name.size());
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  store_le(header.data() + 8, digests);
  store_le(header.data() + 16, static_cast<uint64_t>(name.size()));
  std::memcpy(header.data() + kNameAt, name.data(), name.size());
  return header;
}

// Of a block 0 whose checksum is right.
Result<DigestSetFacts> facts_of(const std::byte* block) {
  const auto digests = load_le<uint64_t>(block + 8), name = load_le<uint64_t>(block + 16);
  if (std::memcmp(block, kMagic.data(), kMagic.size()) != 0 || digests > kMostDigests ||
      name > kContent - kNameAt) {
    return corrupt("it does not begin as a set of digests does");
  }
  return DigestSetFacts{.name = {reinterpret_cast<const char*>(block) + kNameAt, name},
                        .digests = digests,
                        .identity = load_le<uint64_t>(block + kIdentityAt)};
}

// Where a key would be among blocks `low` to `high`, whose digests have keys of this range.
uint64_t guess(uint64_t key, uint64_t low, uint64_t high, uint64_t low_key, uint64_t high_key) {
  if (high_key <= low_key || key <= low_key) return low;
  const double share = static_cast<double>(key - low_key) / static_cast<double>(high_key - low_key);
  const auto ahead = static_cast<uint64_t>(share * static_cast<double>(high - low));
  return std::min(low + ahead, high - 1);
}

}  // namespace

DigestFilter::DigestFilter(uint64_t digests) : bits_(filter_bytes(digests)) {}

// A digest is its own hash: each 8 bytes of it name a bit.
void DigestFilter::add(const Digest& d) {
  for (size_t i = 0; i < sizeof(d); i += 8) {
    const auto word = load_le<uint64_t>(reinterpret_cast<const std::byte*>(d.data()) + i);
    const uint64_t bit = word % (bits_.size() * 8);
    bits_[bit / 8] |= std::byte{1} << (bit % 8);
  }
}

bool DigestFilter::may_have(const Digest& d) const {
  if (bits_.empty()) return false;
  for (size_t i = 0; i < sizeof(d); i += 8) {
    const auto word = load_le<uint64_t>(reinterpret_cast<const std::byte*>(d.data()) + i);
    const uint64_t bit = word % (bits_.size() * 8);
    if ((bits_[bit / 8] >> (bit % 8) & std::byte{1}) == std::byte{0}) return false;
  }
  return true;
}

Result<DigestSetFacts> write_digest_set(Fs& fs, const std::string& path, const std::string& name,
                                        std::span<const Digest> digests, DigestFilter& filter) {
  if (name.size() > kContent - kNameAt) {
    return Status(Code::kTooLarge, fmt::format("a name of {} bytes", name.size()));
  }
  DigestSetFacts facts{name, digests.size(), identity_of(name, digests)};
  filter = DigestFilter(digests.size());
  for (const Digest& d : digests) filter.add(d);
  Result<Publisher> to = Publisher::start(fs, path);
  if (!to.ok()) return to.status();
  BlockWriter blocks(*to, facts.identity);
  Status s = blocks.add(header_of(name, digests.size()));
  if (s.ok()) s = blocks.add_all(std::as_bytes(digests), kDigestsOfBlock * sizeof(Digest));
  if (s.ok()) s = blocks.add_all(filter.bytes(), kContent);
  if (s.ok()) s = blocks.flush();
  if (s.ok()) s = to->commit();
  if (!s.ok()) return s;
  return facts;
}

Result<DigestSetFile> DigestSetFile::open(Fs& fs, const std::string& path) {
  Result<DigestSetFile> file = open(fs, path, {});
  if (!file.ok()) return file;
  std::vector<std::byte> block(kBlock);
  if (Status s = file->read(0, block); !s.ok()) return s;
  Result<DigestSetFacts> facts = facts_of(block.data());
  if (!facts.ok()) return facts.status();
  const Result<int64_t> size = file->file_->size();
  if (!size.ok()) return size.status();
  const uint64_t is = all_blocks(facts->digests) * kBlock;
  if (static_cast<uint64_t>(*size) != is) {
    return corrupt(fmt::format("it has {} bytes, and {} were written", *size, is));
  }
  file->facts_ = std::move(*facts);
  return file;
}

Result<DigestSetFile> DigestSetFile::open(Fs& fs, const std::string& path, DigestSetFacts facts) {
  Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  return DigestSetFile(std::move(*file), std::move(facts));
}

// Of block 0 any identity is taken: it says which is the others'.
Status DigestSetFile::read(uint64_t place, std::span<std::byte> to) {
  const Result<size_t> got = file_->read_at(static_cast<int64_t>(place * kBlock), to);
  if (!got.ok()) return got.status();
  if (*got < kBlock) return corrupt(fmt::format("it ends in block {}", place));
  const bool is_it = load_le<uint64_t>(to.data() + kChecksumAt) == xxh3(to.data(), kChecksumAt) &&
                     load_le<uint64_t>(to.data() + kPlaceAt) == place &&
                     (place == 0 || load_le<uint64_t>(to.data() + kIdentityAt) == facts_.identity);
  return is_it ? Status() : corrupt(fmt::format("block {} is not as it was written", place));
}

Result<std::span<const Digest>> DigestSetFile::digests_of(uint64_t block) {
  block_.resize(kBlock / sizeof(Digest));
  if (Status s = read(1 + block, std::as_writable_bytes(std::span(block_))); !s.ok()) return s;
  const uint64_t left = facts_.digests - block * kDigestsOfBlock;
  return std::span<const Digest>(block_).first(std::min(left, kDigestsOfBlock));
}

Result<bool> DigestSetFile::has(const Digest& digest) {
  // Digests that somebody chose need not be uniform: then it is halved.
  constexpr int kGuesses = 4;
  uint64_t low = 0, high = digest_blocks(facts_.digests);
  uint64_t low_key = 0, high_key = UINT64_MAX;
  const uint64_t key = key_of(digest);
  for (int reads = 0; low < high; ++reads) {
    const uint64_t block =
        reads < kGuesses ? guess(key, low, high, low_key, high_key) : low + (high - low) / 2;
    const Result<std::span<const Digest>> here = digests_of(block);
    if (!here.ok()) return here.status();
    if (digest < here->front()) {
      high = block;
      high_key = key_of(here->front());
    } else if (here->back() < digest) {
      low = block + 1;
      low_key = key_of(here->back());
    } else {
      return std::ranges::binary_search(*here, digest);
    }
  }
  return false;
}

Status DigestSetFile::each(const std::function<void(std::span<const Digest>)>& some) {
  for (uint64_t block = 0; block < digest_blocks(facts_.digests); ++block) {
    const Result<std::span<const Digest>> here = digests_of(block);
    if (!here.ok()) return here.status();
    some(*here);
  }
  return {};
}

Result<DigestFilter> DigestSetFile::filter() {
  DigestFilter filter(facts_.digests);
  std::vector<std::byte> block(kBlock);
  uint64_t place = 1 + digest_blocks(facts_.digests);
  for (std::span<std::byte> left = filter.bytes(); !left.empty(); ++place) {
    if (Status s = read(place, block); !s.ok()) return s;
    const size_t some = std::min<size_t>(kContent, left.size());
    std::copy_n(block.begin(), some, left.begin());
    left = left.subspan(some);
  }
  return filter;
}

Status DigestSetFile::check() {
  uint64_t wrong = 0;
  DigestFilter of_these(facts_.digests);
  Digest last{};
  Status read = each([&](std::span<const Digest> some) {
    for (const Digest& d : some) {
      wrong += d < last;
      of_these.add(last = d);
    }
  });
  if (!read.ok()) return read;
  const Result<DigestFilter> filter = this->filter();
  if (!filter.ok()) return filter.status();
  return wrong == 0 && *filter == of_these ? Status() : corrupt("its digests are not in order");
}

}  // namespace ndtrain::tuner
