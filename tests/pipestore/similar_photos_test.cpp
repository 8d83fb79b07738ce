#include "ndp/pipestore/similar_photos.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/core/fs.h"
#include "ndp/http/http_client.h"
#include "ndp/pipestore/similarity_http.h"
#include "ndp/pipestore/upload_http.h"
#include "tests/pipestore/uploads_fixture.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using testing::model_of;
using testing::photo_file;

constexpr int kPhotos = 40;

class SimilarPhotosTest : public testing::UploadsTest {
 protected:
  ~SimilarPhotosTest() override { similar_.reset(); }

  void open_with(int photos, const SimilarPhotos::Options& options = {}) {
    similar_.reset();
    UploadConfig config;
    config.trash = &trash_;
    open(config);
    similar_ = std::make_unique<SimilarPhotos>(*cache_, *uploads_, clock_, options);
    version(1);
    for (int i = 0; i < photos; ++i) (void)uploads_->add(photo_file(i)).or_throw();
    await([&] {
      return cache_->keys(model_of(1)->network->id()).size() == static_cast<size_t>(photos);
    });
  }
  // By a version whose features are maps, larger than what is compared; its extractor.
  Digest open_with_maps(int photos) {
    open_with(0);
    std::shared_ptr<OnlineModel> maps = model_of(1, {}, nullptr, "layer2");
    uploads_->put_in_force("default", [&] { return maps; });
    await([&] { return uploads_->model("default") == maps; });
    for (int i = 0; i < photos; ++i) (void)uploads_->add(photo_file(i)).or_throw();
    await([&] { return cache_->keys(maps->network->id()).size() == static_cast<size_t>(photos); });
    return maps->network->id();
  }
  // By hand: the feature of each file, by the engine as a job has it.
  static std::vector<Embedding> embeddings(const std::vector<std::string>& files) {
    const auto model = model_of(1);
    Network& n = *model->network;
    std::vector<Embedding> all;
    std::vector<size_t> items(files.size());
    for (size_t i = 0; i < items.size(); ++i) items[i] = i;
    n.engine().run(
        items, [](size_t) { return "x.jpg"; }, [&](size_t i) { return files[i]; },
        [&](const Engine::Batch& batch) {
          for (const std::string& row : n.rows(batch.outputs, batch.items.size())) {
            all.push_back(
                embedding_of(n.features().row_types, std::as_bytes(std::span(row))).value());
          }
          return true;
        });
    return all;
  }
  static std::vector<std::string> files(int n) {
    std::vector<std::string> all;
    for (int i = 0; i < n; ++i) all.push_back(photo_file(i));
    return all;
  }

  StoreTrash trash_{fs_, "trash.bin"};
  std::unique_ptr<SimilarPhotos> similar_;
};

std::vector<std::string> ids(const SimilarPhotos::Found& found) {
  std::vector<std::string> all;
  for (const auto& p : found.photos) all.push_back(to_hex(p.neighbour.photo));
  return all;
}

TEST_F(SimilarPhotosTest, AreTheNearestByTheFeaturesOfTheVersionInForce) {
  open_with(kPhotos);
  const std::vector<Embedding> all = embeddings(files(kPhotos));
  const Digest id = sha256(photo_file(3));
  const PhotoEmbedding query = similar_->embedding(id, "default").or_throw();
  EXPECT_EQ(query.version, 1U);
  EXPECT_EQ(query.extractor, model_of(1)->network->id());
  EXPECT_EQ(query.values, all[3]);
  const SimilarPhotos::Found found = similar_->nearest(query, 10, "default").or_throw();
  EXPECT_EQ(found.searched, static_cast<size_t>(kPhotos));
  ASSERT_EQ(found.photos.size(), 10U);
  EXPECT_EQ(found.photos[0].neighbour.photo, id) << "itself";
  std::vector<Neighbour> expected;
  for (int i = 0; i < kPhotos; ++i) {
    expected.push_back({sha256(photo_file(i)), cosine(all[static_cast<size_t>(i)], query.values)});
  }
  std::ranges::sort(expected, is_nearer);
  for (size_t i = 0; i < found.photos.size(); ++i) {
    EXPECT_EQ(found.photos[i].neighbour.photo, expected[i].photo) << i;
    EXPECT_EQ(found.photos[i].neighbour.similarity, expected[i].similarity) << i;
    EXPECT_EQ(found.photos[i].path, uploads_->find(expected[i].photo).or_throw().known.path);
  }
}

TEST_F(SimilarPhotosTest, AreFoundForAFileThatIsNotHere) {
  open_with(kPhotos);
  const std::string other = photo_file(kPhotos + 5);
  const PhotoEmbedding query = similar_->embedding(other, "default").or_throw();
  EXPECT_EQ(query.values, embeddings({other}).at(0));
  EXPECT_EQ(similar_->nearest(query, 5, "default").or_throw().photos.size(), 5U);
  EXPECT_EQ(similar_->embedding("no photo", "default").status().code(), Code::kCorrupt);
  EXPECT_EQ(similar_->embedding(sha256(other), "default").status().code(), Code::kNotFound);
}

TEST_F(SimilarPhotosTest, ComeAndGo) {
  open_with(5);
  const auto found = [&] {
    const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
    return ids(similar_->nearest(query, 100, "default").or_throw());
  };
  EXPECT_EQ(found().size(), 5U);
  (void)uploads_->add(photo_file(8)).or_throw();
  await([&] { return found().size() == 6; });
  const Digest gone = sha256(photo_file(2)), trashed = sha256(photo_file(3));
  uploads_->remove(gone).or_throw();
  EXPECT_THAT(found(), ::testing::Not(::testing::Contains(to_hex(gone))));
  const std::vector<Digest> in = {trashed};
  trash_.change(in, {}, 1).or_throw();
  EXPECT_EQ(found().size(), 4U);
  EXPECT_EQ(similar_->embedding(trashed, "default").status().code(), Code::kNotFound);
  trash_.change({}, in, 2).or_throw();
  EXPECT_EQ(found().size(), 5U);
}

// Version 2 has another extractor.
TEST_F(SimilarPhotosTest, AreOfOneExtractor) {
  open_with(5);
  const PhotoEmbedding before = similar_->embedding(photo_file(0), "default").or_throw();
  version(2);
  const Status s = similar_->nearest(before, 5, "default").status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("another extractor than that of version 2"));
  const PhotoEmbedding now = similar_->embedding(photo_file(0), "default").or_throw();
  EXPECT_TRUE(similar_->nearest(now, 5, "default").or_throw().photos.empty())
      << "no features of its are here yet";
  PhotoEmbedding wrong = now;
  wrong.values.push_back(0);
  EXPECT_EQ(similar_->nearest(wrong, 5, "default").status().code(), Code::kUnsupported);
  EXPECT_THAT(similar_->embedding(photo_file(0), "weather").status().message(),
              HasSubstr("no version of task weather is in force"));
}

// Of maps of features what is compared is kept beside them, is enough without them, and goes with
// the photo.
TEST_F(SimilarPhotosTest, AreReadAgainFromWhatWasMadeOfLargeFeatures) {
  const Digest extractor = open_with_maps(6), group = embedding_group(extractor);
  const auto found = [&] {
    const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
    EXPECT_EQ(query.values.size(), 32U) << "channels, not their 4 x 4 places";
    return ids(similar_->nearest(query, 100, "default").or_throw());
  };
  const std::vector<std::string> all = found();
  EXPECT_EQ(all.size(), 6U);
  EXPECT_EQ(cache_->keys(group).size(), 6U);
  similar_ = std::make_unique<SimilarPhotos>(*cache_, *uploads_, clock_);
  cache_->remove_group(extractor).or_throw();
  EXPECT_EQ(found(), all);
  uploads_->remove(sha256(photo_file(2))).or_throw();
  EXPECT_EQ(cache_->keys(group).size(), 5U);
}

// As of a photo that is deleted while it is compared: who deletes it may have looked at what was
// made of it before that was kept.
TEST_F(SimilarPhotosTest, OfOneThatIsGoneByThenNothingIsKept) {
  const Digest extractor = open_with_maps(3), group = embedding_group(extractor);
  std::vector<std::byte> row;
  const Found known = cache_->get(extractor, sha256(photo_file(0)), row).or_throw();
  const Digest gone = sha256("deleted");
  cache_->put(extractor, gone, known.meta, row).or_throw();
  const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
  const SimilarPhotos::Found found = similar_->nearest(query, 100, "default").or_throw();
  EXPECT_EQ(found.searched, 4U) << "its features were compared";
  EXPECT_EQ(found.photos.size(), 3U);
  EXPECT_FALSE(cache_->contains(group, gone));
  EXPECT_EQ(cache_->keys(group).size(), 3U);
}

TEST_F(SimilarPhotosTest, AreAsManyAsTheIndexMayHold) {
  const size_t dimensions = embeddings(files(1)).at(0).size();
  for (const size_t most : {3, 4, 5}) {
    SimilarPhotos::Options options;
    options.memory = EmbeddingIndex::bytes_of(most, dimensions);
    open_with(4, options);
    const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
    const auto found = similar_->nearest(query, 100, "default").or_throw();
    EXPECT_EQ(found.searched, std::min<size_t>(most, 4));
  }
}

TEST_F(SimilarPhotosTest, TheIndexGoesWhenNobodyAsks) {
  open_with(3);
  const auto searched = [&] {
    const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
    return similar_->nearest(query, 1, "default").or_throw().searched;
  };
  EXPECT_EQ(searched(), 3U);
  EXPECT_EQ(similar_->indexes(), 1U);
  clock_.advance(std::chrono::minutes(11));
  await([&] { return similar_->indexes() == 0; });
  EXPECT_EQ(searched(), 3U);
}

// As all cells are looked at of so few, what is found is the same.
TEST_F(SimilarPhotosTest, AreFoundInCellsFromManyOn) {
  SimilarPhotos::Options options;
  options.exact_below = 20;
  open_with(kPhotos, options);
  const Digest extractor = model_of(1)->network->id();
  const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
  const auto found = [&] { return similar_->nearest(query, 100, "default").or_throw(); };
  const std::vector<std::string> exact = ids(found());
  EXPECT_EQ(exact.size(), static_cast<size_t>(kPhotos));
  await([&] { return found().cells > 0; });
  EXPECT_EQ(ids(found()), exact);
  await([&] { return cache_->contains(partition_group(extractor), extractor); });
  const size_t cells = found().cells;
  similar_ = std::make_unique<SimilarPhotos>(*cache_, *uploads_, clock_, options);
  EXPECT_EQ(found().cells, cells) << "read, not made again";
  EXPECT_EQ(ids(found()), exact);
  const Digest come = sha256(photo_file(kPhotos)), gone = sha256(photo_file(2));
  (void)uploads_->add(photo_file(kPhotos)).or_throw();
  await([&] { return found().photos.size() == exact.size() + 1; });
  EXPECT_THAT(ids(found()), ::testing::Contains(to_hex(come)));
  uploads_->remove(gone).or_throw();
  EXPECT_THAT(ids(found()), ::testing::Not(::testing::Contains(to_hex(gone))));
  EXPECT_EQ(found().searched, exact.size());
  options.exact_below = 1000;
  similar_ = std::make_unique<SimilarPhotos>(*cache_, *uploads_, clock_, options);
  EXPECT_EQ(found().cells, 0U) << "there are too few photos by now";
}

TEST_F(SimilarPhotosTest, ArePartedAnewWhereThePartitionIsTornOrOfAnother) {
  SimilarPhotos::Options options;
  options.exact_below = 20;
  open_with(kPhotos, options);
  const Digest extractor = model_of(1)->network->id(), group = partition_group(extractor);
  const PhotoEmbedding query = similar_->embedding(photo_file(0), "default").or_throw();
  const auto found = [&] { return similar_->nearest(query, 100, "default").or_throw(); };
  const auto kept = [&] {
    std::vector<std::byte> bytes;
    (void)cache_->get(group, extractor, bytes).or_throw();
    return bytes;
  };
  await([&] { return found().cells > 0 && cache_->contains(group, extractor); });
  const std::vector<std::byte> good = kept();
  std::vector<std::byte> other = good;
  other[10] ^= std::byte{1};  // of the extractor's digest
  const std::vector<std::byte> cut(good.begin(), good.end() - 1);
  for (const std::vector<std::byte>& bad : {other, cut}) {
    similar_.reset();
    cache_->put(group, extractor, {}, bad).or_throw();
    similar_ = std::make_unique<SimilarPhotos>(*cache_, *uploads_, clock_, options);
    EXPECT_EQ(found().photos.size(), static_cast<size_t>(kPhotos));
    await([&] { return found().cells > 0 && kept() == good; });
  }
}

class SimilarityHttp : public SimilarPhotosTest {
 protected:
  void serve(int photos) {
    open_with(photos);
    std::vector<HttpServer::Route> routes = upload_routes({uploads_.get()});
    for (auto& r : similarity_routes({similar_.get()})) routes.push_back(std::move(r));
    server_ = HttpServer::listen("127.0.0.1:0", routes, 1 << 16).or_throw();
  }
  ~SimilarityHttp() override { server_.reset(); }
  HttpResponse post(const std::string& path, const std::string& body) const {
    return HttpClient(server_->address()).post(path, body).or_throw();
  }
  HttpResponse get(const std::string& path) const {
    return HttpClient(server_->address()).get(path).or_throw();
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(SimilarityHttp, EmbeddingsGoOutAndNeighboursComeBack) {
  serve(8);
  const std::string id = to_hex(sha256(photo_file(4)));
  const HttpResponse embedding = get("/photos/" + id + "/embedding");
  ASSERT_EQ(embedding.status, 200) << embedding.body;
  EXPECT_EQ(nlohmann::json::parse(embedding.body).at("version"), 1);
  EXPECT_EQ(post("/embedding", photo_file(4)).body, embedding.body) << "to the last bit";
  const HttpResponse found = post("/neighbours?k=3", embedding.body);
  ASSERT_EQ(found.status, 200) << found.body;
  const nlohmann::json json = nlohmann::json::parse(found.body);
  EXPECT_EQ(json.at("searched"), 8);
  ASSERT_EQ(json.at("photos").size(), 3U);
  EXPECT_EQ(json["photos"][0].at("id"), id);
  EXPECT_NEAR(json["photos"][0].at("similarity").get<double>(), 1, 1e-2);
  EXPECT_EQ(json["photos"][0].at("path"),
            uploads_->find(sha256(photo_file(4))).or_throw().known.path);
}

TEST_F(SimilarityHttp, SaysWhatItCannotCompare) {
  serve(1);
  EXPECT_EQ(get("/photos/" + std::string(64, '0') + "/embedding").status, 404);
  EXPECT_EQ(post("/embedding", "no photo").status, 422);
  EXPECT_EQ(post("/embedding?task=weather", photo_file(0)).status, 409);
  const nlohmann::json good = nlohmann::json::parse(post("/embedding", photo_file(0)).body);
  for (const char* k : {"0", "1001", "-1", "x", "", "3x"}) {
    const HttpResponse r = post(std::string("/neighbours?k=") + k, good.dump());
    EXPECT_EQ(r.status, 400) << k;
    EXPECT_THAT(r.body, HasSubstr("1 to 1000")) << k;
  }
  EXPECT_EQ(post("/neighbours?k=1000", good.dump()).status, 200);
  for (const char* body : {"", "[]", "{}", R"({"extractor": "00", "values": [1]})",
                           R"({"extractor": 5, "values": [1]})", R"({"values": [1]})"}) {
    EXPECT_EQ(post("/neighbours", body).status, 400) << body;
  }
  nlohmann::json zero = good;
  for (nlohmann::json& v : zero["values"]) v = 0;
  EXPECT_EQ(post("/neighbours", zero.dump()).status, 400);
  nlohmann::json text = good;
  text["values"][0] = "x";
  EXPECT_EQ(post("/neighbours", text.dump()).status, 400);
  nlohmann::json other = good;
  other["extractor"] = std::string(64, '0');
  EXPECT_EQ(post("/neighbours", other.dump()).status, 409);
}

}  // namespace
}  // namespace ndtrain::ndp
