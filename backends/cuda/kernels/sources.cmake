# Ops by own kernels.
set(ndt_cuda_kernel_sources
)
