"""Which data types ONNX's operators take or give, as their first input or output, only later than
opset 17: python3 onnx_types.py > onnx_types.txt (onnx 1.23.2)."""
from onnx import defs

LEAST, LATEST = 17, 28
NAMES = {"float16": "f16", "bfloat16": "bf16", "float": "f32", "double": "f64", "int8": "i8", "uint8": "u8",
         "int16": "i16", "uint16": "u16", "int32": "i32", "int64": "i64", "bool": "bool"}


def types(operator, opset):
    """None where the opset does not have it."""
    try:
        schema = defs.get_schema(operator, opset)
    except defs.SchemaError:
        return None
    ports = list(schema.inputs)[:1] + list(schema.outputs)[:1]
    spelled = {t.removeprefix("tensor(").removesuffix(")") for port in ports for t in port.types}
    return {NAMES[t] for t in spelled if t in NAMES}


for operator in sorted({s.name for s in defs.get_all_schemas() if not s.domain}):
    known = types(operator, LEAST)
    for opset in range(LEAST + 1, LATEST + 1) if known is not None else ():
        now = types(operator, opset)
        for name in sorted(now - known):
            print(operator, name, opset)
        known |= now
