// Photos on the dashboard: found, looked at, corrected, put in the trash, and those nobody can
// read.
#include <algorithm>

#include "ndp/sqlite/sqlite.h"
#include "tests/roles/dashboard_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::Browser;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DashboardPhotos : public testing::DashboardTest {
 protected:
  static void search(Browser& b, const std::string& fields) {
    b.value("{const f = document.forms.search; f.reset(); " + fields + "; f.requestSubmit()}");
  }
  static bool finds(Browser& b, size_t n) {
    return b.await("document.querySelectorAll('#results figure').length === " + std::to_string(n) +
                   " && document.querySelector('#found').textContent !== ''");
  }
  // As the Tuner writes it into the page's address.
  static std::string day(int64_t after_now) {
    return "new Date(Date.now() + 86400000 * " + std::to_string(after_now) +
           ").toLocaleDateString('sv')";
  }
};

TEST_F(DashboardPhotos, AreAddedByChoosingAndByDroppingFiles) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  const auto taken = [&](const std::string& path) {
    const std::string bytes = real_fs().read(at(path)).or_throw();
    real_fs().remove(at(path)).or_throw();
    return Json(std::vector<uint8_t>(bytes.begin(), bytes.end())).dump();
  };
  const std::string first = taken("photos/" + name(0) + "/3.jpg");
  const std::string second = taken("photos/" + name(1) + "/4.jpg");
  start_store();
  train_and_relabel(2);
  Browser b;
  b.open("http://" + tuner_->http() + "/");
  ASSERT_TRUE(says(b, "#stores", "attic"));
  b.value("globalThis.files = new DataTransfer()");
  const auto file = [&](const std::string& name, const std::string& bytes) {
    b.value("files.items.add(new File([Uint8Array.from(" + bytes + ")], " + Json(name).dump() +
            "))");
  };
  file("<b>.jpg", first);
  file("no <i>photo", "[1, 2, 3]");
  b.value(R"js({
    const input = document.querySelector("#add_files");
    input.files = files.files;
    input.dispatchEvent(new Event("change", {bubbles: true}));
  })js");
  EXPECT_TRUE(says(b, "#add_said", "1 of 2 photos added: 1 "));
  EXPECT_THAT(text(b, "#add_refused"), HasSubstr("no <i>photo: "));
  b.value("globalThis.files = new DataTransfer()");
  file("second.jpg", second);
  b.value(
      "document.querySelector('#overview').dispatchEvent("
      "new DragEvent('drop', {dataTransfer: files, cancelable: true}))");
  EXPECT_TRUE(says(b, "#add_said", "1 of 1 photos added"));
  EXPECT_EQ(text(b, "#add_refused"), "");
  await([&] { return get("/labels?limit=1000&path=uploads/")["rows"].size() == 2; });
  expect_fits(b, 400);
}

TEST_F(DashboardPhotos, AreFoundByPathDateScoreAndStore) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  Browser b;
  b.open("http://" + tuner_->http() + "/#labels");
  ASSERT_TRUE(finds(b, 60));
  search(b, "f.path.value = '/<img'");
  EXPECT_TRUE(finds(b, 1));
  search(b, "f.path.value = 'no such'");
  EXPECT_TRUE(says(b, "#found", "No photo"));
  search(b, "f.since.value = " + day(0) + "; f.until.value = " + day(0));
  EXPECT_TRUE(finds(b, 60));
  search(b, "f.since.value = " + day(1));
  EXPECT_TRUE(says(b, "#found", "No photo"));
  search(b, "f.store.value = 'attic'");
  EXPECT_TRUE(finds(b, 60));
  search(b, "f.until.value = " + day(-1));
  EXPECT_TRUE(says(b, "#found", "No photo"));
  std::vector<double> scores;
  const Json all = get("/labels?limit=1000");
  for (const Json& row : all["rows"]) scores.push_back(row["score"]);
  std::ranges::sort(scores);
  const auto at_least = std::ranges::count_if(scores, [&](double s) { return s >= scores[40]; });
  search(b, "f.min_score.value = " + Json(scores[40]).dump());
  EXPECT_TRUE(finds(b, static_cast<size_t>(at_least)));
  EXPECT_EQ(b.value("[...document.forms.search.store.options].map(o => o.value)"),
            Json({"", "attic"}));
  expect_fits(b, 400);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardPhotos, AreCorrectedPutInTheTrashRestoredAndDeletedByKeyboard) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  const Json row = get("/labels?limit=1")["rows"][0];
  const std::string photo = row["photo"].dump(), id = row["id"];
  Browser b;
  b.open("http://" + tuner_->http() + "/#labels");
  enter(b, "#results figure a");
  EXPECT_TRUE(b.await("location.hash === '#photo/" + photo + "'"));
  EXPECT_TRUE(b.await("document.querySelector('#photo_large img')?.naturalWidth > 0"));
  EXPECT_THAT(text(b, "#photo_facts"), AllOf(HasSubstr(row["path"]), HasSubstr(id)));
  EXPECT_TRUE(says(b, "#photo_history", "version 1"));
  b.value("document.querySelector('#photo_class').focus()");
  b.type("<i>fern</i>");
  b.press("Enter");
  EXPECT_TRUE(says(b, "#photo_said", "Kept: it shows <i>fern</i>."));
  EXPECT_EQ(text(b, "#photo_title"), "<i>fern</i>");
  EXPECT_TRUE(says(b, "#photo_history", "a person"));
  EXPECT_EQ(get("/labels/" + photo)[0]["label"], "<i>fern</i>");
  keep(b, "dashboard_photo.png");
  expect_fits(b, 400);

  enter(b, "#photo_like");
  EXPECT_TRUE(says(b, "#photo_similar_said", "photos that version 1 has features of"));
  const Json like = get("/photos/" + id + "/like?k=25")["photos"];
  ASSERT_GT(like.size(), 3U);
  EXPECT_EQ(like[0]["id"], id);
  EXPECT_TRUE(b.await("document.querySelectorAll('#photo_similar figure').length === " +
                      std::to_string(like.size() - 1)))
      << "all but itself";
  EXPECT_EQ(b.value("document.querySelector('#photo_similar figure').title"), like[1]["path"]);
  EXPECT_TRUE(b.await("document.querySelector('#photo_similar img')?.naturalWidth > 0"));
  keep(b, "dashboard_similar.png");
  expect_fits(b, 400);
  enter(b, "#photo_similar figure a");
  EXPECT_TRUE(b.await("location.hash === '#photo/" + like[1]["photo"].dump() + "'"));
  EXPECT_TRUE(b.await("document.querySelectorAll('#photo_similar figure').length === 0"))
      << "they were another photo's";
  b.value("history.back()");
  EXPECT_TRUE(b.await("location.hash === '#photo/" + photo + "'"));
  EXPECT_TRUE(b.await("document.querySelector('#photo_facts').textContent.includes('" + id + "')"));

  enter(b, "#photo_trash");
  EXPECT_TRUE(says(b, "#confirm_about", row["path"]));
  enter(b, "#confirm_leave");
  EXPECT_EQ(get("/trash"), Json::array()) << "she thought better of it";
  enter(b, "#photo_trash");
  enter(b, "#confirm_do");
  EXPECT_TRUE(says(b, "#photo_said", "in the trash until"));
  EXPECT_EQ(get("/trash")[0]["id"], id);
  enter(b, "#photo_restore");
  EXPECT_TRUE(says(b, "#photo_said", "It is where it was"));
  EXPECT_EQ(get("/trash"), Json::array());
  await([&] { return get("/labels?photo=" + photo)["rows"].size() == 1; });
  enter(b, "#photo_trash");
  enter(b, "#confirm_do");
  EXPECT_TRUE(says(b, "#photo_said", "in the trash until"));

  b.value("location.hash = 'trash'");
  EXPECT_TRUE(says(b, "#trash_list", row["path"]));
  expect_fits(b, 400);
  enter(b, "#trash_list button:first-child");
  EXPECT_TRUE(says(b, "#trash_said", "is where it was"));
  EXPECT_TRUE(says(b, "#trash_list", "No photo is in the trash"));
  ASSERT_EQ(client_->post("/trash/" + id, "")->status, 200);
  await([&] { return get("/labels?photo=" + photo)["rows"].empty(); });
  b.value("location.hash = 'photo/" + photo + "'");
  EXPECT_TRUE(b.await("document.querySelector('#photo_missing')?.checkVisibility()"));
  b.value("location.hash = 'trash'");
  enter(b, "#trash_list button:last-child");
  enter(b, "#confirm_do");
  EXPECT_TRUE(says(b, "#trash_said", "is deleted"));
  EXPECT_EQ(get("/trash/" + id)["deleted"], true);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardPhotos, InTheTrashAreShownAsSuchAlsoWhereTheListHasThemStill) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  const Json row = get("/labels?limit=1")["rows"][0];
  const std::string photo = row["photo"].dump(), id = row["id"];
  sql::Database db(at("tuner/labels.db"));
  {
    const sql::Transaction nobody_else_writes(db);
    ASSERT_EQ(client_->post("/trash/" + id, "")->status, 200);
    ASSERT_EQ(get("/labels?photo=" + photo)["rows"].size(), 1);
    Browser b;
    b.open("http://" + tuner_->http() + "/#photo/" + photo);
    EXPECT_TRUE(says(b, "#photo_said", "in the trash until"));
    EXPECT_EQ(b.value("['#photo_trash', '#photo_restore', '#photo_correct'].map("
                      "s => document.querySelector(s).checkVisibility())"),
              Json({false, true, false}));
    EXPECT_THAT(b.complaints(), IsEmpty());
  }
  await([&] { return get("/labels?photo=" + photo)["rows"].empty(); });
}

TEST_F(DashboardPhotos, ThatNobodyCanReadAreListedUntilTheyAreDeleted) {
  const std::string whole = encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 1000)),
                    cut = whole.substr(0, whole.size() / 2);
  publish(real_fs(), at("photos/" + name(0) + "/<b>cut.jpg"), cut).or_throw();
  start_store();
  EXPECT_EQ(refusal("/jobs/1/quarantine").first, 404);
  train_and_relabel(2);
  const Json bad = get("/jobs/1/quarantine");
  ASSERT_EQ(bad.size(), 1);
  EXPECT_EQ(bad[0]["id"], to_hex(sha256(cut)));
  EXPECT_EQ(bad[0]["store"], "attic");
  EXPECT_EQ(bad[0]["path"], name(0) + "/<b>cut.jpg");
  EXPECT_THAT(bad[0]["why"].get<std::string>(), HasSubstr("JPEG"));
  EXPECT_EQ(get("/jobs/1")["result"]["left_out"], 1);
  if (Browser::lacking().empty()) {
    Browser b;
    b.open("http://" + tuner_->http() + "/#quarantine");
    EXPECT_TRUE(says(b, "#quarantine_list", name(0) + "/<b>cut.jpg"));
    EXPECT_EQ(b.value("document.querySelectorAll('#quarantine_list tbody tr').length"), 1)
        << "though two jobs met it";
    EXPECT_EQ(text(b, "#quarantine_list tbody a"), "job 2");
    expect_fits(b, 400);
    EXPECT_THAT(b.complaints(), IsEmpty());
  }
  ASSERT_EQ(client_->remove("/photos/" + to_hex(sha256(cut)))->status, 200);
  await([&] { return get("/jobs/1/quarantine").empty() && get("/jobs/2/quarantine").empty(); });
}

TEST_F(DashboardPhotos, ThatAreNoPhotosAtAllAreListedToo) {
  publish(real_fs(), at("photos/" + name(0) + "/<b>words.jpg"), "no photo").or_throw();
  start_store();
  train_and_relabel(2);
  const Json bad = get("/jobs/1/quarantine");
  ASSERT_EQ(bad.size(), 1);
  EXPECT_EQ(bad[0]["id"], "") << "nobody looked into it";
  EXPECT_EQ(bad[0]["store"], "attic");
  EXPECT_EQ(bad[0]["path"], name(0) + "/<b>words.jpg");
  EXPECT_THAT(bad[0]["why"].get<std::string>(), ::testing::Not(IsEmpty()));
  EXPECT_EQ(get("/jobs/1")["result"]["left_out"], 1);
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  Browser b;
  b.open("http://" + tuner_->http() + "/#quarantine");
  EXPECT_TRUE(says(b, "#quarantine_list", name(0) + "/<b>words.jpg"));
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardPhotos, AreCountedByClassAndByDay) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  Browser b;
  b.open("http://" + tuner_->http() + "/");
  const Json by_class = get("/labels/stats")["by_class"];
  EXPECT_TRUE(b.await("document.querySelectorAll('#per_class .share').length === " +
                      std::to_string(by_class.size())));
  for (const auto& [label, n] : by_class.items()) {
    EXPECT_THAT(text(b, "#per_class"), HasSubstr(label + n.dump() + " photos"));
  }
  EXPECT_EQ(b.value("[...document.querySelectorAll('#over_time title')].reduce("
                    "(n, t) => n + Number(/: ([0-9]+) photos/.exec(t.textContent)[1]), 0)"),
            60);
  const auto days = b.value(
      "import('/dashboard/collection.js').then(m => m.by_day([{day: 86400, photos: 2},"
      " {day: 86400, photos: 1}, {day: 259200, photos: 4}]))");
  EXPECT_EQ(days, Json::parse("[[86400, 3], [172800, 0], [259200, 4]]")) << "none on the second";
  expect_fits(b, 400);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

}  // namespace
}  // namespace ndtrain::tuner
