# Ops by cuDNN and cuBLASLt.
set(ndt_cuda_dnn_sources
)
