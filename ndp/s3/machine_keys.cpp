#include "ndp/s3/machine_keys.h"

#include <limits>
#include <string>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/text.h"
#include "framework/core/utc_text.h"
#include "ndp/s3/http_by_curl.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kBefore = 300, kBetween = 60;  // seconds
constexpr size_t kAnswer = size_t{64} << 10;
constexpr int64_t kTokenFile = int64_t{64} << 10;
// A machine that has no such service has nobody at its address either.
constexpr int kConnectSeconds = 1, kStallSeconds = 5;

constexpr const char* kMetadataService = "http://169.254.169.254";
constexpr const char* kContainerAgent = "http://169.254.170.2";
constexpr const char* kRoles = "/latest/meta-data/iam/security-credentials/";

Result<std::string> fetch(CurlConnections& connections, CurlRequest request) {
  const std::string what = request.method + " " + printable(request.url, 256);
  request.most = kAnswer;
  request.connect_seconds = kConnectSeconds;
  request.stall_seconds = kStallSeconds;
  Result<CurlAnswer> answer = connections.send(request);
  if (!answer.ok()) return Status(answer.status().code(), what + ": " + answer.status().message());
  if (answer->status == 200) return std::move(answer->body);
  return Status(answer->status == 404 ? Code::kNotFound : Code::kIo,
                what + " is answered " + std::to_string(answer->status));
}

Result<S3Keys> keys_in(const Result<std::string>& answer) {
  if (!answer.ok()) return answer.status();
  return parse_machine_keys(*answer);
}

// The role that the instance was given, in the metadata service's second version: who asks shows a
// token that it was given before, which a proxy that is tricked into asking does not have.
Result<S3Keys> ask_instance(CurlConnections& connections, const std::string& service) {
  const Result<std::string> token =
      fetch(connections, {.method = "PUT",
                          .url = service + "/latest/api/token",
                          .headers = {"x-aws-ec2-metadata-token-ttl-seconds: 300"}});
  if (!token.ok()) return token.status();
  const std::vector<std::string> headers = {"x-aws-ec2-metadata-token: " + *token};
  Result<std::string> roles = fetch(connections, {.url = service + kRoles, .headers = headers});
  const std::string role = roles.ok() ? roles->substr(0, roles->find('\n')) : "";
  if (roles.ok() ? role.empty() : roles.status().code() == Code::kNotFound) {
    return Status(Code::kUnsupported, "no role was given to this instance");
  }
  if (!roles.ok()) return roles.status();
  return keys_in(fetch(connections, {.url = service + kRoles + role, .headers = headers}));
}

struct Agent {
  std::string url;
  std::string token, token_file;  // "": none
};

std::optional<Agent> agent_of(const Environment& environment) {
  Agent agent{.token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or(""),
              .token_file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").value_or("")};
  if (const auto path = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    agent.url = kContainerAgent + *path;
  } else if (const auto url = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
    agent.url = *url;
  } else {
    return std::nullopt;
  }
  return agent;
}

Result<S3Keys> ask_agent(CurlConnections& connections, Fs& fs, const Agent& agent) {
  if (!is_private_way(agent.url)) {
    return Status(Code::kUnsupported, "AWS_CONTAINER_CREDENTIALS_FULL_URI " +
                                          printable(agent.url, 256) +
                                          ": https:// is expected, or this machine");
  }
  std::string token = agent.token;
  if (!agent.token_file.empty()) {  // read each time: it is replaced while it is good
    Result<std::string> text = fs.read(agent.token_file, kTokenFile);
    if (!text.ok()) return text.status();
    token = std::move(*text);
    while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  }
  if (token.find_first_of("\r\n") != std::string::npos) {
    return Status(Code::kUnsupported,
                  "the token for " + printable(agent.url, 256) + " has more than one line");
  }
  CurlRequest request{.url = agent.url};
  if (!token.empty()) request.headers = {"authorization: " + token};
  return keys_in(fetch(connections, std::move(request)));
}

}  // namespace

std::optional<int64_t> time_of_keys(std::string text) {
  const size_t dot = text.find('.');
  if (dot != std::string::npos && text.ends_with('Z')) text.replace(dot, std::string::npos, "Z");
  if (text.size() != 20 || text[10] != 'T' || text.back() != 'Z') return std::nullopt;
  text[10] = ' ';
  text.pop_back();
  return from_utc_text(text + " UTC");
}

bool is_private_way(const std::string& url) {
  if (url.starts_with("https://")) return true;
  for (const char* host :
       {"127.0.0.1", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"}) {
    const std::string begin = std::string("http://") + host;
    if (!url.starts_with(begin)) continue;
    const char next = url.size() == begin.size() ? '/' : url[begin.size()];
    if (next == '/' || next == ':' || next == '?') return true;
  }
  return false;
}

Result<S3Keys> parse_machine_keys(std::string_view json) {
  const Result<Json> parsed = read_json(json, static_cast<int64_t>(kAnswer));
  const auto text = [&](const char* name) -> std::string {
    if (!parsed.ok() || !parsed->is_object()) return "";
    const auto found = parsed->find(name);
    return found != parsed->end() && found->is_string() ? found->get<std::string>() : "";
  };
  S3Keys keys{.access = text("AccessKeyId"),
              .secret = text("SecretAccessKey"),
              .token = text("Token"),
              .expires = time_of_keys(text("Expiration"))};
  if (!keys.access.empty() && !keys.secret.empty()) return keys;
  const std::string why = text("Message").empty() ? text("Code") : text("Message");
  return Status(Code::kCorrupt,
                "the answer has no keys" + (why.empty() ? why : ": " + printable(why, 256)));
}

MachineKeys::MachineKeys(Ask ask, Clock& clock, std::string failure)
    : ask_(std::move(ask)), failure_(std::move(failure)), clock_(clock) {}

Result<S3Keys> MachineKeys::keys() {
  const std::lock_guard guard(mutex_);
  const int64_t now = clock_.unix_seconds();
  if (last_ && now < next_) return *last_;
  Result<S3Keys> given = ask_();
  if (given.ok()) {
    last_ = std::move(*given);
    next_ = last_->expires ? std::max(*last_->expires - kBefore, now + kBetween)
                           : std::numeric_limits<int64_t>::max();
    return *last_;
  }
  if (!last_ || now >= last_->expires.value_or(0)) {
    return Status(given.status().code(), failure_ + ": " + given.status().message());
  }
  next_ = now + kBetween;
  return *last_;
}

std::shared_ptr<S3KeySource> machine_keys(Fs& fs, const Environment& environment, Clock& clock) {
  const auto connections = std::make_shared<CurlConnections>();
  if (std::optional<Agent> agent = agent_of(environment)) {
    return std::make_shared<MachineKeys>(
        [connections, &fs, agent = std::move(*agent)] {
          return ask_agent(*connections, fs, agent);
        },
        clock);
  }
  if (environment("AWS_EC2_METADATA_DISABLED").value_or("") == "true") return nullptr;
  std::string service = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(kMetadataService);
  while (service.ends_with('/')) service.pop_back();
  return std::make_shared<MachineKeys>(
      [connections, service = std::move(service)] { return ask_instance(*connections, service); },
      clock);
}

}  // namespace ndtrain::ndp
