"""Forward throughput of OpenVINO on an ONNX model with one image input: a peer for `ndtrain bench forward`.

usage: openvino_forward.py MODEL SIZE BATCH THREADS SECONDS [f32|bf16]     (pip: openvino numpy)
"""
import statistics
import sys
import time

import numpy as np
import openvino as ov

model, size, batch, threads, seconds = sys.argv[1], *map(int, sys.argv[2:6])
precision = sys.argv[6] if len(sys.argv) > 6 else "f32"
core = ov.Core()
network = core.read_model(model)
network.reshape([batch, 3, size, size])
request = core.compile_model(network, "CPU", {
    "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": precision, "ENABLE_CPU_PINNING": False}).create_infer_request()
x = np.random.default_rng(0).standard_normal((batch, 3, size, size), dtype=np.float32)
request.set_input_tensor(ov.Tensor(x))
for _ in range(2):
    request.infer()
times, start = [], time.perf_counter()
while time.perf_counter() - start < seconds or len(times) < 3:
    t = time.perf_counter()
    request.infer()
    times.append(time.perf_counter() - t)
m = statistics.median(times)
print(f"openvino {ov.__version__} {precision} batch {batch} threads {threads} median {m * 1e3:.1f} ms {batch / m:.1f} images/s")
