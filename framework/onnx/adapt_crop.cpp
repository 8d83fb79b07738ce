// CenterCropPad as a Slice and a Pad, whose numbers are computed from shapes and folded once these
// are known.
#include "framework/onnx/adapt.h"

namespace ndtrain {

void adapt_center_crop_pad(Adaptation& a) {
  const Ints named = a.take<Ints>("axes").value_or(Ints{});
  const std::string x = a.input(0), two = a.constant({2}), none = a.constant({0});
  const std::string wanted =
      a.before("Cast", {a.input(1)}, {{"to", static_cast<int64_t>(DType::kI64)}});
  const std::string axes = named.empty() ? "" : a.constant(named);
  std::string extents = a.before("Shape", {x});
  if (!named.empty()) extents = a.before("Gather", {extents, axes}, {{"axis", int64_t{0}}});
  const auto beyond = [&](const std::string& more, const std::string& less) {
    return a.before("Max", {a.before("Sub", {more, less}), none});
  };
  // Of an odd number what is in front is one less than what is behind.
  const std::string start = a.before("Div", {beyond(extents, wanted), two});
  const std::string end = a.before("Add", {start, a.before("Min", {extents, wanted})});
  std::vector<std::string> slice = {x, start, end};
  if (!named.empty()) slice.push_back(axes);
  const std::string padding = beyond(wanted, extents);
  const std::string front = a.before("Div", {padding, two});
  const std::string pads =
      a.before("Concat", {front, a.before("Sub", {padding, front})}, {{"axis", int64_t{0}}});
  std::vector<std::string> pad = {a.before("Slice", std::move(slice)), pads};
  if (!named.empty()) pad.insert(pad.end(), {"", axes});
  a.become("Pad", std::move(pad));
}

}  // namespace ndtrain
