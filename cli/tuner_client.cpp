#include "cli/tuner_client.h"

#include <cstdlib>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/onnx/import.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_http(ArgsSpec& args) {
  args.flag("http", "the Tuner to ask; https:// before it where it has TLS", "HOST:PORT",
            "127.0.0.1:8420");
  declare_http_trust(args);
}

void declare_http_trust(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Access");
  args.flag("token",
            "what lets you in (ndtrain token new); others of this machine do not see it "
            "in $NDTRAIN_TOKEN",
            "TOKEN");
  args.flag("http-ca", "of https://: the authority of its certificate (default: the system's)",
            "FILE");
}

HttpTrust http_trust_of(const Args& args) {
  HttpTrust trust{.token = args.text("token")};
  if (!args.has("http-ca")) return trust;
  const std::string path = args.text("http-ca");
  Result<std::shared_ptr<TlsClient>> tls =
      TlsClient::make(real_fs().read(path, limits::kPemFile).or_throw());
  if (!tls.ok()) throw Error(path, ": ", tls.status().message());
  trust.tls = std::move(*tls);
  return trust;
}

std::string url_path(std::string_view path) {
  std::string out;
  for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/')) {
    out += url_encoded(path.substr(0, slash)) + "/";
    path.remove_prefix(slash + 1);
  }
  return out + url_encoded(path);
}

TunerClient::TunerClient(const Args& args)
    : TunerClient(args.required("http"), http_trust_of(args)) {}
TunerClient::TunerClient(const std::string& address)
    : TunerClient(address, [] {
        const char* const token = std::getenv("NDTRAIN_TOKEN");
        return HttpTrust{.token = token ? token : ""};
      }()) {}
TunerClient::TunerClient(const std::string& address, HttpTrust trust)
    : address_(address), client_(address, std::chrono::minutes(5), std::move(trust)) {}

Json TunerClient::json_of(const Result<HttpResponse>& answer) const {
  if (!answer.ok()) {
    throw Error("no Tuner answers at ", address_, " (", answer.status().message(),
                "); is ndtrain tuner serve running? --http names another");
  }
  const Json json = try_parse_json(answer->body);
  if (json.is_discarded()) throw Error(address_, " does not answer as a Tuner does");
  if (answer->status >= 400) {
    throw Error(json.is_object() && json.contains("error") ? json["error"].get<std::string>()
                                                           : json_text(json));
  }
  return json;
}

Json TunerClient::get(const std::string& path) const { return json_of(client_.get(path)); }
Json TunerClient::post(const std::string& path, const std::string& body) const {
  return json_of(client_.post(path, body));
}
Json TunerClient::remove(const std::string& path) const { return json_of(client_.remove(path)); }

std::string TunerClient::send_model(Fs& fs, const std::string& path) const {
  const std::string bytes = read_as_one_file(fs, path).or_throw();
  const std::string digest = to_hex(sha256(bytes));
  const Result<HttpResponse> known = client_.get("/models/" + digest);
  if (known.ok() && known->status == 200) return digest;
  (void)json_of(client_.put("/models/" + digest, bytes));
  return digest;
}

}  // namespace ndtrain::cli
