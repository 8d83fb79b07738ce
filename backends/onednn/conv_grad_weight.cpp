// ConvGradWeight, f32 and bf16: dw from x, blocked or of few channels and plain, and dy, blocked.
//
// A task is a run of output channels over a run of images; what tasks of the same channels found is
// added up in the order of the images. What the tasks are does not depend on the threads, so that
// neither does a bit of the result. Sums are f32, and rounded once.
#include <cstring>

#include "backends/onednn/conv_choice.h"
#include "backends/onednn/conv_plan.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/winograd_grad.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kChannels = 128;  // of a task, about
constexpr int64_t kTasks = 8, kMostImageRuns = 4;

AskedConv asked(const Node& node) {
  check_trained_float(node);
  AskedConv a = ask(node, node.in(0), node.out(), node.in(1));
  const bool few = a.shape.few_channels() && a.from == Layout::kPlain;
  if (a.from != Layout::kBlocked && !few) unsupported("its images are not blocked");
  if (a.to != Layout::kBlocked) unsupported("the gradient it goes back from is not blocked");
  if (a.from == Layout::kBlocked) check_changing(a);
  a.weights_change = true;
  if (has_gaps(a.x, a.from) || has_gaps(a.y, a.to)) unsupported("an input has gaps");
  return a;
}

class GradWeight final : public Kernel {
 public:
  explicit GradWeight(const AskedConv& a)
      : size_(size_of(a.x.dtype)),
        x_step_(image_extent(a.x, a.from) * size_),
        y_step_(image_extent(a.y, a.to) * size_),
        images_(runs_of_images(a)) {
    const std::vector<Run> channels = runs_of_channels(a);
    for (const Run& run : channels) parts_.push_back(part_of(a, run));
    for (const Part& part : parts_) {
      found_ = std::max(found_, whole_lines(part.bytes));
      scratch_ = std::max(scratch_, whole_lines(part.reorder->scratch()));
      for (size_t i = 0; i < images_.size(); ++i) {
        scratch_ = std::max(scratch_, whole_lines(part.primitives[i]->scratch()));
        const auto copy = static_cast<size_t>(part.length * images_[i].n);
        if (copies()) copied_ = std::max(copied_, whole_lines(copy));
      }
    }
    slots_ = static_cast<int>(std::min<int64_t>(threads(), tasks()));
    workspace_bytes =
        static_cast<size_t>(tasks()) * found_ + static_cast<size_t>(slots_) * (scratch_ + copied_);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const auto* x = static_cast<const char*>(in[0]);
    const auto* dy = static_cast<const char*>(in[1]);
    char* const found = static_cast<char*>(workspace);
    char* const slots = found + static_cast<size_t>(tasks()) * found_;
    std::atomic<bool> failed{false};
    const auto guarded = [&](auto&& body) {
      try {
        body();
      } catch (const std::exception&) {  // the library answers with no more than a status
        failed = true;
      }
    };
    parallel_tasks(tasks(), slots_, [&](int64_t task, int slot) {
      char* const scratch = slots + static_cast<size_t>(slot) * (scratch_ + copied_);
      guarded([&] { find(task, x, dy, found + static_cast<size_t>(task) * found_, scratch); });
    });
    parallel_tasks(static_cast<int64_t>(parts_.size()), slots_, [&](int64_t p, int slot) {
      char* const scratch = slots + static_cast<size_t>(slot) * (scratch_ + copied_);
      guarded([&] { finish(p, found, static_cast<char*>(out[0]), scratch); });
    });
    if (failed) invalid("oneDNN could not run ", parts_[0].primitives[0]->algorithm());
  }

 private:
  // Some output channels: bytes `first` and on of an image of dy, `into` and on of dw.
  struct Part {
    int64_t first, length, into;
    std::vector<PrimitivePtr> primitives = {};  // by run of images
    PrimitivePtr reorder = {};                  // to dw
    size_t bytes = 0;                           // of what a primitive finds
  };

  Part part_of(AskedConv a, const Run& channels) const {
    const int64_t plane = a.y.dims[2] * a.y.dims[3] * size_;
    a.y.dims[1] = channels.n;
    if (a.shape.groups == 1) a.shape.out = channels.n;
    Part part{.first = channels.first * plane,
              .length = image_extent(dense(a.y, a.to), a.to) * size_,
              .into = channels.first * a.shape.in * a.shape.height * a.shape.width * size_};
    Desc found = any_desc(a.shape.as_asked(), NDT_F32);
    for (const Run& images : images_) {
      part.primitives.push_back(convolution_back_weights(a.filled(images.n, found)));
      found = part.primitives.back()->desc(DNNL_ARG_DIFF_WEIGHTS);
    }
    part.reorder = reorder(found, plain_desc(a.shape.as_asked(), a.weights_dtype));
    part.bytes = found.get_size();
    return part;
  }

  static std::vector<Run> runs_of_channels(const AskedConv& a) {
    const int64_t out = a.y.dims[1];
    const int64_t parts = a.shape.groups == 1 ? std::max<int64_t>(1, out / kChannels) : 1;
    return runs(out, block(), parts);
  }
  static std::vector<Run> runs_of_images(const AskedConv& a) {
    const auto parts = static_cast<int64_t>(runs_of_channels(a).size());
    return runs(a.x.dims[0], 1, std::clamp<int64_t>(kTasks / parts, 1, kMostImageRuns));
  }
  bool copies() const { return parts_.size() > 1; }  // the library wants images without gaps
  int64_t tasks() const { return static_cast<int64_t>(parts_.size() * images_.size()); }

  // Tasks of the same channels lie one after the other.
  void find(int64_t task, const char* x, const char* dy, char* found, char* scratch) const {
    const auto runs = static_cast<int64_t>(images_.size());
    const Part& part = parts_[static_cast<size_t>(task / runs)];
    const Run& images = images_[static_cast<size_t>(task % runs)];
    const char* from = dy + images.first * y_step_ + part.first;
    if (copies()) {
      char* const copy = scratch + scratch_;
      for (int64_t i = 0; i < images.n; ++i) {
        std::memcpy(copy + i * part.length, from + i * y_step_, static_cast<size_t>(part.length));
      }
      from = copy;
    }
    void* const data[] = {const_cast<char*>(x + images.first * x_step_), const_cast<char*>(from),
                          found};
    part.primitives[static_cast<size_t>(task % runs)]->run(data, scratch);
  }

  void finish(int64_t p, char* found, char* dw, char* scratch) const {
    const Part& part = parts_[static_cast<size_t>(p)];
    char* const first = found + static_cast<size_t>(p) * images_.size() * found_;
    auto* sum = reinterpret_cast<float*>(first);
    for (size_t k = 1; k < images_.size(); ++k) {
      const auto* more = reinterpret_cast<const float*>(first + k * found_);
      for (size_t i = 0; i < part.bytes / sizeof(float); ++i) sum[i] += more[i];
    }
    void* const data[] = {sum, dw + part.into};
    part.reorder->run(data, scratch);
  }

  int64_t size_, x_step_, y_step_;  // bytes: of an element; from image to image
  std::vector<Run> images_;
  std::vector<Part> parts_;
  int slots_ = 1;
  size_t found_ = 0, scratch_ = 0, copied_ = 0;  // bytes: of a task; of a slot
};

}  // namespace

std::unique_ptr<Kernel> prepare_conv_grad_weight(const ndt_device& device, const Node& node) {
  const AskedConv a = asked(node);
  if (!device.less_memory && winograd_by_rule(a)) return winograd_grad_weight(a);
  return std::make_unique<GradWeight>(a);
}

void prefer_conv_grad_weight(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  if (in[0].rank != 4) unsupported("its input has rank ", in[0].rank, ", not 4");
  const bool few = conv_shape(node, in[0], out[0]).few_channels();
  set_layout(in[0], few ? Layout::kPlain : Layout::kBlocked);
  set_layout(in[1], Layout::kBlocked);
  set_layout(out[0], Layout::kPlain);
  const ndt_node wanted = node.with(in, out);
  const GradWeight kernel{asked(Node(wanted))};
}

}  // namespace ndtrain::onednn
