// A primitive run over a batch in slices of a few images, which is what makes a photo's bits
// independent of its batch and of the threads: slices have sizes of which it is known, by test,
// that the library's kernel sums an image the same way in each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/kernel.h"

namespace ndtrain::onednn {

class Sliced final : public Kernel {
 public:
  struct Port {
    enum class Role { kInput, kOutput, kFixed } role;
    int index = 0;               // of the node's input or output
    int64_t step = 0;            // bytes from one image to the next; 0: all share it
    const void* data = nullptr;  // of a kFixed port
  };

  struct Plan {
    std::vector<Port> ports;  // in the order of the primitive's; the output is the last
    std::function<PrimitivePtr(int64_t images)> make;
    int64_t images = 1;
    // The numbers of images a slice may have, ascending. A remainder is filled up with copies.
    std::vector<int64_t> sizes = {1, 2, 3, 4};
    // Slices of the largest size for any number of threads: for sums that depend on the slice.
    bool fixed = false;
    // Where the primitive cannot write straight into the output: rows of an image that lie `step`
    // apart there and one after the other where it writes.
    struct Rows {
      int64_t rows = 1, bytes = 0, step = 0;
      int64_t image() const { return rows * bytes; }
    } rows;
    bool staged = false;
    // One image in at most `n` parts, for batches of fewer images than threads: of as many images
    // as the least of `sizes`. The parts give the bits that it has whole, by test. Fewer than two,
    // or Unsupported: it stays whole.
    struct Part {
      PrimitivePtr primitive;
      std::vector<int64_t> offsets;                                              // bytes, by port
      size_t bytes() const { return primitive->desc(DNNL_ARG_DST).get_size(); }  // that it writes
    };
    std::function<std::vector<Part>(int64_t n)> cut = {};
    int residual = -1;  // an input that the primitive finds in its output and adds to
    int64_t residual_step = 0;
    std::vector<std::shared_ptr<const void>> keep;  // what kFixed ports point into
  };

  explicit Sliced(Plan plan);
  void run(const void* const* in, void* const* out, void* workspace) const override;

 private:
  struct Slice {
    int64_t first, images, size;  // size > images: filled up
    const Primitive* primitive;
    const Plan::Part* part = nullptr;
  };
  bool cut_images();
  int64_t next_images(int64_t left, int64_t each) const;
  void run_slice(const Slice& s, const void* const* in, void* const* out, char* scratch) const;

  Plan plan_;
  std::map<int64_t, PrimitivePtr> primitives_;  // by images
  std::vector<Plan::Part> parts_;
  std::vector<Slice> slices_;
  int slots_;
  size_t scratch_ = 0, staged_in_ = 0, staged_out_ = 0;  // bytes of one slot
};

// Throws Unsupported unless input 0 is of a float dtype that the library computes in (or bytes).
void check_float(const Node& node, bool or_bytes = false);

// The same for what training alone asks for, where bf16 has to be faster than f32.
void check_trained_float(const Node& node);

// [0, n) in at most `parts` runs of whole grains, as long as each other but for a grain.
struct Run {
  int64_t first, n;
};
std::vector<Run> runs(int64_t n, int64_t grain, int64_t parts);

// An image of `rows` rows, of `in` bytes each in port 0 and `out` in the last of `ports`, in at
// most `parts` parts; what is between those ports all rows share.
std::vector<Sliced::Plan::Part> cut_rows(int64_t rows, int64_t in, int64_t out, size_t ports,
                                         int64_t parts,
                                         const std::function<PrimitivePtr(int64_t rows)>& make);

// The ports of whole tensors.
Sliced::Port input_port(int index, const ndt_tensor_type& t, Layout layout);
Sliced::Port output_port(int index, const ndt_tensor_type& t, Layout layout);
// How the output's images are written: straight, or staged where it has gaps in its pixels.
void set_output(Sliced::Plan& plan, const ndt_tensor_type& t, Layout layout);

}  // namespace ndtrain::onednn
