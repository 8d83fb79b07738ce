#include "framework/train/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/core/limits.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

// A file with this header before `data`.
std::string file_of(std::string header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

Code code_of(const std::string& bytes) {
  const Result<TensorFile> r = from_safetensors(bytes);
  return r.status().code();
}

TensorFile all_dtypes() {
  TensorFile f;
  for (DType t :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kU8, DType::kI16,
        DType::kU16, DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kBool}) {
    f.tensors[std::string(name_of(t))] = testing::random_tensor({t, {3, 5}}, 1, name_of(t));
  }
  f.tensors["scalar"] = testing::random_tensor({DType::kF32, {}}, 1, "scalar");
  f.tensors["empty"] = Tensor({DType::kF32, {0, 4}});
  f.metadata = {{"format", "x"}, {"quote \" and umlaut", "\xC3\xA4"}};
  return f;
}

TEST(Safetensors, EveryDTypeComesBack) {
  const TensorFile f = all_dtypes();
  const std::string bytes = to_safetensors(f);
  const TensorFile g = from_safetensors(bytes).or_throw();
  EXPECT_EQ(g.metadata, f.metadata);
  ASSERT_EQ(g.tensors.size(), f.tensors.size());
  for (const auto& [name, t] : f.tensors) EXPECT_TRUE(t.same_bytes(g.tensors.at(name))) << name;
  EXPECT_EQ(to_safetensors(g), bytes);
}

TEST(Safetensors, AnEmptyFileIsAFile) {
  const TensorFile g = from_safetensors(to_safetensors({})).or_throw();
  EXPECT_TRUE(g.tensors.empty());
}

// Written down from the format's description, as its own library writes it.
TEST(Safetensors, AFileOfTheReferenceLibraryIsRead) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"I64","shape":[1,1],"data_offsets":[8,16]}}   )";
  const float b[] = {1.5F, -2};
  const int64_t a = 7;
  std::string data(reinterpret_cast<const char*>(b), 8);
  data.append(reinterpret_cast<const char*>(&a), 8);
  const TensorFile f = from_safetensors(file_of(header, data)).or_throw();
  EXPECT_EQ(f.metadata.at("format"), "pt");
  EXPECT_EQ(f.tensors.at("b").to_doubles(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(f.tensors.at("a").to_ints(), (std::vector<int64_t>{7}));
  EXPECT_EQ(f.tensors.at("a").shape(), (Shape{1, 1}));
}

TEST(Safetensors, DataBeginsAligned) {
  for (int n = 0; n < 9; ++n) {
    TensorFile f;
    f.tensors[std::string(static_cast<size_t>(n), 'n')] = Tensor({DType::kF64, {1}});
    uint64_t length = 0;
    std::memcpy(&length, to_safetensors(f).data(), 8);
    EXPECT_EQ(length % 8, 0U);
  }
}

TEST(Safetensors, EveryTruncationIsCorrupt) {
  const std::string bytes = to_safetensors(all_dtypes());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(code_of(bytes.substr(0, n)), Code::kCorrupt) << "after " << n << " bytes";
  }
  EXPECT_EQ(code_of(bytes + "x"), Code::kCorrupt);
}

TEST(Safetensors, AnyFlippedByteIsReadOrRefusedButNeverWorse) {
  const std::string bytes = to_safetensors(all_dtypes());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit : {0, 3, 7}) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const Code code = code_of(flipped);
      EXPECT_TRUE(code == Code::kOk || code == Code::kCorrupt);
    }
  }
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(Safetensors, OffsetsThatDoNotAddUpAreCorrupt) {
  const std::string data(16, '\0');
  const auto code = [&](const std::string& entries) {
    return code_of(file_of("{" + entries + "}", data));
  };
  ASSERT_EQ(code(entry("a", "[2]", "[0,8]") + "," + entry("b", "[2]", "[8,16]")), Code::kOk);
  const std::string bad[] = {
      entry("a", "[4]", "[0,16]") + "," + entry("b", "[2]", "[8,16]"),  // overlap
      entry("a", "[2]", "[0,8]") + "," + entry("b", "[1]", "[12,16]"),  // a hole
      entry("a", "[2]", "[0,8]"),                                       // not all of the data
      entry("a", "[5]", "[0,20]"),                                      // beyond the end
      entry("a", "[3]", "[0,16]"),                                      // not the shape's size
      entry("a", "[4]", "[16,0]"),
      entry("a", "[4]", "[-16,0]"),
      entry("a", "[4]", "[0.0,16.0]"),
      entry("a", "[4]", "[0]"),
      entry("a", "[4]", "[0,16,16]"),
      entry("a", "[4]", "\"0,16\""),
      entry("a", "[-4]", "[0,16]"),
      entry("a", "[4294967296,4294967296]", "[0,16]"),
      entry("a", "[4]", "[0,18446744073709551615]"),
      entry("a", "[2,1,1,1,1,1,1,1,1,2]", "[0,16]"),
      entry("a", "\"4\"", "[0,16]"),
      entry("a", "[4]", "[0,16]", "F33"),
      "\"a\":7",
      R"("a":{"dtype":"F32"})",
      R"("__metadata__":{"x":1},)" + entry("a", "[4]", "[0,16]"),
  };
  for (const std::string& entries : bad) EXPECT_EQ(code(entries), Code::kCorrupt) << entries;
}

TEST(Safetensors, AHeaderThatIsNoObjectIsCorrupt) {
  for (const char* header : {"", "null", "7", "[]", "\"x\"", "{", "{}}", "{\"a\":"}) {
    EXPECT_EQ(code_of(file_of(header, "")), Code::kCorrupt) << header;
  }
  EXPECT_EQ(code_of(file_of(std::string(100000, '['), "")), Code::kTooLarge) << "too deep";
}

TEST(Safetensors, TheHeadersLengthIsLimited) {
  const auto limit = static_cast<size_t>(limits::kSafetensorsHeader);
  for (size_t n : {limit - 1, limit}) {
    std::string header = "{}";
    header.resize(n, ' ');
    EXPECT_EQ(code_of(file_of(std::move(header), "")), Code::kOk) << n;
  }
  std::string header = "{}";
  header.resize(limit + 1, ' ');
  EXPECT_EQ(code_of(file_of(std::move(header), "")), Code::kCorrupt);
  std::string huge = file_of("{}", "");
  std::memset(huge.data(), 0xFF, 8);
  EXPECT_EQ(code_of(huge), Code::kCorrupt);
}

TEST(Safetensors, ANameThatIsNoTextIsAnError) {
  TensorFile f;
  f.tensors["\xFF"] = Tensor({DType::kF32, {1}});
  EXPECT_THROW(to_safetensors(f), Error);
}

}  // namespace
}  // namespace ndtrain
