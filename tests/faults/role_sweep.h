// A whole role, of whose operations one goes wrong, each in its turn and in every way: the process
// says so and goes on, or ends, and the next one does the rest.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::faults {

// Two processes for each operation: the second one has what the machine has kept, and nothing goes
// wrong. The disk is in memory, or, where a database is beside the files, the real one, which loses
// nothing.
class RoleSweep : public ::testing::TestWithParam<Fault> {
 protected:
  enum class Disk { kMemory, kReal };
  explicit RoleSweep(Disk disk = Disk::kMemory);

  // Until no operation is left to strike; of these there are more than `least`.
  void sweep(int64_t least);
  // A disk that said what was not so may cost what was acknowledged, or a file, which is named.
  bool lied() const { return is_lie(GetParam()); }

  // What there is before, on a disk that is empty, or real; nothing is known to others yet.
  virtual void begin(Fs& /*disk*/) {}
  // One process until its end, or that of FsyncFailed or ProcessEnded. An Error names its state:
  // the process does not start, or ends.
  virtual void live(Fs& fs) = 0;
  // The next one.
  virtual void go_on(Fs& disk) = 0;
  // The last call of live(): nothing goes wrong any more, as destructors cannot end a process.
  void rest();

  // Where operations go wrong: in the file system that live() is given, or elsewhere.
  virtual void arm(int64_t n) { fs_->strike(n, GetParam()); }
  virtual bool has_struck() { return fs_->struck(); }
  virtual void disarm() { fs_->heal(); }

 private:
  bool strike(int64_t n, MemoryFs::Survives survives);  // whether the fault struck
  void live_until_its_end();

  const Disk disk_;
  FaultyFs* fs_ = nullptr;
  bool struck_ = false;
  const FsyncThrows throws_;
};

std::string fault_name(const ::testing::TestParamInfo<Fault>& fault);

}  // namespace ndtrain::faults
