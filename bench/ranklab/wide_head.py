"""A model for slow links: the features of a SqueezeNet behind which 58 million parameters are trained.

usage: wide_head.py SQUEEZENET.onnx OUT.onnx [--classes 5]
       the ONNX file of torchvision's squeezenet1_1; its classifier gives way to two wide layers and one of the classes,
       begun as PyTorch begins them, from a fixed seed. Train it with --freeze wide_flatten
"""
import argparse

import numpy
import onnx
from onnx import helper, numpy_helper

FEATURES, WIDE, NARROW = 512 * 6 * 6, 2816, 2048


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squeezenet")
    parser.add_argument("out")
    parser.add_argument("--classes", type=int, default=5)
    args = parser.parse_args()

    model = onnx.load(args.squeezenet)
    graph = model.graph
    last = max(i for i, node in enumerate(graph.node) if node.op_type == "Concat")
    features = graph.node[last].output[0]
    del graph.node[last + 1:]
    rng = numpy.random.default_rng(1)

    def add(op, inputs, name, **attributes):
        graph.node.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def linear(x, name, rows, columns):
        bound = columns ** -0.5
        for suffix, shape in ((".weight", (rows, columns)), (".bias", (rows,))):
            values = rng.uniform(-bound, bound, shape).astype(numpy.float32)
            graph.initializer.append(numpy_helper.from_array(values, name + suffix))
        return add("Gemm", [x, name + ".weight", name + ".bias"], name, transB=1)

    x = add("MaxPool", [features], "wide_pool", kernel_shape=[3, 3], strides=[2, 2])
    x = add("Flatten", [x], "wide_flatten")
    x = add("Relu", [linear(x, "wide1", WIDE, FEATURES)], "wide_relu1")
    x = add("Relu", [linear(x, "wide2", NARROW, WIDE)], "wide_relu2")
    output = linear(x, "wide3", args.classes, NARROW)
    used = {name for node in graph.node for name in node.input}
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    batch = graph.input[0].type.tensor_type.shape.dim[0]
    del graph.output[:]
    del graph.value_info[:]
    graph.output.append(helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT,
                                                      [batch.dim_param or batch.dim_value, args.classes]))
    onnx.save(model, args.out)
    print(sum(int(numpy.prod(t.dims)) for t in graph.initializer if t.name.startswith("wide")), "parameters are trained")


main()
