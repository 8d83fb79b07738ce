#include <fmt/format.h>

#include "cli/tuner_client.h"
#include "cli/verb.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// As part of an address.
std::string encoded(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string names(const Json& stores) {
  std::string all;
  for (const Json& s : stores) all += (all.empty() ? "" : ", ") + s.get<std::string>();
  return all;
}

}  // namespace

void declare_photos_rm(ArgsSpec& args) {
  args.positionals("PHOTO", "its SHA-256, or STORE/path as ndtrain labels query shows it");
  declare_http(args);
}

int run_photos_rm(Context& context, const Args& args) {
  (void)args.required("PHOTO");
  const TunerClient tuner(args);
  Json all = Json::array();
  std::string text;
  for (const std::string& photo : args.list("PHOTO")) {
    const Json& deleted = all.emplace_back(tuner.remove("/photos/" + encoded(photo)));
    text += photo + " is deleted";
    if (!deleted["told"].empty()) text += "; told: " + names(deleted["told"]);
    if (!deleted["away"].empty()) text += "; when they are back: " + names(deleted["away"]);
    text += "\n";
  }
  context.print(all, text);
  return kOk;
}

}  // namespace ndtrain::cli
