// Bytes as text of 64 characters (RFC 4648), padded with '='.
#pragma once

#include <string>
#include <string_view>

namespace ndtrain {

std::string to_base64(std::string_view bytes);

}  // namespace ndtrain
