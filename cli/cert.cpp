#include <fmt/format.h>

#include <set>

#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/core/utc_text.h"
#include "ndp/wire/certificates.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kAuthorityDays = 3650;
constexpr int64_t kClocksApart = 3600;  // machines whose clock is late take a new certificate too

// The certificates of one directory: NAME.crt and NAME.key each.
class CertificateDirectory {
 public:
  CertificateDirectory(Context& context, std::string path)
      : fs_(context.fs()), path_(std::move(path)), now_(context.clock().unix_seconds()) {
    fs_.make_directories(path_).or_throw();
  }

  std::string certificate(const std::string& name) const { return join(path_, name + ".crt"); }
  std::string key(const std::string& name) const { return join(path_, name + ".key"); }
  bool has(const std::string& name) const { return fs_.exists(certificate(name)); }
  Validity days(int64_t n) const { return {now_ - kClocksApart, now_ + n * kDay}; }

  void write(const std::string& name, const Credentials& c) {
    // The key first: a certificate is there only with its key.
    publish(fs_, key(name), c.key, Fs::Mode::kCreatePrivate).or_throw();
    publish(fs_, certificate(name), c.certificate).or_throw();
    report(name, c.certificate, true);
  }
  Credentials keep(const std::string& name) {
    const Credentials c = {fs_.read(certificate(name), limits::kPemFile).or_throw(),
                           fs_.read(key(name), limits::kPemFile).or_throw()};
    report(name, c.certificate, false);
    return c;
  }

  Json files = Json::array();
  std::string text;

 private:
  void report(const std::string& name, const std::string& pem, bool made) {
    const Result<Validity> validity = validity_of(pem);
    if (!validity.ok()) throw Error(certificate(name), ": ", validity.status().message());
    files.push_back({{"name", name},
                     {"certificate", certificate(name)},
                     {"key", key(name)},
                     {"made", made},
                     {"expires", validity->until}});
    text += fmt::format("{}  {} and .key, until {}\n", made ? "made" : "kept", certificate(name),
                        utc_text(validity->until));
  }

  Fs& fs_;
  const std::string path_;
  const int64_t now_;
};

std::vector<std::string> split(const std::vector<std::string>& lists) {
  std::vector<std::string> parts;
  for (const std::string& list : lists) {
    for (size_t at = 0; at <= list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      parts.push_back(list.substr(at, end - at));
      at = end + 1;
    }
  }
  return parts;
}

Credentials authority_of(CertificateDirectory& directory, Fs& fs) {
  const bool has_key = fs.exists(directory.key("ca"));
  if (directory.has("ca") && has_key) return directory.keep("ca");
  if (directory.has("ca") || has_key) {
    throw Error(has_key ? directory.certificate("ca") : directory.key("ca"), " is missing beside ",
                has_key ? directory.key("ca") : directory.certificate("ca"),
                ": bring it back, or make a new authority in an empty directory");
  }
  const Credentials authority = make_authority("ndtrain authority", directory.days(kAuthorityDays));
  directory.write("ca", authority);
  return authority;
}

// Of --store or --member: what is before '=' and, each by itself, what is between '+' behind it.
Subject subject_named(const std::string& flag, LinkRole role, const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  Subject s{.role = role, .name = text.substr(0, equals)};
  for (size_t at = equals + 1; at <= text.size();) {
    const size_t end = std::min(text.find('+', at), text.size());
    s.hosts.push_back(text.substr(at, end - at));
    at = end + 1;
    if (is_host(s.hosts.back())) continue;
    throw UsageError(flag + " '" + text + "': '" + s.hosts.back() +
                     "' is no DNS name and no IP address");
  }
  if (!is_store_name(s.name) || s.name == "ca" || s.name == "tuner") {
    throw UsageError(
        fmt::format("{} '{}': a name has 1 to {} letters, digits, '.', '_' and '-', begins with "
                    "none of '.' and '-', and is not ca or tuner",
                    flag, s.name, kStoreNameBytes));
  }
  return s;
}

// A host may have the name of its store.
std::string web_file(const std::string& host) { return "web-" + host; }

std::string flags(const CertificateDirectory& directory, const std::string& name) {
  return fmt::format("--ca {} --cert {} --key {}", directory.certificate("ca"),
                     directory.certificate(name), directory.key(name));
}

}  // namespace

void declare_cert_init(ArgsSpec& args) {
  args.positional("DIR", "where the certificates are, or shall be");
  args.flag("host",
            "names and addresses by which PipeStores dial the Tuner, besides this machine's own "
            "loopback",
            "HOST[,HOST...]");
  args.flag("store",
            "PipeStores to make a certificate for, each with the hosts that its --http is reached "
            "by, where these are not the address it dials from",
            "NAME[=HOST[+HOST...]][,...]");
  args.flag("member",
            "members of a training by several machines to make a certificate for, each with the "
            "names and addresses by which the others dial it, besides loopback",
            "NAME[=HOST[+HOST...]][,...]");
  args.flag(
      "web",
      "hosts to make a certificate for, web-HOST.crt, by which the HTTP of a PipeStore or of the "
      "Tuner has TLS",
      "HOST[,HOST...]");
  args.flag("days", "how long the new certificates are valid", "N", "825");
  args.flag("force",
            "replace what --host (the Tuner's), --store, --member and --web ask for; never the "
            "authority's");
}

namespace {

struct CertRequest {
  std::vector<std::string> hosts, web;  // of the Tuner; of HTTP certificates
  std::vector<Subject> named;           // stores and members, as their files are called
  int64_t days;
  bool force;
};

void check_hosts(const char* flag, const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    if (is_host(host)) continue;
    throw UsageError(fmt::format("{} '{}': no DNS name and no IP address", flag, host));
  }
}

CertRequest request_of(const Args& args) {
  CertRequest r{.hosts = split(args.list("host")),
                .web = split(args.list("web")),
                .days = args.integer("days"),
                .force = args.on("force")};
  for (const std::string& store : split(args.list("store"))) {
    r.named.push_back(subject_named("--store", LinkRole::kStore, store));
  }
  for (const std::string& member : split(args.list("member"))) {
    r.named.push_back(subject_named("--member", LinkRole::kMember, member));
  }
  if (r.days < 1 || r.days > kAuthorityDays) {
    throw UsageError(fmt::format("--days {}: 1 to {}", r.days, kAuthorityDays));
  }
  check_hosts("--host", r.hosts);
  check_hosts("--web", r.web);
  std::set<std::string> names;
  for (const Subject& s : r.named) {
    if (names.insert(s.name).second) continue;
    throw UsageError("'" + s.name +
                     "' is named twice: a certificate is of one --store or --member");
  }
  if (r.force && r.hosts.empty() && r.named.empty() && r.web.empty()) {
    throw UsageError(
        "--force replaces what --host, --store, --member or --web asks for, and there is none");
  }
  return r;
}

void check_replaced(const CertificateDirectory& directory, const CertRequest& r) {
  std::vector<std::string> asked;
  for (const Subject& s : r.named) asked.push_back(s.name);
  if (!r.hosts.empty()) asked.push_back("tuner");
  for (const std::string& host : r.web) asked.push_back(web_file(host));
  for (const std::string& name : asked) {
    if (directory.has(name) && !r.force) {
      throw Error(directory.certificate(name), " exists; --force replaces it");
    }
  }
}

void make_certificates(Context& context, CertificateDirectory& directory, const CertRequest& r) {
  const Credentials authority = authority_of(directory, context.fs());
  const auto make = [&](const std::string& file, const Subject& subject) {
    const Result<Credentials> made = issue(authority, subject, directory.days(r.days));
    if (!made.ok()) throw Error(directory.certificate("ca"), ": ", made.status().message());
    directory.write(file, *made);
  };
  // Who is dialled is so on its own machine, too.
  const auto make_dialled = [&](Subject subject) {
    subject.hosts.insert(subject.hosts.begin(), {"localhost", "127.0.0.1", "::1"});
    make(subject.name, subject);
  };
  if (r.hosts.empty() && directory.has("tuner")) {
    directory.keep("tuner");
  } else {
    make_dialled({.role = LinkRole::kTuner, .name = "tuner", .hosts = r.hosts});
  }
  for (const Subject& s : r.named) {
    s.role == LinkRole::kMember ? make_dialled(s) : make(s.name, s);
  }
  for (const std::string& host : r.web) {
    make(web_file(host), {.role = LinkRole::kTuner, .name = "web", .hosts = {host}});
  }
}

// How those are started that they are for.
Json commands_with(const CertificateDirectory& directory, const CertRequest& r) {
  Json commands = Json::array();
  commands.push_back("ndtrain tuner serve --listen 0.0.0.0:25258 --state STATE " +
                     flags(directory, "tuner"));
  const std::string host = r.hosts.empty() ? "HOST" : r.hosts[0];
  const std::string dialled = host.find(':') == host.npos ? host : "[" + host + "]";
  for (const Subject& s : r.named) {
    const char* verb =
        s.role == LinkRole::kMember ? "tuner join" : "pipestore serve --photos PHOTOS";
    commands.push_back(fmt::format("ndtrain {} --name {} --tuner {}:25258 --state STATE {}", verb,
                                   s.name, dialled, flags(directory, s.name)));
  }
  return commands;
}

}  // namespace

int run_cert_init(Context& context, const Args& args) {
  const CertRequest request = request_of(args);
  CertificateDirectory directory(context, args.required("DIR"));
  check_replaced(directory, request);
  make_certificates(context, directory, request);
  const Json commands = commands_with(directory, request);
  std::string text = directory.text + "\nThe Tuner, and each of the others with its own files:\n";
  for (const Json& command : commands) text += "  " + command.get<std::string>() + "\n";
  text += fmt::format("\n{} makes certificates: copy it to no server.\n", directory.key("ca"));
  context.print({{"files", directory.files}, {"commands", commands}}, text);
  return kOk;
}

}  // namespace ndtrain::cli
