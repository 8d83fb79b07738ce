#include "tuner/models/whole_model.h"

#include <fmt/format.h>

namespace ndtrain::tuner {

Result<Digest> whole_model(Fs& fs, ModelStore& models, const std::string& jobs,
                           const PublishedModel& version) {
  const std::string run = join(jobs, std::to_string(version.job) + "/run");
  const Result<std::string> head = fs.read(join(run, "head.onnx"));
  if (head.ok() && sha256(*head) == version.head) return models.add_file(join(run, "model.onnx"));
  return Status(Code::kNotFound,
                fmt::format("version {} as a whole is no longer in {}", version.version, run));
}

}  // namespace ndtrain::tuner
