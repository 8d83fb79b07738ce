#include "framework/core/json_cbor.h"

#include <cstddef>
#include <string>

#include "framework/core/json.h"
#include "framework/core/json_input.h"

namespace ndtrain {
namespace {

constexpr size_t kCborWhy = 200;  // bytes of what the parser says

// Ends the parser where arrays and objects are too deep in each other.
class DepthOfCbor final : public nlohmann::json_sax<Json> {
 public:
  bool too_deep() const { return depth_ > limits::kJsonDepth; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= limits::kJsonDepth; }
  bool start_array(std::size_t) override { return ++depth_ <= limits::kJsonDepth; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
};

}  // namespace

Result<Json> read_cbor(std::string_view bytes) {
  DepthOfCbor depth;
  if (!Json::sax_parse(bytes, &depth, Json::input_format_t::cbor)) {
    if (!depth.too_deep()) return Status(Code::kCorrupt, "no CBOR");
    return Status(Code::kTooLarge, "CBOR with more than " + std::to_string(limits::kJsonDepth) +
                                       " arrays and objects in each other");
  }
  try {
    return Json::from_cbor(bytes);
  } catch (const Json::exception& e) {
    return Status(Code::kCorrupt, "no CBOR: " + std::string(e.what()).substr(0, kCborWhy));
  }
}

}  // namespace ndtrain
