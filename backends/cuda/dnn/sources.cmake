# Ops by cuDNN and cuBLASLt.
set(ndt_cuda_dnn_sources
  backends/cuda/dnn/blas.cpp
  backends/cuda/dnn/gemm.cpp
  backends/cuda/dnn/matmul_bytes.cpp
  backends/cuda/dnn/product.cu
  backends/cuda/dnn/product_shape.cpp
)
