#include "cli/tuner_client.h"

#include "framework/core/hash.h"
#include "framework/core/limits.h"

namespace ndtrain::cli {

void declare_http(ArgsSpec& args) {
  args.flag("http", "the Tuner to ask", "HOST:PORT", "127.0.0.1:8420");
}

TunerClient::TunerClient(const Args& args) : TunerClient(args.required("http")) {}
TunerClient::TunerClient(std::string address)
    : address_(std::move(address)), client_(address_, std::chrono::minutes(5)) {}

Json TunerClient::json_of(const Result<HttpResponse>& answer) const {
  if (!answer.ok()) {
    throw Error("no Tuner answers at ", address_, " (", answer.status().message(),
                "); is ndtrain tuner serve running? --http names another");
  }
  const Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw Error(address_, " does not answer as a Tuner does");
  if (answer->status >= 400) {
    throw Error(json.is_object() && json.contains("error") ? json["error"].get<std::string>()
                                                           : json.dump());
  }
  return json;
}

Json TunerClient::get(const std::string& path) const { return json_of(client_.get(path)); }
Json TunerClient::post(const std::string& path, const std::string& body) const {
  return json_of(client_.post(path, body));
}
Json TunerClient::remove(const std::string& path) const { return json_of(client_.remove(path)); }

std::string TunerClient::send_model(Fs& fs, const std::string& path) const {
  const std::string bytes = fs.read(path, limits::kModelFile).or_throw();
  const std::string digest = to_hex(sha256(bytes));
  const Result<HttpResponse> known = client_.get("/models/" + digest);
  if (known.ok() && known->status == 200) return digest;
  (void)json_of(client_.put("/models/" + digest, bytes));
  return digest;
}

}  // namespace ndtrain::cli
