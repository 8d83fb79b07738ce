"""Every operator of ONNX's own domain and the opset that first had it, as onnx 1.12 (opset 17) lists
them: python3 onnx_ops.py > tests/ops/golden/onnx_ops.txt
"""
import onnx.defs

first = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        first[schema.name] = min(first.get(schema.name, 99), schema.since_version)
for name in sorted(first):
    print(name, first[name])
