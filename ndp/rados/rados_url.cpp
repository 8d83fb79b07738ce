#include "ndp/rados/rados_url.h"

#include <sstream>

#include "framework/core/fs.h"
#include "framework/core/text.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kRadosScheme = "rados://";

struct UrlPart {
  std::string text;
  bool ended = false;  // by a slash
};

// Up to the next slash, which is taken too.
UrlPart take_part(std::string_view& rest) {
  const size_t slash = rest.find('/');
  UrlPart part{std::string(rest.substr(0, slash)), slash != std::string_view::npos};
  rest.remove_prefix(part.ended ? slash + 1 : rest.size());
  return part;
}

}  // namespace

bool is_rados_url(std::string_view path) { return path.starts_with(kRadosScheme); }

Result<RadosPlace> rados_place(std::string_view url) {
  if (!is_rados_url(url)) return Status(Code::kUnsupported, printable(url, 1024) + ": no rados://");
  std::string_view rest = url.substr(kRadosScheme.size());
  const UrlPart pool = take_part(rest), nspace = take_part(rest);
  if (pool.text.empty() || (nspace.text.empty() && !nspace.ended)) {
    return Status(Code::kUnsupported,
                  printable(url, 1024) +
                      ": name a pool and a namespace, rados://POOL/NAMESPACE; the one without a "
                      "name is rados://POOL//");
  }
  return RadosPlace{.pool = pool.text, .nspace = nspace.text, .name = std::string(rest)};
}

std::string rados_path(const RadosPlace& place) {
  std::string path = std::string(kRadosScheme) + place.pool + "/" + place.nspace;
  if (place.nspace.empty()) path += '/';
  std::string_view name = place.name;
  while (name.ends_with('/')) name.remove_suffix(1);
  return name.empty() ? path : join(path, name);
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
