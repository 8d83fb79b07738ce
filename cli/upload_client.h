// Uploads photos as people do: to a PipeStore, or to the Tuner's address, which says which
// PipeStore.
#pragma once

#include <string>

#include "ndp/http/http_client.h"

namespace ndtrain::cli {
using namespace ndp;

// Without the path; HOST:PORT may stand alone. Throws UsageError without a port.
std::string http_address(std::string url);

struct UploadAnswer {
  HttpResponse response;
  std::string store;  // the address that gave it
};

// Follows one redirection, which brings what the store needs: the token is not shown there. The
// Status says who gave no answer.
Result<UploadAnswer> upload_photo(const std::string& address, const std::string& bytes,
                                  const HttpTrust& trust = {});

}  // namespace ndtrain::cli
