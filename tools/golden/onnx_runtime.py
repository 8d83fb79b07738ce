"""Models as ONNX Runtime's quantizer and optimizer write them, and single operators of its domain, with its own outputs.

usage: onnx_runtime.py DIRECTORY   (pip: onnxruntime==1.32.0 onnx==1.23.2 numpy; no GPU)

Writes DIRECTORY/NAME/{model.onnx, test_data_set_0/{input,output}_0.pb}: tests/onnx/golden/onnx_runtime. The operators of each
model are printed.
"""
import collections
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

MS = "com.microsoft"
rng = np.random.default_rng(0)


def normal(*dims):
    return rng.standard_normal(dims, dtype=np.float32)


def model(nodes, feeds, weights, outputs=("y",), opset=17):
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8,
             np.dtype(bool): TensorProto.BOOL}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(k, types[v.dtype], v.shape) for k, v in feeds.items()],
        [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()])
    for o in graph.output:
        o.ClearField("type")
    return helper.make_model(graph, ir_version=8,
                             opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)])


def session(m, path=None, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    if path:
        options.optimized_model_filepath = path
    return ort.InferenceSession(m if isinstance(m, str) else m.SerializeToString(), options, providers=["CPUExecutionProvider"])


def save(root, name, m, feeds):
    data = f"{root}/{name}/test_data_set_0"
    os.makedirs(data, exist_ok=True)
    s = session(m)
    got = s.run(None, feeds)
    onnx.save(m, f"{root}/{name}/model.onnx")
    for i, (key, value) in enumerate(feeds.items()):
        with open(f"{data}/input_{i}.pb", "wb") as f:
            f.write(numpy_helper.from_array(value, key).SerializeToString())
    for i, (o, value) in enumerate(zip(s.get_outputs(), got)):
        with open(f"{data}/output_{i}.pb", "wb") as f:
            f.write(numpy_helper.from_array(value, o.name).SerializeToString())
    ops = collections.Counter((n.domain + "." if n.domain else "") + n.op_type for n in m.graph.node)
    print(name, dict(ops))


class Batches(CalibrationDataReader):
    def __init__(self, name, shape):
        self.left = iter([{name: np.random.default_rng(i).standard_normal(shape, dtype=np.float32)} for i in range(4)])

    def get_next(self):
        return next(self.left, None)


def small_network():
    """With what the quantizer has an operator on bytes for."""
    n, weights = [], {}

    def add(op, inputs, output, **attrs):
        n.append(helper.make_node(op, inputs, [output], **attrs))
        return output

    def conv(x, out, channels, of, k, **attrs):
        weights[out + "_w"] = normal(channels, of, k, k) / (of * k * k) ** 0.5
        weights[out + "_b"] = normal(channels) * 0.1
        return add("Conv", [x, out + "_w", out + "_b"], out, pads=[k // 2] * 4, **attrs)

    a = add("Relu", [conv("x", "c0", 8, 3, 3, strides=[2, 2])], "r0")
    b = add("LeakyRelu", [conv(a, "c1", 8, 8, 1)], "l1", alpha=0.1)
    gate = add("Sigmoid", [conv(a, "c2", 8, 8, 1)], "s2")
    a = add("Add", [add("Mul", [b, gate], "m3"), a], "a3")
    p = add("MaxPool", [a], "p4", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    q = add("AveragePool", [a], "q4", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    a = add("Relu", [conv(add("Concat", [p, q], "k5", axis=1), "c6", 16, 4, 3, group=4)], "r6")
    a = add("Flatten", [add("GlobalAveragePool", [a], "g7")], "f7")
    weights["gemm_w"], weights["gemm_b"] = normal(10, 16) / 4, normal(10) * 0.1
    weights["mat"] = normal(10, 6) / 3
    a = add("Gemm", [a, "gemm_w", "gemm_b"], "h8", transB=1)
    add("Softmax", [add("MatMul", [a, "mat"], "h9")], "y", axis=-1)
    return model(n, {"x": normal(2, 3, 12, 12)}, weights)


def transformer():
    """A block of attention and of features, as exporters write it before fusion."""
    d, n = 8, []
    weights = {"g1": 1 + 0.1 * normal(d), "b1": 0.1 * normal(d), "g2": 1 + 0.1 * normal(d), "b2": 0.1 * normal(d),
               "w1": normal(d, 16) / 3, "c1": 0.1 * normal(16), "w2": normal(16, d) / 4, "c2": 0.1 * normal(d),
               "wq": normal(d, d) / 3, "wk": normal(d, d) / 3, "wv": normal(d, d) / 3, "scale": np.float32(0.35),
               "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5), "quick": np.float32(1.702)}

    def add(op, inputs, output, **attrs):
        n.append(helper.make_node(op, inputs, [output], **attrs))
        return output

    q, k, v = (add("MatMul", ["x", w], w + "x") for w in ("wq", "wk", "wv"))
    s = add("MatMul", [q, add("Transpose", [k], "kt", perm=[0, 2, 1])], "qk")
    a = add("MatMul", [add("Softmax", [add("Mul", [s, "scale"], "qks")], "sm", axis=-1), v], "av")
    x = add("LayerNormalization", [add("Add", [a, "x"], "skip"), "g1", "b1"], "ln", axis=-1)
    h = add("Add", [add("MatMul", [x, "w1"], "m1"), "c1"], "h1")
    e = add("Add", [add("Erf", [add("Div", [h, "root"], "hd")], "he"), "one"], "h1e")
    g = add("Mul", [add("Mul", [h, e], "hh"), "half"], "gelu")
    y = add("Add", [add("MatMul", [g, "w2"], "m2"), "c2"], "h2")
    y = add("LayerNormalization", [add("Add", [y, x], "skip2"), "g2", "b2"], "ln2", axis=-1)
    add("Mul", [y, add("Sigmoid", [add("Mul", [y, "quick"], "qy")], "sy")], "y")
    return model(n, {"x": normal(2, 5, d)}, weights)


def written_by_tools(root):
    levels = ort.GraphOptimizationLevel
    with tempfile.TemporaryDirectory() as tmp:
        net, x = small_network(), {"x": normal(2, 3, 12, 12)}
        onnx.save(net, f"{tmp}/net.onnx")
        for name, weight, per_channel in (("u8", QuantType.QUInt8, False), ("s8_per_channel", QuantType.QInt8, True)):
            quantize_static(f"{tmp}/net.onnx", f"{tmp}/q.onnx", Batches("x", (2, 3, 12, 12)), quant_format=QuantFormat.QOperator,
                            activation_type=QuantType.QUInt8, weight_type=weight, per_channel=per_channel)
            save(root, f"qoperator_{name}", onnx.load(f"{tmp}/q.onnx"), x)
            session(f"{tmp}/q.onnx", f"{tmp}/all.onnx", levels.ORT_ENABLE_ALL)
            if name == "u8":
                save(root, "qoperator_optimized", onnx.load(f"{tmp}/all.onnx"), x)
        session(net, f"{tmp}/fused.onnx", levels.ORT_ENABLE_EXTENDED)
        save(root, "network_optimized", onnx.load(f"{tmp}/fused.onnx"), x)
        block, x = transformer(), {"x": normal(2, 5, 8)}
        session(block, f"{tmp}/fused.onnx", levels.ORT_ENABLE_EXTENDED)
        save(root, "transformer_optimized", onnx.load(f"{tmp}/fused.onnx"), x)
        onnx.save(block, f"{tmp}/block.onnx")
        quantize_dynamic(f"{tmp}/block.onnx", f"{tmp}/dynamic.onnx", weight_type=QuantType.QInt8)
        save(root, "transformer_dynamic", onnx.load(f"{tmp}/dynamic.onnx"), x)
        session(f"{tmp}/dynamic.onnx", f"{tmp}/fused.onnx", levels.ORT_ENABLE_EXTENDED)
        save(root, "transformer_dynamic_optimized", onnx.load(f"{tmp}/fused.onnx"), x)


def one(root, name, op, inputs, feeds, weights, outputs=("y",), **attrs):
    node = helper.make_node(op, inputs, list(outputs), domain=MS, **attrs)
    save(root, name, model([node], feeds, weights, [o for o in outputs if o]), feeds)


def single_operators(root):
    u8 = lambda *dims: rng.integers(0, 256, dims, dtype=np.uint8)
    i8 = lambda *dims: rng.integers(-128, 128, dims, dtype=np.int8)
    f, z = np.float32, np.uint8
    scales = {"xs": f(0.02), "xz": z(120), "ys": f(0.03), "yz": z(100), "zs": f(0.05), "zz": z(90)}
    some = lambda *names: {n: scales[n] for n in names}
    one(root, "qlinear_add", "QLinearAdd", ["x", "xs", "xz", "b", "ys", "yz", "zs", "zz"], {"x": u8(2, 3, 4)},
        {"b": u8(3, 1), **scales})
    zero = np.int8(3)
    one(root, "qlinear_mul_signed", "QLinearMul", ["x", "xs", "z", "b", "ys", "z", "zs", "z"], {"x": i8(2, 3)},
        {"b": i8(2, 3), "z": zero, **some("xs", "ys", "zs")})
    one(root, "qlinear_sigmoid", "QLinearSigmoid", ["x", "xs", "xz", "ys", "yz"], {"x": u8(9)}, {**scales, "ys": f(1 / 256), "yz": z(0)})
    one(root, "qlinear_leaky_relu", "QLinearLeakyRelu", ["x", "xs", "xz", "ys", "yz"], {"x": u8(3, 5)}, some("xs", "xz", "ys", "yz"),
        alpha=0.2)
    one(root, "qlinear_softmax", "QLinearSoftmax", ["x", "xs", "xz", "ys", "yz"], {"x": u8(3, 5)},
        {**scales, "ys": f(1 / 256), "yz": z(0)}, axis=-1, opset=13)
    pool = ["x", "xs", "xz", "ys", "yz"]
    one(root, "qlinear_global_average_pool", "QLinearGlobalAveragePool", pool, {"x": u8(2, 3, 4, 5)}, some(*pool[1:]))
    one(root, "qlinear_global_average_pool_last", "QLinearGlobalAveragePool", pool, {"x": u8(2, 4, 5, 3)}, some(*pool[1:]),
        channels_last=1)
    one(root, "qlinear_average_pool", "QLinearAveragePool", pool, {"x": u8(1, 3, 6, 6)}, some(*pool[1:]), kernel_shape=[3, 3],
        strides=[2, 2], pads=[1, 1, 1, 1])
    one(root, "qlinear_average_pool_last", "QLinearAveragePool", pool, {"x": u8(1, 6, 6, 3)}, some(*pool[1:]), kernel_shape=[2, 2],
        channels_last=1, count_include_pad=1, pads=[1, 1, 0, 0])
    one(root, "qlinear_concat", "QLinearConcat", ["zs", "zz", "x", "xs", "xz", "b", "ys", "yz"], {"x": u8(2, 3)},
        {"b": u8(2, 4), **scales}, axis=1)
    one(root, "qlinear_where", "QLinearWhere", ["c", "x", "xs", "xz", "b", "ys", "yz", "zs", "zz"], {"x": u8(2, 3)},
        {"c": np.array([[True], [False]]), "b": u8(2, 3), **scales})
    one(root, "q_gemm", "QGemm", ["x", "xs", "xz", "w", "ws", "wz", "b", "ys", "yz"], {"x": u8(3, 4)},
        {"w": i8(4, 5), "ws": np.array([.01, .02, .03, .01, .02], f), "wz": np.zeros(5, np.int8),
         "b": rng.integers(-900, 900, 5, dtype=np.int32), **some("xs", "xz", "ys", "yz")})
    one(root, "q_gemm_to_float", "QGemm", ["x", "xs", "xz", "w", "ws", "wz"], {"x": u8(3, 4)},
        {"w": i8(5, 4), "ws": f(0.01), "wz": np.int8(3), **some("xs", "xz")}, transB=1, alpha=0.5)
    one(root, "matmul_integer_to_float", "MatMulIntegerToFloat", ["x", "w", "xs", "ws", "xz", "wz", "b"], {"x": u8(2, 3, 4)},
        {"w": i8(4, 5), "ws": np.array([.01, .02, .03, .01, .02], f), "wz": np.zeros(5, np.int8), "b": normal(5), **some("xs", "xz")})
    one(root, "dynamic_quantize_matmul", "DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "b"], {"x": normal(2, 3, 4)},
        {"w": i8(4, 5), "ws": f(0.02), "wz": np.int8(4), "b": normal(5)})
    one(root, "nhwc_max_pool", "NhwcMaxPool", ["x"], {"x": u8(1, 5, 5, 3)}, {}, kernel_shape=[3, 3], strides=[2, 2],
        pads=[1, 1, 1, 1])
    norm = {"s": normal(2, 3, 8), "g": normal(8), "b": normal(8), "c": normal(8)}
    one(root, "skip_layer_normalization", "SkipLayerNormalization", ["x", "s", "g", "b", "c"], {"x": normal(2, 3, 8)}, norm,
        outputs=("y", "", "", "sum"), epsilon=1e-5)
    one(root, "skip_simplified_layer_normalization", "SkipSimplifiedLayerNormalization", ["x", "s", "g"], {"x": normal(2, 3, 8)},
        {k: norm[k] for k in "sg"}, outputs=("y", "", "", "sum"))
    one(root, "bias_gelu", "BiasGelu", ["x", "b"], {"x": normal(3, 8)}, {"b": normal(8)})
    one(root, "fast_gelu", "FastGelu", ["x", "b"], {"x": normal(3, 8)}, {"b": normal(8)})
    one(root, "gelu", "Gelu", ["x"], {"x": normal(3, 8)}, {})
    one(root, "quick_gelu", "QuickGelu", ["x"], {"x": normal(3, 8)}, {}, alpha=1.5)
    one(root, "fused_matmul", "FusedMatMul", ["x", "w"], {"x": normal(2, 4, 3)}, {"w": normal(2, 5, 4)}, transA=1, transB=1, alpha=0.5)
    for activation, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {})):
        one(root, f"fused_gemm_{activation.lower()}", "FusedGemm", ["x", "w", "b"], {"x": normal(3, 4)},
            {"w": normal(5, 4), "b": normal(5)}, transB=1, activation=activation, **more)
    conv = {"w": normal(4, 3, 3, 3), "b": normal(4), "z": normal(1, 4, 4, 4)}
    for activation, params in (("Relu", []), ("Clip", [-1.0, 2.0]), ("LeakyRelu", [0.1]), ("HardSigmoid", [0.2, 0.5])):
        one(root, f"fused_conv_{activation.lower()}", "FusedConv", ["x", "w", "b", "z"] if activation == "Relu" else ["x", "w", "b"],
            {"x": normal(1, 3, 4, 4)}, conv, pads=[1, 1, 1, 1], activation=activation,
            **({"activation_params": params} if params else {}))
    d, h = 8, 2
    one(root, "attention", "Attention", ["x", "w", "b"], {"x": normal(2, 5, d)}, {"w": normal(d, 3 * d) / 3, "b": normal(3 * d)}, num_heads=h)
    one(root, "attention_causal_with_bias", "Attention", ["x", "w", "b", "", "", "m"], {"x": normal(2, 5, d)},
        {"w": normal(d, 20) / 3, "b": normal(20), "m": normal(1, h, 5, 5)}, num_heads=h, unidirectional=1, qkv_hidden_sizes=[8, 8, 4],
        scale=0.7)
    one(root, "q_attention", "QAttention", ["x", "w", "b", "xs", "ws", "", "xz", "wz"], {"x": u8(2, 5, d)},
        {"w": i8(d, 3 * d), "b": normal(3 * d), "ws": f(0.01), "wz": np.int8(0), **some("xs", "xz")}, num_heads=h)
    one(root, "multi_head_attention", "MultiHeadAttention", ["x", "k", "v", "b"], {"x": normal(2, 5, d)},
        {"k": normal(2, 7, d), "v": normal(2, 7, 12), "b": normal(2 * d + 12)}, num_heads=h)


def main():
    root = sys.argv[1]
    written_by_tools(root)
    single_operators(root)


main()
