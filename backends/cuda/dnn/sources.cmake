# Ops by cuDNN and cuBLASLt.
set(ndt_cuda_dnn_sources
  backends/cuda/dnn/attention.cpp
  backends/cuda/dnn/choose.cpp
  backends/cuda/dnn/conv.cpp
  backends/cuda/dnn/conv_bytes.cu
  backends/cuda/dnn/conv_grad.cpp
  backends/cuda/dnn/conv_int8.cpp
  backends/cuda/dnn/conv_int8_sums.cpp
  backends/cuda/dnn/conv_kernel.cpp
  backends/cuda/dnn/conv_shape.cpp
  backends/cuda/dnn/descriptor.cpp
  backends/cuda/dnn/engine.cpp
  backends/cuda/dnn/graph.cpp
  backends/cuda/dnn/planning.cpp
  backends/cuda/dnn/relayout.cu
  backends/cuda/dnn/staged.cpp
)
