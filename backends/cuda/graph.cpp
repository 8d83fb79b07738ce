#include "backends/cuda/graph.h"

namespace ndtrain::cuda {
namespace {

class Graph final : public Kernel {
 public:
  explicit Graph(cudaGraph_t graph) {
    check(cudaGraphInstantiate(&exec_, graph, 0), "instantiate a graph");
  }
  ~Graph() override { cudaGraphExecDestroy(exec_); }

  void run(ndt_stream& stream, const void* const*, void* const*, void*) const override {
    check(cudaGraphLaunch(exec_, stream.stream), "launch a graph");
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

void begin_capture(ndt_stream& stream) {
  // Other threads go on allocating and copying meanwhile.
  check(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal),
        "begin to capture");
}

std::unique_ptr<Kernel> end_capture(ndt_stream& stream) {
  cudaGraph_t captured = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream.stream, &captured);
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(captured);
  check(error, "end the capture");
  return std::make_unique<Graph>(graph.get());
}

}  // namespace ndtrain::cuda
