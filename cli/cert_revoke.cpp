#include <fmt/format.h>

#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "ndp/wire/certificates.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_cert_revoke(ArgsSpec& args) {
  args.positional("DIR", "where the certificates are (ndtrain cert init)");
  args.positional(
      "NAME",
      "whose certificate is revoked, NAME.crt there (default: nobody's, for a list to begin with)");
}

int run_cert_revoke(Context& context, const Args& args) {
  Fs& fs = context.fs();
  const std::string directory = args.required("DIR"), name = args.text("NAME");
  const auto read = [&](const std::string& file) {
    return fs.read(join(directory, file), limits::kPemFile).or_throw();
  };
  if (name == "ca") throw UsageError("cert revoke ca: an authority cannot take itself back");
  const Credentials authority = {.certificate = read("ca.crt"), .key = read("ca.key")};
  const std::string certificate = name.empty() ? "" : read(name + ".crt"),
                    path = join(directory, "ca.crl");
  const std::string earlier = fs.exists(path) ? read("ca.crl") : "";
  const bool already =
      is_revoked({.authority = authority.certificate, .revoked = earlier}, certificate);
  if (!already) {
    const Result<std::string> list =
        revoke(authority, earlier, certificate, context.clock().unix_seconds());
    if (!list.ok()) throw Error(directory, " ", name, ": ", list.status().message());
    publish(fs, path, *list).or_throw();
  }
  context.print(
      {{"name", name}, {"list", path}, {"added", !already}},
      fmt::format("{} {} in {}; give it to the Tuner and the others with --crl\n",
                  name.empty() ? "nobody else" : name, already ? "was already" : "is now", path));
  return kOk;
}

}  // namespace ndtrain::cli
