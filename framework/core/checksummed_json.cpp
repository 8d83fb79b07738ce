#include "framework/core/checksummed_json.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/core/json_input.h"

namespace ndtrain {
namespace {

constexpr const char* kChecksum = "checksum";

std::string checksum_of(const Json& value) {
  const std::string text = json_text_replacing(value);
  return fmt::format("{:016x}", xxh3(text.data(), text.size()));
}

bool has_checksum(const Json& object) {
  for (const auto& [key, value] : object.items()) {
    if (is_checksum_key(key)) return true;
  }
  return false;
}

}  // namespace

bool is_checksum_key(std::string_view key) {
  if (key.size() != std::string_view(kChecksum).size()) return false;
  int bits = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    bits += std::popcount(static_cast<unsigned char>(key[i] ^ kChecksum[i]));
  }
  return bits <= 1;
}

std::string checksummed(Json object, int indent) {
  object[kChecksum] = checksum_of(object);
  return json_text(object, indent) + "\n";
}

Json verified(std::string_view text) {
  if (const Status s = check_json(text, INT64_MAX); !s.ok()) {
    throw Error("is damaged: ", s.message(), "; put back a backup");
  }
  Json value = try_parse_json(text);
  if (value.is_discarded()) throw Error("is damaged: it is not JSON; put back a backup");
  if (!value.is_object() || !has_checksum(value)) return value;
  const Json said = value.value(kChecksum, Json());
  value.erase(kChecksum);
  if (said == checksum_of(value)) return value;
  throw Error("is damaged, or was edited: its checksum is wrong; put back a backup, or take the ",
              "\"checksum\" out if the rest is right");
}

}  // namespace ndtrain
