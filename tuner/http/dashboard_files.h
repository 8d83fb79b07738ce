// The files of tuner/dashboard, as the program carries them: written by cmake/embed_files.cmake.
#pragma once

#include <span>
#include <string_view>

namespace ndtrain::tuner {

struct DashboardFile {
  std::string_view name, content;
};

std::span<const DashboardFile> dashboard_files();

}  // namespace ndtrain::tuner
