#include "tuner/work/cut_model.h"

#include "framework/graph/precision.h"
#include "tuner/work/finetune_work.h"
#include "tuner/work/precision_survey.h"

namespace ndtrain::tuner {
using namespace ndp;

CutModel cut_model(const JobContext& context, const JobSpec& spec, const std::string& directory) {
  CutModel c;
  c.model = context.models.load(digest_from_hex(spec.model));
  c.transfer = transfer_of(c.model, spec, any_classes(c.model, spec));
  if (!spec.precision.empty()) {
    c.lowered = load_model(context.fs, PrecisionSurvey::outcome(directory)).model;
    c.transfer = with_extractor_of(std::move(c.transfer), *c.lowered, c.model.preprocess);
  }
  ModelFile part = c.model;
  part.model = c.transfer.extractor;
  part.classes = {};
  part.model.metadata = {};  // what it was cut from: the same extractor is the same file
  declare_precision(part.model, declared_precision(c.transfer.extractor));
  const std::string file = join(directory, "extractor.onnx");
  save_model(context.fs, file, part);
  c.extractor = context.models.add_file(file).or_throw();
  context.fs.remove(file).or_throw();  // the Tuner's models have it
  return c;
}

}  // namespace ndtrain::tuner
