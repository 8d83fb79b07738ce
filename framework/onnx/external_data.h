// Tensors that an ONNX model keeps in files of their own. The model names those files, so what it
// says is untrusted: nothing outside the model's directory is opened, whatever the path or a link
// says.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ndtrain {

class ExternalData {
 public:
  // Throws Error when `directory` cannot be opened. "" is the working directory.
  explicit ExternalData(const std::string& directory);
  ~ExternalData();
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;

  // Checks that `location` is a file beneath the directory that holds [offset, offset + length);
  // length < 0 means up to its end. Returns the length. Throws Error otherwise.
  int64_t check(const std::string& location, int64_t offset, int64_t length) const;
  // Fills `to` from `offset`. Throws Error as check() does.
  void read(const std::string& location, int64_t offset, std::span<std::byte> to) const;

 private:
  std::string directory_;
  int directory_fd_;
};

}  // namespace ndtrain
