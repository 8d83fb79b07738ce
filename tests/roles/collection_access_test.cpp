// What a token of one collection may do at a Tuner that has several.
#include <gmock/gmock.h>

#include <tuple>

#include "ndp/labels/label_db.h"
#include "tests/roles/access_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RoleAccess;
using testing::RunningTuner;

// Of two collections: garden/own.jpg, attic/other.jpg, and the same photo in both.
class AccessByCollection : public RoleAccess {
 protected:
  void SetUp() override {
    RoleAccess::SetUp();
    real_fs().make_directories(at("tuner")).or_throw();
    root_ = token("root", Role::kAdmin);
    garden_ = TokensFile::open(real_fs(), at("tuner"))
                  .or_throw()
                  .add({.name = "ann", .role = Role::kOperator, .collection = "garden"})
                  .or_throw();
    daemon_ = std::make_unique<RunningTuner>(tuner_config(), devices_);
    db_ = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
    for (const auto& [collection, path, photo] :
         {std::tuple("garden", "garden/own.jpg", "own"),
          std::tuple("default", "attic/other.jpg", "other"),
          std::tuple("default", "attic/both.jpg", "both"),
          std::tuple("garden", "garden/both.jpg", "both")}) {
      const int64_t id = db_->collection(collection).or_throw();
      db_->add_photos(id, std::vector<PhotoPlace>{{path, sha256(photo)}}).or_throw();
    }
  }
  HttpClient ann() const { return client(daemon_->http(), garden_); }
  HttpClient root() const { return client(daemon_->http(), root_); }
  // Of the trash, as it is told to who asks.
  static std::vector<std::string> paths_in(const HttpClient& who, const std::string& query) {
    std::vector<std::string> all;
    for (const auto& p : nlohmann::json::parse(who.get("/trash" + query).or_throw().body)) {
      for (const auto& path : p.at("paths")) all.push_back(path);
    }
    return all;
  }
  static std::string id(const char* photo) { return to_hex(sha256(photo)); }

  const std::string of_garden_ = "?collection=garden";
  std::string root_, garden_;
  std::unique_ptr<RunningTuner> daemon_;
  std::unique_ptr<LabelDb> db_;
};

TEST_F(AccessByCollection, ATokenOfOneTrashesRestoresAndDeletesItsPhotos) {
  const HttpClient who = ann();
  for (const std::string& name : {id("own"), std::string("garden/own.jpg")}) {
    EXPECT_EQ(who.get("/trash/" + name + of_garden_).or_throw().status, 200) << name;
    EXPECT_EQ(who.post("/trash/" + name + of_garden_, "").or_throw().status, 200) << name;
    EXPECT_THAT(paths_in(who, of_garden_), ::testing::ElementsAre("garden/own.jpg"));
    await([&] {  // the label database hears of it a little later
      return !db_->find_photo(db_->collection("garden").or_throw(), "garden/own.jpg").ok();
    });
    EXPECT_EQ(who.post("/restore/" + name + of_garden_, "").or_throw().status, 200) << name;
    EXPECT_THAT(paths_in(who, of_garden_), ::testing::IsEmpty());
    await([&] {
      return db_->find_photo(db_->collection("garden").or_throw(), "garden/own.jpg").ok();
    });
  }
  const HttpResponse gone = who.remove("/photos/garden/own.jpg" + of_garden_).or_throw();
  EXPECT_EQ(gone.status, 200) << gone.body;
  EXPECT_THAT(gone.body, HasSubstr(id("own")));
  EXPECT_THAT(client(daemon_->http(), root_).get("/audit").or_throw().body,
              HasSubstr(R"("who":"ann")"));
}

TEST_F(AccessByCollection, ATokenOfOneTouchesNoPhotoOfAnother) {
  const HttpClient who = ann();
  EXPECT_EQ(root().post("/trash/attic/other.jpg", "").or_throw().status, 200);
  EXPECT_THAT(paths_in(root(), ""), ::testing::ElementsAre("attic/other.jpg"));
  EXPECT_THAT(paths_in(who, of_garden_), ::testing::IsEmpty());
  const auto all_of = [&](const std::string& name, int status, const std::string& why) {
    for (const HttpResponse& r :
         {who.remove("/photos/" + name).or_throw(), who.get("/trash/" + name).or_throw(),
          who.post("/trash/" + name, "").or_throw(), who.post("/restore/" + name, "").or_throw()}) {
      EXPECT_EQ(r.status, status) << name;
      EXPECT_THAT(r.body, HasSubstr(why)) << name;
    }
  };
  for (const std::string& other : {id("other"), std::string("attic/other.jpg"), id("unknown")}) {
    all_of(other + of_garden_, 404, "is not known in the collection garden");
    all_of(other, 403, "the token of ann is for the collection garden");
    all_of(other + "?collection=default", 403, "the token of ann is for the collection garden");
  }
  all_of("garden/own.jpg", 403, "is of default");
  for (const std::string& both : {id("both"), std::string("garden/both.jpg")}) {
    all_of(both + of_garden_, 403, "is in other collections than garden, too");
  }
  EXPECT_EQ(who.get("/trash").or_throw().status, 403);
  EXPECT_EQ(root().post("/trash/" + id("both"), "").or_throw().status, 200);
  EXPECT_THAT(paths_in(who, of_garden_), ::testing::ElementsAre("garden/both.jpg"));
  EXPECT_EQ(root().post("/restore/" + id("both"), "").or_throw().status, 200);
  EXPECT_EQ(root().remove("/photos/" + id("both")).or_throw().status, 200);
}

// It need not say so: without a name its own is meant, and not all.
TEST_F(AccessByCollection, ATokenOfTheDefaultOneIsForItAlone) {
  const HttpClient who = client(
      daemon_->http(), TokensFile::open(real_fs(), at("tuner"))
                           .or_throw()
                           .add({.name = "bob", .role = Role::kOperator, .collection = "default"})
                           .or_throw());
  EXPECT_EQ(who.remove("/photos/" + id("own")).or_throw().status, 404);
  EXPECT_EQ(who.remove("/photos/" + id("both")).or_throw().status, 403);
  EXPECT_EQ(who.remove("/photos/" + id("other")).or_throw().status, 200);
}

}  // namespace
}  // namespace ndtrain::tuner
