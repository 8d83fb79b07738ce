"""What ONNX's own reference gives for Attention: python3 attention.py > tests/onnx/golden/attention.txt

Needs the onnx package, 1.21 or later. Element i of input k is ((7 i + 13 k) % 17 - 8) / 8, of a bool
mask (5 i + k) % 3 != 0; the test makes the same.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

INPUTS = ("q", "k", "v", "mask", "past_k", "past_v")
OUTPUTS = ("y", "present_k", "present_v", "qk")

# name, opset, shapes of the inputs ("?" before one of bools), attributes, number of outputs.
CASES = [
    ("plain", 23, "2,2,3,4 2,2,5,4 2,2,5,6", {}, 1),
    ("scaled", 23, "2,2,3,4 2,2,5,4 2,2,5,4", {"scale": 0.25}, 1),
    ("heads_said", 23, "2,2,3,4 2,2,5,4 2,2,5,4", {"q_num_heads": 2, "kv_num_heads": 2}, 1),
    ("flat", 23, "2,3,8 2,5,8 2,5,12", {"q_num_heads": 2, "kv_num_heads": 2}, 1),
    ("grouped", 23, "2,4,3,4 2,2,5,4 2,2,5,6", {}, 1),
    ("flat_grouped", 23, "2,3,24 2,5,8 2,5,6", {"q_num_heads": 6, "kv_num_heads": 2}, 1),
    ("one_key_head", 24, "2,4,3,4 2,1,5,4 2,1,5,4", {"is_causal": 1}, 1),
    ("causal", 23, "2,2,4,4 2,2,4,4 2,2,4,4", {"is_causal": 1}, 1),
    ("causal_wide", 23, "1,2,3,4 1,2,6,4 1,2,6,4", {"is_causal": 1}, 1),
    ("mask", 23, "2,2,3,4 2,2,5,4 2,2,5,4 3,5", {}, 1),
    ("mask_of_heads", 23, "2,2,3,4 2,2,5,4 2,2,5,4 2,1,5", {}, 1),
    ("mask_of_images", 24, "2,2,3,4 2,2,5,4 2,2,5,4 2,2,3,5", {"is_causal": 1}, 1),
    ("bool_mask", 23, "2,2,3,4 2,2,5,4 2,2,5,4 ?3,5", {}, 1),
    ("bool_mask_causal", 23, "2,2,4,4 2,2,4,4 2,2,4,4 ?2,1,4,4", {"is_causal": 1}, 1),
    ("flat_mask", 23, "2,3,8 2,5,8 2,5,8 ?2,1,3,5", {"q_num_heads": 4, "kv_num_heads": 4}, 1),
    ("capped", 23, "2,2,3,4 2,2,5,4 2,2,5,4 3,5", {"softcap": 0.5}, 1),
    ("past", 23, "2,2,3,4 2,2,2,4 2,2,2,6 - 2,2,3,4 2,2,3,6", {"is_causal": 1}, 3),
    ("past_grouped", 23, "2,4,3,4 2,2,2,4 2,2,2,4 3,4 2,2,2,4 2,2,2,4", {}, 3),
    ("product_out", 23, "2,2,3,4 2,2,5,4 2,2,5,4 3,5", {"qk_matmul_output_mode": 0}, 4),
    ("capped_out", 23, "2,2,3,4 2,2,5,4 2,2,5,4 3,5",
     {"qk_matmul_output_mode": 1, "softcap": 0.5}, 4),
    ("biased_out", 23, "2,2,3,4 2,2,5,4 2,2,5,4 ?3,5", {"qk_matmul_output_mode": 2}, 4),
    ("weights_out", 23, "2,2,3,4 2,2,5,4 2,2,5,4 ?3,5", {"qk_matmul_output_mode": 3}, 4),
    ("precision", 23, "2,2,3,4 2,2,5,4 2,2,5,4",
     {"softmax_precision": int(TensorProto.DOUBLE)}, 1),
    ("window", 25, "1,2,5,4 1,2,5,4 1,2,5,4", {"left_window_size": 1, "right_window_size": 2}, 1),
    ("window_past_nothing", 25, "1,1,5,4 1,1,2,4 1,1,2,4", {"left_window_size": 1}, 1),
]


def values(shape, number, is_bool):
    i = np.arange(int(np.prod(shape)))
    if is_bool:
        return ((5 * i + number) % 3 != 0).reshape(shape)
    return (((7 * i + 13 * number) % 17 - 8) / 8).astype(np.float32).reshape(shape)


def run(name, opset, shapes, attributes, outputs):
    feeds, infos, names = {}, [], []
    for number, text in enumerate(shapes.split()):
        is_bool = text.startswith("?")
        if text == "-":
            names.append("")
            continue
        shape = [int(d) for d in text.lstrip("?").split(",")]
        names.append(INPUTS[number])
        feeds[INPUTS[number]] = values(shape, number, is_bool)
        kind = TensorProto.BOOL if is_bool else TensorProto.FLOAT
        infos.append(helper.make_tensor_value_info(INPUTS[number], kind, shape))
    node = helper.make_node("Attention", names, list(OUTPUTS[:outputs]), **attributes)
    outs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in OUTPUTS[:outputs]]
    graph = helper.make_graph([node], "g", infos, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    print("case", name, opset, outputs, shapes)
    for key, value in attributes.items():
        print("attr", key, "f" if isinstance(value, float) else "i", value)
    for got in ReferenceEvaluator(model).run(None, feeds):
        print("out", " ".join("%.6g" % x for x in np.asarray(got, np.float64).ravel()))


for case in CASES:
    run(*case)
