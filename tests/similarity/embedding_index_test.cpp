#include "ndp/similarity/embedding_index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

constexpr double kBFloat16 = 2e-3;  // how far a cosine may be off

bool any(const Digest&) { return true; }

Digest photo(int i) { return sha256(std::to_string(i)); }

Embedding drawn(Rng& rng, size_t dimensions) {
  Embedding e(dimensions);
  for (float& x : e) x = static_cast<float>(rng.next_uniform() - 0.5);
  EXPECT_TRUE(normalise(e));
  return e;
}

// Against products in double, over puts, replacements and erasures; sizes beside those of vectors.
TEST(EmbeddingIndex, FindsTheNearestOfWhatIsThere) {
  Rng rng(7, "embeddings");
  for (const size_t dimensions : {1, 3, 15, 16, 17, 64, 515}) {
    EmbeddingIndex index(dimensions);
    std::map<Digest, Embedding> all;
    for (int step = 0; step < 600; ++step) {
      const Digest id = photo(static_cast<int>(rng.next_below(200)));
      if (rng.next_below(3) == 0) {
        index.erase(id);
        all.erase(id);
      } else {
        all[id] = drawn(rng, dimensions);
        index.put(id, all[id]);
      }
      ASSERT_EQ(index.size(), all.size());
    }
    const Embedding query = drawn(rng, dimensions);
    std::vector<double> expected;
    for (const auto& [id, e] : all) expected.push_back(cosine(e, query));
    std::ranges::sort(expected, std::greater());
    const std::vector<Neighbour> best = index.nearest(query, 20, any);
    ASSERT_EQ(best.size(), 20U);
    std::set<Digest> seen;
    for (size_t i = 0; i < best.size(); ++i) {
      EXPECT_TRUE(seen.insert(best[i].photo).second);
      EXPECT_NEAR(best[i].similarity, cosine(all.at(best[i].photo), query), kBFloat16);
      EXPECT_NEAR(best[i].similarity, expected[i], kBFloat16) << dimensions << " " << i;
      if (i > 0) {
        EXPECT_FALSE(is_nearer(best[i], best[i - 1]));
      }
    }
  }
}

TEST(EmbeddingIndex, GivesOnlyWhatIsAcceptedHoweverManyAreNot) {
  EmbeddingIndex index(2);
  for (int i = 0; i < 300; ++i) index.put(photo(i), {1, 0});
  std::set<Digest> good = {photo(5), photo(123), photo(299)};
  int asked = 0;
  const auto accept = [&](const Digest& id) {
    ++asked;
    return good.contains(id);
  };
  const std::vector<Neighbour> best = index.nearest({1, 0}, 4, accept);
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(asked, 300);
  // As near as each other: in the order of their digests.
  auto expected = good.begin();
  for (const Neighbour& n : best) EXPECT_EQ(n.photo, *expected++);
  asked = 0;
  EXPECT_EQ(index.nearest({1, 0}, 4, any).size(), 4U);
  EXPECT_EQ(index.nearest({1, 0}, 1, accept).front().photo, *good.begin());
}

TEST(EmbeddingIndex, IsOfOneSize) {
  EmbeddingIndex index(2);
  EXPECT_TRUE(index.nearest({1, 0}, 5, any).empty());
  EXPECT_THROW(index.put(photo(1), {1, 0, 0}), Error);
  EXPECT_THROW((void)index.nearest({1}, 5, any), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
