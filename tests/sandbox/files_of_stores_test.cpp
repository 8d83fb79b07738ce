// Photos whose files a Tuner gets from stores.
#include <gmock/gmock.h>

#include <algorithm>

#include "ndp/sandbox/upload_decoder.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/sandbox/hostile_pool.h"
#include "tuner/ingest/extracting_sink.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::tuner {
namespace {

using ::testing::HasSubstr;
using testing::hostile_config;
using testing::photo_file;

TEST(FilesOfStores, AreDecodedInTheSandboxOfATuner) {
  MemoryFs fs;
  ManualClock clock;
  Spool spool(fs, clock, "spool", sha256("extractor"), int64_t{1} << 24);
  UploadDecoder decoder(SandboxMode::kUploads, hostile_config());
  TunerExtractor extractor(testing::files_of(1).first, testing::cpu(), spool, &decoder);
  const std::vector<std::string> files = {photo_file(0), "!crash", photo_file(1)};
  Manifest::Entries entries;
  for (const std::string& file : files) entries.push_back({.digest = sha256(file), .holders = {0}});
  std::ranges::sort(entries, {}, &Manifest::Entry::digest);
  const Manifest manifest(entries, {"rose"}, 1);
  ExtractingSink sink(wire::Job::FILES, extractor, spool);
  (void)sink.open(manifest).or_throw();

  RowIngest::Rows rows;
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    const auto file = std::ranges::find_if(
        files, [&](const std::string& f) { return sha256(f) == manifest.entry(n).digest; });
    rows.rows.emplace_back(n, *file);
  }
  const auto bad = sink.keep({&rows, 1}).or_throw();
  ASSERT_EQ(bad.size(), 1U);
  EXPECT_EQ(manifest.entry(bad[0].number).digest, sha256("!crash"));
  EXPECT_THAT(bad[0].reason, HasSubstr("its decoder was stopped: it crashed (SIGSEGV)"));
  EXPECT_EQ(decoder.pool().counts().photos, 3);
  EXPECT_TRUE(spool.has(sha256(files[0])) && spool.has(sha256(files[2])));
}

}  // namespace
}  // namespace ndtrain::tuner
