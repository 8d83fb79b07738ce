#include "framework/core/json_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "framework/core/json_cbor.h"

namespace {

std::atomic<size_t> g_allocated = 0;  // bytes that were asked for

}  // namespace

// Of the whole test program; sanitizers bring an operator new of their own.
#if !NDT_SANITIZED
void* operator new(size_t n) {
  g_allocated += n;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

std::string nested(int depth) {
  const auto n = static_cast<size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST(JsonInput, IsReadUpToItsBytesAndNoFurther) {
  for (const int64_t most : {int64_t{100}, limits::kJsonText}) {
    for (const int64_t bytes : {most - 1, most, most + 1}) {
      const std::string text = "\"" + std::string(static_cast<size_t>(bytes) - 2, 'x') + "\"";
      EXPECT_EQ(read_json(text, most).ok(), bytes <= most) << bytes;
    }
  }
  EXPECT_EQ(read_json(std::string(limits::kJsonText + 1, ' ')).status().code(), Code::kTooLarge);
}

TEST(JsonInput, IsReadUpToItsDepthAndNoDeeper) {
  for (const int depth : {limits::kJsonDepth - 1, limits::kJsonDepth}) {
    EXPECT_TRUE(read_json(nested(depth)).ok()) << depth;
    EXPECT_TRUE(read_json("{\"a\":" + nested(depth - 1) + "}").ok()) << depth;
  }
  for (const std::string& deep :
       {nested(limits::kJsonDepth + 1), "{\"a\":" + nested(limits::kJsonDepth) + "}",
        std::string(static_cast<size_t>(limits::kJsonText), '[')}) {
    const Status s = read_json(deep).status();
    EXPECT_EQ(s.code(), Code::kTooLarge);
    EXPECT_THAT(s.message(), HasSubstr("at most 32"));
  }
}

// Of a parser, each bracket would take dozens.
TEST(JsonInput, NothingOfItIsAllocatedBeforeItIsRefused) {
  if (NDT_SANITIZED) GTEST_SKIP() << "the sanitizer's operator new counts nothing";
  constexpr size_t kReason = 1024;
  const std::string text(60'000'000, '[');
  for (const int64_t most : {limits::kJsonText, int64_t{1} << 40}) {  // too long; too deep
    const size_t before = g_allocated;
    const Status checked = check_json(text, most);
    const Result<Json> read = read_json(text, most);
    const size_t taken = g_allocated - before;
    EXPECT_EQ(checked.code(), Code::kTooLarge);
    EXPECT_EQ(read.status().code(), Code::kTooLarge);
    EXPECT_LT(taken, kReason);
  }
}

TEST(JsonInput, BracketsInStringsAreNoDepth) {
  const std::string text = R"({"a": "\"[[[[{{{{\\", "b": ")" + std::string(100, '[') + "\"}";
  EXPECT_EQ(read_json(text).or_throw().at("b").get<std::string>().size(), 100U);
  const std::string hidden = R"(["\\", )" + nested(limits::kJsonDepth) + "]";
  EXPECT_EQ(read_json(hidden).status().code(), Code::kTooLarge);
}

TEST(JsonInput, SaysWhatIsNoJson) {
  for (const char* bad : {"", "{", "{]", "nonsense", "\"\xff\"", "]", "1 2"}) {
    EXPECT_EQ(read_json(bad).status().code(), Code::kCorrupt) << bad;
  }
}

TEST(JsonInput, CborIsReadAsDeepAsText) {
  EXPECT_EQ(read_cbor(std::string_view("\xa1\x61\x61\x82\x01\xf6", 6)).or_throw(),
            Json({{"a", {1, nullptr}}}));
  const auto arrays = [](int depth) {
    return std::string(static_cast<size_t>(depth), '\x81') + '\x01';
  };
  EXPECT_TRUE(read_cbor(arrays(limits::kJsonDepth)).ok());
  const std::string objects = [] {
    std::string all;
    for (int i = 0; i <= limits::kJsonDepth; ++i) all += "\xa1\x61\x61";
    return all + '\x01';
  }();
  // The parser would call itself so often that no stack is enough.
  for (const std::string& deep : {arrays(limits::kJsonDepth + 1), objects, arrays(10'000'000)}) {
    const Status s = read_cbor(deep).status();
    EXPECT_EQ(s.code(), Code::kTooLarge);
    EXPECT_THAT(s.message(), HasSubstr("more than 32"));
  }
  for (const char* bad : {"", "\x81", "\xff", "\x1c"}) {
    EXPECT_EQ(read_cbor(bad).status().code(), Code::kCorrupt) << bad;
  }
}

}  // namespace
}  // namespace ndtrain
