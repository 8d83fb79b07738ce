#include "ndp/jobs/model_file.h"

#include <functional>
#include <utility>

#include "framework/graph/precision.h"
#include "ndp/jobs/described_model.h"

namespace ndtrain::ndp {
namespace {

// The image input's side where the file says nothing else: N x 3 x S x S or N x S x S x 3.
void assume_from_shape(const Model& m, Preprocess& p) {
  if (m.inputs.size() != 1 || m.inputs[0].dims.size() != 4) return;
  const std::vector<int64_t>& d = m.inputs[0].dims;
  if (d[3] == 3 && d[1] != 3) p.layout = Layout::kNhwc;
  const int64_t side = p.layout == Layout::kNhwc ? d[1] : d[2];
  if (side < 1 || side > kLargestInput) return;
  p.img_size = static_cast<int>(side);
  p.resize = resize_for_crop_pct(p.img_size, 0.875);
}

}  // namespace

Digest ModelFile::id() const {
  Model m = model;
  std::vector<std::string> keys = {metadata::kClasses};
  m.metadata.erase(metadata::kClasses);
  if (!classes.empty()) metadata::set_classes(m, classes);
  for (const auto& [key, value] : to_metadata(preprocess)) {
    m.metadata[key] = value;
    keys.push_back(key);
  }
  if (declared_precision(model) != Precision::kF32) keys.push_back(kPrecisionKey);
  return content_id(m, keys);
}

int64_t ModelFile::outputs() const {
  const Graph g = bind(model, 1);
  const Shape& s = g.shape(g.outputs()[0]);
  if (s.rank() < 2)
    throw Error(path, ": the output is ", s, "; a classifier's is [batch, classes]");
  return s[1];
}

std::string ModelFile::class_name(int64_t i) const {
  return static_cast<size_t>(i) < classes.size() ? classes[static_cast<size_t>(i)]
                                                 : std::to_string(i);
}

ModelFile described_model(const std::string& path, ImportOptions options,
                          const std::function<Model(const ImportOptions&)>& import) {
  ModelFile f;
  f.path = path;
  options.image_side = [&f, given = options.image_side](const auto& metadata) -> int64_t {
    f.side_from_preprocess = true;
    if (given) return given(metadata);
    return from_metadata(metadata).value_or(Preprocess{}).img_size;
  };
  f.model = import(options);
  f.classes = metadata::classes(f.model);
  if (const auto declared = from_metadata(f.model.metadata)) {
    f.preprocess = *declared;
    f.preprocess_declared = true;
  } else {
    assume_from_shape(f.model, f.preprocess);
  }
  return f;
}

ModelFile load_model(Fs& fs, const std::string& path, ImportOptions options) {
  const Result<FileInfo> info = fs.info(path);
  if (!info.ok()) throw Error("there is no model at ", path, ": ", info.status().message());
  const std::string file = info->is_directory ? join(path, "model.onnx") : path;
  if (info->is_directory && !fs.exists(file)) {
    throw Error(path, " holds no model.onnx: the run has not finished; go on with it by --resume");
  }
  return described_model(file, std::move(options),
                         [&](const ImportOptions& o) { return import_model(fs, file, o); });
}

void save_model(Fs& fs, const std::string& path, const ModelFile& file,
                const ExportOptions& options) {
  Model m = file.model;
  for (const auto& [key, value] : to_metadata(file.preprocess)) m.metadata[key] = value;
  m.metadata.erase(metadata::kClasses);
  if (!file.classes.empty()) metadata::set_classes(m, file.classes);
  export_model(fs, path, m, options).or_throw();
}

Digest extractor_id(const Model& extractor, const Preprocess& preprocess) {
  Model m = extractor;
  std::vector<std::string> keys;
  for (const auto& [key, value] : to_metadata(preprocess)) {
    m.metadata[key] = value;
    keys.push_back(key);
  }
  if (declared_precision(m) != Precision::kF32) keys.push_back(kPrecisionKey);
  return content_id(m, keys);
}

std::string preprocess_note(const ModelFile& file) {
  return (file.preprocess_declared ? "preprocessing: "
                                   : "the file declares no preprocessing; assuming ") +
         describe(file.preprocess) +
         (file.side_from_preprocess ? "; the model takes any height and width: those of the crop"
                                    : "");
}

}  // namespace ndtrain::ndp
