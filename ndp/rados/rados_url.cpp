#include "ndp/rados/rados_url.h"

#include <sstream>

#include "framework/core/text.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kRadosScheme = "rados://";

// Up to the next slash, which is taken too.
std::string take_part(std::string_view& rest) {
  const size_t slash = rest.find('/');
  std::string part(rest.substr(0, slash));
  rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
  return part;
}

}  // namespace

bool is_rados_url(std::string_view path) { return path.starts_with(kRadosScheme); }

Result<RadosPlace> rados_place(std::string_view url) {
  if (!is_rados_url(url)) return Status(Code::kUnsupported, printable(url, 1024) + ": no rados://");
  std::string_view rest = url.substr(kRadosScheme.size());
  RadosPlace place;
  place.pool = take_part(rest);
  place.nspace = take_part(rest);
  place.name = rest;
  if (place.pool.empty() || place.nspace.empty()) {
    return Status(Code::kUnsupported,
                  printable(url, 1024) + ": name a pool and a namespace, rados://POOL/NAMESPACE");
  }
  return place;
}

std::string user_in_ceph_args(const std::string& arguments) {
  constexpr std::string_view kClient = "client.";
  std::string user = "admin", word, flag;
  for (std::istringstream words(arguments); words >> word;) {
    const size_t equals = word.find('=');
    const bool whole = flag.empty() && equals != std::string::npos;
    if (whole) flag = word.substr(0, equals);
    const std::string value = whole ? word.substr(equals + 1) : word;
    if (flag == "--id" || flag == "--user") user = value;
    if (flag == "--name" || flag == "-n") {
      user = value.starts_with(kClient) ? value.substr(kClient.size()) : value;
    }
    flag = !whole && word.starts_with('-') ? word : "";
  }
  return user;
}

}  // namespace ndtrain::ndp
