// A Tuner over HTTP, as the verbs ask it.
#pragma once

#include <string>
#include <string_view>

#include "cli/args.h"
#include "cli/context.h"
#include "ndp/http/http_client.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_http(ArgsSpec& args);          // --http, and those of declare_http_trust
void declare_http_trust(ArgsSpec& args);    // --token, --http-ca
HttpTrust http_trust_of(const Args& args);  // throws Error

// url_encoded() of each part of a path.
std::string url_path(std::string_view path);

class TunerClient {
 public:
  explicit TunerClient(const Args& args);
  TunerClient(const std::string& address, HttpTrust trust);
  explicit TunerClient(const std::string& address);  // with $NDTRAIN_TOKEN

  // The answer's JSON. Throws Error with what the Tuner says, or that there is none.
  Json get(const std::string& path) const;
  Json post(const std::string& path, const std::string& body = "") const;
  Json remove(const std::string& path) const;
  // Sends the file unless the Tuner has it; its SHA-256 in hex.
  std::string send_model(Fs& fs, const std::string& path) const;

 private:
  Json json_of(const Result<HttpResponse>& answer) const;

  std::string address_;
  HttpClient client_;
};

}  // namespace ndtrain::cli
