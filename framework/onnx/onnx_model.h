// An ONNX file as it stands, opset differences and functions included, but without protobuf: what
// the steps of import read and what export writes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "framework/graph/model.h"
#include "framework/onnx/external_data.h"

namespace ndtrain {

inline constexpr int kMinIr = 3, kMaxIr = 14;
inline constexpr int kMinOpset = 1, kMaxOpset = 28;
inline constexpr int kLeastExportOpset = 17;  // up to kMaxOpset can be written

struct OnnxGraph;

struct OnnxNode {
  std::string domain;  // "" for ONNX's own, also where the file says ai.onnx
  std::string op, overload, name;
  std::vector<std::string> inputs, outputs;
  Attrs attrs;
  std::map<std::string, std::string> references;  // attribute -> the function's attribute it takes
  std::map<std::string, std::vector<std::string>> strings;  // attributes that are lists of strings
  std::map<std::string, std::string> unsupported;           // attribute -> its kind: a type, …
  std::map<std::string, std::shared_ptr<const OnnxGraph>> graphs;  // attributes: branches, bodies
  int64_t opset = 0;  // of the node's domain; 0: not imported
};

struct OnnxFunction {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs;
  std::set<std::string> attributes;  // all it may be given
  OnnxNode defaults;                 // attrs, strings and unsupported: what it has when not given
  std::vector<OnnxNode> nodes;
  std::map<std::string, int64_t> opsets;
};

// A tensor type as declared. `dims` has kUnknown where neither a number nor a name is given.
struct OnnxValue {
  std::string name;
  DType dtype = DType::kNone;  // kNone: not said, or not one of ours
  std::string kind;            // what it is when no tensor of ours: "a sequence", "string", …
  bool has_shape = false;
  std::vector<int64_t> dims;       // negative where symbolic
  std::vector<std::string> names;  // of symbolic dims
};

// Reads what it does not define from the graphs around it.
struct OnnxGraph {
  std::vector<OnnxValue> inputs, outputs, values;
  std::vector<OnnxNode> nodes;
  std::map<std::string, Tensor> initialisers;
};

struct OnnxModel : OnnxGraph {
  int64_t ir = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;
  std::vector<OnnxFunction> functions;
  std::map<std::string, std::string> metadata;
};

// "node 'conv1' (Conv)", or by its first output where it has no name.
std::string describe(const OnnxNode& node);

// The names that a node's graphs read from around them.
std::set<std::string> captured(const OnnxNode& node);

// Protobuf to OnnxModel, `bytes` freed on the way. `external` may be null: then a tensor stored
// outside is refused. Throws Error naming every unreadable tensor at once.
OnnxModel parse_onnx(std::string bytes, const ExternalData* external);

// The file with those initialisers in it that are outside; as it is where none are, or where it is
// none. kCorrupt, kTooLarge as read_as_one_file() has them.
Result<std::string> with_weights_inside(std::string bytes, const ExternalData& external);

// Initialisers that are in another file, beside the model's: its name, and where each begins.
struct ExternalWeights {
  std::string location;
  std::map<std::string, int64_t> offsets;
};

// The reverse; the same bytes for the same model. Throws Error beyond limits::kModelFile.
std::string serialise_onnx(const OnnxModel& model, const ExternalWeights& external = {});

}  // namespace ndtrain
