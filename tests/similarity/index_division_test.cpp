#include "ndp/similarity/index_division.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kDimensions = 24, kGroups = 60;

Digest member(size_t i) { return sha256("member " + std::to_string(i)); }

bool every(const Digest&) { return true; }

Embedding direction(Rng& rng) {
  Embedding e(kDimensions);
  for (float& x : e) x = static_cast<float>(rng.next_normal());
  EXPECT_TRUE(normalise(e));
  return e;
}

// Around as many directions as there are groups.
Embedding grouped(size_t i) {
  Rng of_group(5, i % kGroups), rng(6, i);
  Embedding e = direction(of_group);
  for (float& x : e) x += static_cast<float>(0.1 * rng.next_normal());
  EXPECT_TRUE(normalise(e));
  return e;
}

EmbeddingIndex index_of(size_t photos) {
  EmbeddingIndex index(kDimensions);
  for (size_t i = 0; i < photos; ++i) index.put(member(i), grouped(i));
  return index;
}

void divide(EmbeddingIndex& index, int threads = 1) {
  std::shared_mutex mutex;
  ThreadPool pool(threads);
  const IndexDivision division = division_of(index, mutex, pool);
  index.divide(division.partition, division.cells);
}

std::set<Digest> ids_of(const std::vector<Neighbour>& all) {
  std::set<Digest> ids;
  for (const Neighbour& n : all) ids.insert(n.photo);
  return ids;
}

// Of the ten nearest to each of 50 others, how many are found.
double recall_of(const EmbeddingIndex& index) {
  size_t found = 0;
  for (size_t q = 0; q < 50; ++q) {
    const Embedding query = grouped(1'000'000 + q);
    const std::set<Digest> right = ids_of(index.nearest_exactly(query, 10, every));
    for (const Digest& id : ids_of(index.nearest(query, 10, every))) found += right.count(id);
  }
  return static_cast<double>(found) / 500;
}

TEST(IndexDivision, FindsAlmostAllThatALookAtEachFinds) {
  EmbeddingIndex index = index_of(9000);
  divide(index);
  ASSERT_NE(index.partition(), nullptr);
  EXPECT_EQ(index.partition()->cells(), EmbeddingPartition::cells_for(9000));
  EXPECT_EQ(index.blocks(), index.partition()->cells());
  EXPECT_EQ(index.size(), 9000U);
  EXPECT_GE(recall_of(index), 0.95);
  EXPECT_EQ(ids_of(index.nearest_exactly(grouped(3), 9000, every)).size(), 9000U);
  EXPECT_EQ(ids_of(index.nearest(grouped(3), 9000, every)).size(), 9000U)
      << "all cells, if it must";
}

// Those that are taken are in other cells than those that are near.
TEST(IndexDivision, GoesOnToOtherCellsForWhatIsTaken) {
  EmbeddingIndex index = index_of(9000);
  divide(index);
  const Embedding query = grouped(0);
  const std::vector<Neighbour> all = index.nearest_exactly(query, 9000, every);
  std::set<Digest> far;
  for (size_t i = 8500; i < 9000; ++i) far.insert(all[i].photo);
  const auto is_far = [&](const Digest& id) { return far.contains(id); };
  EXPECT_EQ(index.nearest(query, 500, is_far).size(), 500U);
}

TEST(IndexDivision, IsTheSameByAnyNumberOfThreads) {
  EmbeddingIndex one = index_of(3000), two = index_of(3000);
  divide(one, 1);
  divide(two, 2);
  EXPECT_EQ(one.partition()->bytes({}), two.partition()->bytes({}));
  for (size_t i = 0; i < one.blocks(); ++i) EXPECT_EQ(one.block(i).photos, two.block(i).photos);
}

// Also of what has come, gone or been replaced between the division and its taking over.
TEST(IndexDivision, FollowsWhatComesAndGoes) {
  EmbeddingIndex index = index_of(3000);
  std::shared_mutex mutex;
  ThreadPool pool(1);
  const IndexDivision division = division_of(index, mutex, pool);
  index.erase(member(7));
  for (size_t i = 3000; i < 3100; ++i) index.put(member(i), grouped(i));
  index.divide(division.partition, division.cells);
  for (size_t i = 3100; i < 3200; ++i) index.put(member(i), grouped(i));
  index.erase(member(8));
  index.put(member(9), grouped(10));
  EXPECT_EQ(index.size(), 3198U);
  for (const size_t gone : {7, 8}) {
    EXPECT_FALSE(ids_of(index.nearest(grouped(gone), 3200, every)).contains(member(gone)));
  }
  for (const size_t here : {10, 3050, 3150}) {
    EXPECT_TRUE(ids_of(index.nearest(grouped(here), 10, every)).contains(member(here)));
  }
  EXPECT_TRUE(ids_of(index.nearest(grouped(10), 2, every)).contains(member(9)));
  for (size_t i = 0; i < 3200; ++i) index.erase(member(i));
  EXPECT_EQ(index.size(), 0U);
  EXPECT_TRUE(index.nearest(grouped(1), 5, every).empty());
}

TEST(IndexDivision, EndsWhereItIsStopped) {
  const EmbeddingIndex index = index_of(500);
  std::shared_mutex mutex;
  ThreadPool pool(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(division_of(index, mutex, pool, stop.get_token()).partition, nullptr);
  EXPECT_THROW((void)division_of(EmbeddingIndex(3), mutex, pool), Error);
}

std::span<const std::byte> as_read(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

TEST(EmbeddingPartition, IsReadAsItWasWritten) {
  EmbeddingIndex index = index_of(800);
  divide(index);
  const Digest extractor = sha256("extractor");
  const std::string bytes = index.partition()->bytes(extractor);
  const auto read = EmbeddingPartition::read(as_read(bytes), extractor, kDimensions);
  EXPECT_EQ(read.bytes(extractor), bytes);
  EXPECT_EQ(read.photos(), 800U);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(read.cell_of(grouped(i)), index.partition()->cell_of(grouped(i)));
  }
}

TEST(EmbeddingPartition, RefusesWhatIsTornOrOfAnother) {
  EmbeddingIndex index = index_of(300);
  divide(index);
  const Digest extractor = sha256("extractor");
  const std::string good = index.partition()->bytes(extractor);
  const auto why = [&](const std::string& bytes, const Digest& of, size_t dimensions) {
    try {
      (void)EmbeddingPartition::read(as_read(bytes), of, dimensions);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(why(good, extractor, kDimensions), "");
  EXPECT_THAT(why(good, sha256("another"), kDimensions),
              ::testing::HasSubstr("not " + to_hex(sha256("another"))));
  EXPECT_THAT(why(good, extractor, kDimensions + 1), ::testing::HasSubstr("not 25"));
  for (size_t n = 0; n < good.size(); n += 61) {
    EXPECT_NE(why(good.substr(0, n), extractor, kDimensions), "") << n;
  }
  EXPECT_NE(why(good + "x", extractor, kDimensions), "");
  EXPECT_NE(why("x" + good.substr(1), extractor, kDimensions), "");
  std::string nan = good;
  std::memset(nan.data() + nan.size() - 4, 0xff, 4);
  EXPECT_THAT(why(nan, extractor, kDimensions), ::testing::HasSubstr("no numbers"));
  EmbeddingIndex other(kDimensions + 1);
  EXPECT_THROW(other.divide(std::make_shared<const EmbeddingPartition>(*index.partition()), {}),
               Error);
}

}  // namespace
}  // namespace ndtrain::ndp
