#include "ndp/jobs/notes.h"

#include <gmock/gmock.h>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

NotesChange said(const std::string& name, const std::string& note = "",
                 std::vector<std::string> add = {}) {
  return {.name = name, .note = note, .add = std::move(add), .remove = {}};
}

std::string refusal(const Notes& notes, const NotesChange& change) {
  try {
    (void)changed_notes(notes, change);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Notes, ChangeByWhatIsSaidAlone) {
  Notes n = changed_notes({}, said("roses", "first\nsecond", {"b", "a", "b"}));
  EXPECT_THAT(n.tags, ElementsAre("a", "b"));
  n = changed_notes(n, {.name = {}, .note = "other", .add = {"c"}, .remove = {"a"}});
  EXPECT_EQ(n.name, "roses");
  EXPECT_EQ(n.note, "other");
  EXPECT_THAT(n.tags, ElementsAre("b", "c"));
  EXPECT_TRUE(changed_notes(n, {.name = "", .note = "", .add = {}, .remove = {"b", "c"}}).empty());
  EXPECT_EQ(refusal(n, {.name = {}, .note = {}, .add = {}, .remove = {"x"}}),
            "there is no tag 'x' here");
}

TEST(Notes, LimitsHoldAtTheirEdges) {
  const auto text = [](int64_t n) { return std::string(static_cast<size_t>(n), 'x'); };
  for (const int64_t by : {-1, 0, 1}) {
    const auto matches = [&](const std::string& why, int64_t limit) {
      return by <= 0 ? why.empty()
                     : why.find("at most " + std::to_string(limit)) != std::string::npos;
    };
    EXPECT_TRUE(matches(refusal({}, said(text(limits::kName + by))), limits::kName));
    EXPECT_TRUE(matches(refusal({}, said("", text(limits::kNote + by))), limits::kNote));
    EXPECT_TRUE(matches(refusal({}, said("", "", {text(limits::kTag + by)})), limits::kTag));
    std::vector<std::string> tags;
    for (int64_t i = 0; i < limits::kTags + by; ++i) tags.push_back("t" + std::to_string(i));
    EXPECT_TRUE(matches(refusal({}, said("", "", tags)), limits::kTags));
  }
}

TEST(Notes, TextThatMovesACursorIsRefusedAndWrittenOut) {
  for (const char* bad : {"a\x1b[2J", "a\nb", "a\xff", "a\xe2\x80\xae"}) {
    const std::string why = refusal({}, said(bad));
    EXPECT_THAT(why, HasSubstr("the name 'a")) << why;
    EXPECT_THAT(why, Not(HasSubstr(bad)));
  }
  EXPECT_THAT(refusal({}, said("", "a\x1b[2J")), HasSubstr("the note 'a\\x1b[2J'"));
  EXPECT_EQ(refusal({}, said("", "a\nb")), "");
  for (const char* bad : {"", "a b", "a,b", "+a", "-a", "a\tb"}) {
    EXPECT_THAT(refusal({}, said("", "", {bad})), HasSubstr("the tag '")) << bad;
  }
  EXPECT_EQ(refusal({}, said("Rosen im März", "", {"märz", "a-b+c"})), "");
}

TEST(Notes, AreKeptInAFileOfTheirOwn) {
  MemoryFs fs;
  fs.make_directories("r").or_throw();
  EXPECT_TRUE(read_notes(fs, "r").or_throw().empty());
  const Notes n = changed_notes({}, said("<b>", "x\ny", {"t"}));
  write_notes(fs, "r", n).or_throw();
  EXPECT_EQ(read_notes(fs, "r").or_throw(), n);
  for (const char* text : {"", "[]", "{\"name\":1}", "{\"nam\":\"x\"}", "{\"tags\":[\"a b\"]}"}) {
    publish(fs, "r/notes.json", text).or_throw();
    EXPECT_EQ(read_notes(fs, "r").status().code(), Code::kCorrupt) << text;
  }
}

TEST(Notes, ChangesComeAsJson) {
  const NotesChange c = parse_notes_change(R"({"note":"n","add":["a"],"remove":["b"]})");
  EXPECT_FALSE(c.name);
  EXPECT_EQ(c.note, "n");
  EXPECT_THAT(c.add, ElementsAre("a"));
  EXPECT_THAT(c.remove, ElementsAre("b"));
  EXPECT_THAT(parse_notes_change("{}").add, IsEmpty());
  for (const char* bad :
       {"", "[]", R"({"name":1})", R"({"add":"a"})", R"({"add":[1]})", R"({"tags":["a"]})"}) {
    EXPECT_THROW(parse_notes_change(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
