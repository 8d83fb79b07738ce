// Tensors that an ONNX model keeps in files of their own. The model names those files, so what it
// says is untrusted: nothing outside the model's directory is opened, whatever the path or a link
// says. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ndtrain {

class ExternalData {
 public:
  // Of all files beneath `directory`, "" being the working one; where `of` is a model's file name,
  // of those alone that are called after it: OF.data and OF.ANYTHING.data.
  explicit ExternalData(const std::string& directory, std::string of = "");
  ~ExternalData();
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;

  // Checks that `location` is a file beneath the directory that holds [offset, offset + length);
  // length < 0 means up to its end. Returns the length. Throws Error otherwise.
  int64_t check(const std::string& location, int64_t offset, int64_t length) const;
  // Fills `to` from `offset`. Throws Error as check() does.
  void read(const std::string& location, int64_t offset, std::span<std::byte> to) const;

 private:
  int open(const std::string& location) const;

  const std::string directory_, of_;
  mutable int directory_fd_ = -1;  // opened by the first that is asked for
};

// Whether a model called `model` may have its weights there without being asked.
bool is_named_after(std::string_view location, std::string_view model);

}  // namespace ndtrain
