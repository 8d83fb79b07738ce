#include "framework/core/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/rng.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using Fields = std::vector<std::string>;

// The records from the first to the end or to an open quote.
std::vector<Fields> records(std::string_view text) {
  CsvReader reader(text);
  std::vector<Fields> all;
  while (std::optional<Fields> fields = reader.next()) all.push_back(std::move(*fields));
  return all;
}

TEST(Csv, FieldsAreQuotedOnlyWhereTheyMustBe) {
  EXPECT_EQ(csv_row({"a", "b c", "", "'d'"}), "a,b c,,'d'\n");
  EXPECT_EQ(csv_row({"a,b", "say \"x\"", "two\nlines", "cr\r"}),
            "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\"cr\r\"\n");
}

TEST(Csv, NastyFieldsComeBackAsTheyWere) {
  const Fields nasty = {"",
                        " ",
                        ",",
                        "\"",
                        "\"\"",
                        "\n",
                        "\r\n",
                        "\r",
                        "a\"b",
                        "\"a\"",
                        "\",\"",
                        "a,b\n\"c\"",
                        " a ",
                        "\xff",
                        "\xc3\x89t",
                        "\xef\xbb",
                        std::string(2, '\0')};
  EXPECT_THAT(records(csv_row(nasty)), ElementsAre(nasty));
  for (const std::string& a : nasty) {
    for (const std::string& b : nasty) {
      EXPECT_THAT(records(csv_row({a, b}) + csv_row({b}) + csv_row({b, a})),
                  ElementsAre(Fields{a, b}, Fields{b}, Fields{b, a}))
          << ::testing::PrintToString(a) << " and " << ::testing::PrintToString(b);
    }
  }
}

TEST(Csv, WhateverIsWrittenIsReadAgain) {
  constexpr std::string_view kLetters = "a,\"\r\n \xff";
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed, "csv");
    std::vector<Fields> rows(1 + rng.next_below(4));
    std::string text;
    for (Fields& row : rows) {
      row.resize(1 + rng.next_below(4));
      for (std::string& field : row) {
        for (uint64_t n = rng.next_below(6); n > 0; --n) {
          field += kLetters[rng.next_below(kLetters.size())];
        }
      }
      text += csv_row(row);
    }
    ASSERT_EQ(records(text), rows) << "seed " << seed;
  }
}

TEST(Csv, ALineMayEndInLfOrCrlfAndTheLastInNothing) {
  for (const char* text : {"a,b\nc,d\n", "a,b\r\nc,d\r\n", "a,b\r\nc,d", "a,b\n\"c\",d"}) {
    EXPECT_THAT(records(text), ElementsAre(Fields{"a", "b"}, Fields{"c", "d"})) << text;
  }
  EXPECT_THAT(records("\n\na,\n"), ElementsAre(Fields{""}, Fields{""}, Fields{"a", ""}));
  EXPECT_THAT(records(""), ElementsAre());
}

TEST(Csv, OnlyAByteOrderMarkAtTheBeginningIsSkipped) {
  EXPECT_THAT(records("\xef\xbb\xbf\"a,b\"\n\xef\xbb\xbf"
                      "c"),
              ElementsAre(Fields{"a,b"}, Fields{"\xef\xbb\xbf"
                                                "c"}));
  EXPECT_THAT(records("\xef\xbb\xbf"), ElementsAre());
}

TEST(Csv, AQuoteWithinAFieldIsPartOfIt) {
  EXPECT_THAT(records("5\" disk,a\n"), ElementsAre(Fields{"5\" disk", "a"}));
}

TEST(Csv, LinesAreThoseOnWhichRecordsBegin) {
  CsvReader reader("a\r\n\"b\n\nb\"\n\nc");
  std::vector<int64_t> lines;
  while (reader.next()) lines.push_back(reader.line());
  EXPECT_THAT(lines, ElementsAre(1, 2, 5, 6));
  EXPECT_FALSE(reader.broken());
}

TEST(Csv, AnOpenQuoteEndsItAtTheLineWhereTheRecordBegins) {
  for (const char* text : {"a\nb,\"c\nd\n", "a\nb,\"\"\"\n\n", "a\n\""}) {
    CsvReader reader(text);
    EXPECT_EQ(reader.next(), Fields{"a"});
    EXPECT_FALSE(reader.broken());
    EXPECT_EQ(reader.next(), std::nullopt);
    EXPECT_TRUE(reader.broken());
    EXPECT_EQ(reader.line(), 2);
    EXPECT_EQ(reader.next(), std::nullopt) << "and stays there";
  }
}

}  // namespace
}  // namespace ndtrain
