#include "ndp/jobs/model_check.h"

#include <utility>

#include "framework/core/limits.h"
#include "framework/onnx/import.h"
#include "framework/passes/inference.h"
#include "ndp/deltas/delta.h"
#include "ndp/jobs/described_model.h"

namespace ndtrain::ndp {
namespace {

ModelFile model_from_bytes(std::string file, const std::string& path) {
  return described_model(path, {},
                         [&](const ImportOptions& o) { return import_model(std::move(file), o); });
}

}  // namespace

Result<std::string> ModelCheck::apply(std::string_view base, std::string_view delta) {
  return apply_delta(base, delta);
}

void try_model(std::string file) {
  const ModelFile model = model_from_bytes(std::move(file), "");
  (void)inference_graph(model.model, 1);
}

ModelFile checked_model(std::string file, const Digest& digest, const std::string& path,
                        ModelCheck* check) try {
  if (check) check->check(digest, file).or_throw();
  return model_from_bytes(std::move(file), path);
} catch (const Error& e) {
  throw Error(path, ": ", e.what());
}

ModelFile load_checked_model(Fs& fs, const std::string& path, ModelCheck* check) {
  std::string file = fs.read(path, limits::kModelFile).or_throw();
  const Digest digest = check ? sha256(file) : Digest{};
  return checked_model(std::move(file), digest, path, check);
}

}  // namespace ndtrain::ndp
