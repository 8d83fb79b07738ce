// Uploads photos as people do: to a PipeStore, or to the Tuner's address, which says which
// PipeStore.
#pragma once

#include <string>

#include "ndp/http/http_client.h"

namespace ndtrain::cli {

// The address in http://HOST:PORT/…, or HOST:PORT itself. Throws UsageError without a port.
std::string http_address(std::string url);

struct UploadAnswer {
  HttpResponse response;
  std::string store;  // the address that gave it
};

// Follows one redirection. The Status says who gave no answer.
Result<UploadAnswer> upload_photo(const std::string& address, const std::string& bytes);

}  // namespace ndtrain::cli
