// y [M, N] = a^T b of a [K, M] and b [K, N], bf16, plain: a run of rows of y for each thread, so
// that each sums over all of K, whose bits do not depend on the run, by test.
#include "backends/onednn/gemm_back.h"

#include "backends/onednn/dnnl.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kGrain = 64;  // rows of y

class GemmBack final : public Kernel {
 public:
  explicit GemmBack(const Node& node)
      : size_(size_of(node.out().dtype)), rows_(node.out().dims[0]), columns_(node.out().dims[1]) {
    const ndt_tensor_type &a = node.in(0), &b = node.in(1);
    const Desc right = plain_desc({b.dims[0], b.dims[1]}, b.dtype);
    runs_ = runs(rows_, kGrain, threads());
    for (const Run& run : runs_) {
      const Desc left = columns_desc({run.n, a.dims[0]}, rows_, a.dtype);
      const Desc y = plain_desc({run.n, columns_}, node.out().dtype);
      products_.push_back(matmul(left, right, {}, y, {}));
      scratch_ = std::max(scratch_, whole_lines(products_.back()->scratch()));
    }
    workspace_bytes = runs_.size() * scratch_;
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    std::atomic<bool> failed{false};
    const auto tasks = static_cast<int64_t>(runs_.size());
    parallel_tasks(tasks, static_cast<int>(tasks), [&](int64_t task, int slot) {
      const auto i = static_cast<size_t>(task);
      const auto* a = static_cast<const char*>(in[0]) + runs_[i].first * size_;
      char* const y = static_cast<char*>(out[0]) + runs_[i].first * columns_ * size_;
      void* const data[] = {const_cast<char*>(a), const_cast<void*>(in[1]), y};
      try {
        products_[i]->run(data,
                          static_cast<char*>(workspace) + static_cast<size_t>(slot) * scratch_);
      } catch (const std::exception&) {  // the library answers with no more than a status
        failed = true;
      }
    });
    if (failed) invalid("oneDNN could not run ", products_[0]->algorithm());
  }

 private:
  int64_t size_, rows_, columns_;  // bytes of an element
  std::vector<Run> runs_;
  std::vector<PrimitivePtr> products_;  // by run
  size_t scratch_ = 0;
};

void check(const Node& node) {
  if (node.in(0).dtype == NDT_F32) unsupported("the cpu plugin is no slower");
  check_trained_float(node);
  if (node.i("transB") != 0 || node.has(2) || node.f("alpha") != 1) {
    unsupported("it is more than a product of a transposed left side");
  }
  for (const ndt_tensor_type* t : {&node.in(0), &node.in(1), &node.out()}) {
    if (t->rank != 2 || count(*t) == 0) unsupported("it is empty or not of matrices");
    if (!lies(*t, Layout::kPlain) || has_gaps(*t, Layout::kPlain)) {
      unsupported("it is not row-major without gaps");
    }
  }
}

}  // namespace

bool is_gemm_back(const Node& node) { return node.op() == "Gemm" && node.i("transA") != 0; }

std::unique_ptr<Kernel> prepare_gemm_back(const Node& node) {
  check(node);
  return std::make_unique<GemmBack>(node);
}

}  // namespace ndtrain::onednn
