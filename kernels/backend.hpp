// SPDX-License-Identifier: BSD-3-Clause
// The one interface between Troupe and a device: memory, copies, maths on memory, completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/operation.hpp"

namespace troupe::kernels {

/// A device failed (out of memory, lost, refused a launch). The compute actor that owns the backend dies with the reason.
struct device_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// It has no memory left. The caller adds the sizes of its own data to the message.
struct out_of_memory : device_error {
  using device_error::device_error;
};

/// A recorded sequence of operations that can be enqueued again as one.
class program {
public:
  virtual ~program() = default;
};

/// One in-order queue of work on one device, with that device's memory.
///
/// Every call *enqueues* and may return before its work has run; what is enqueued on one backend runs in that order. Pointers are
/// addresses in the device's memory and must stay valid until the operation has run; an operation and its spans are read before
/// the call returns. The CPU backend runs each operation inside the call.
/// Not thread-safe: one thread at a time enqueues. Shapes are the caller's promise: a broken one is a TROUPE_ASSERT, not an
/// error.
///
/// Results repeat: the same operands give the same bits at every call, in every process on the same kind of device with the same
/// number of threads. What is elementwise (weighted_sum and the optimizers too) gives each element bits that do not depend on its
/// place in the buffer or on the buffer's length, so that a parameter may be cut into partitions anywhere.
class backend {
public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;
  virtual ~backend() = default;

  /// "cpu" or "cuda:0", as in a job file.
  virtual std::string_view name() const = 0;
  /// Whether the host may read and write the device's memory itself: then nothing needs copying, and all copies are plain ones.
  virtual bool on_host() const = 0;

  // -- memory: thread-safe; throws out_of_memory when the device has none left

  /// A block of the device's memory from this backend's pool. Contents unspecified, padding zeroed. The block may outlive the
  /// backend and its last handle may die on any thread, but not before what was enqueued on it has run.
  virtual buffer allocate(std::size_t bytes) = 0;
  /// A block of host memory that this device copies at full speed (pinned for a GPU). Thread-safe.
  virtual buffer allocate_host(std::size_t bytes) = 0;

  // -- mathematics

  /// See operation.hpp.
  virtual void enqueue(const operation& op) = 0;

  // -- copies and completion: both ends stay valid until the copy has run

  /// Within the device; `source` may also be memory of another device of its kind, in this process.
  virtual void copy(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void copy_from_host(void* destination, const void* source, std::size_t bytes) = 0; ///< host to device
  virtual void copy_to_host(void* destination, const void* source, std::size_t bytes) = 0;   ///< device to host

  // -- copies beside the queue: they begin at once, to overlap with the queue's computation. Never in a recorded program

  /// Device to host. `source` was written by work whose `notify` has been called. Calls `done` as `notify` does.
  virtual void download(void* destination, const void* source, std::size_t bytes, std::function<void()> done) = 0;
  /// Host to device. Work enqueued after this call runs after the copy; no work enqueued before it uses `destination`.
  virtual void upload(void* destination, const void* source, std::size_t bytes) = 0;

  /// Calls `done` once everything enqueued before has run, on a thread of the device's choice. `done` must only send a message or
  /// set a flag, and must not call the backend.
  virtual void notify(std::function<void()> done) = 0;
  /// Records what `work` enqueues (notifications included) without running it. A backend may call `work` now and keep the
  /// operations, or keep the function and call it at each replay: it must enqueue the same every time, and what it refers to
  /// outlives the program.
  virtual std::unique_ptr<program> capture(std::function<void()> work) = 0;
  /// Enqueues a recorded program again.
  virtual void replay(program& recorded) = 0;
  /// Waits until everything enqueued has run. For tests, benchmarks and command-line tools only.
  virtual void synchronize() = 0;
};

/// The arithmetic of matrix products and convolutions on a GPU; everything is stored and summed as fp32.
///   fp32: every multiplication in float32.  tf32: operands rounded to 10 bits of mantissa by the tensor cores.
///   bf16: operands rounded to bfloat16 (Micikevicius et al. 2018, with fp32 master weights; no loss scaling is needed: the
///   exponent is fp32's).
/// The CPU always computes in fp32.
enum class precision : std::uint8_t { fp32, tf32, bf16 };

/// An activity of a device, for a trace. Times are the host's steady clock, in nanoseconds.
struct device_span {
  enum class track : std::uint8_t { compute, to_host, to_device } where = track::compute;
  const char* name = ""; ///< "gemm", "copy"; a literal
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0; ///< of a copy
};

/// How to open a backend.
struct backend_options {
  std::string device = "cpu";   ///< "cpu" | "cuda" | "cuda:N"
  int threads = 1;              ///< BLAS and oneDNN threads of this queue (CPU)
  std::uint64_t pool_bytes = 0; ///< how much freed memory the pool keeps; 0: all of it
  precision products = precision::fp32;
  /// Called for every operation and copy of a device that is not the host, once it has run; on any thread. Costs an event per
  /// operation.
  std::function<void(const device_span&)> on_span = {};
};

/// Opens a queue on a device. On the CPU, OpenBLAS has one thread count in a process: that of the backend opened last. Throws
/// device_error, with a reason that a user can act on, where the device cannot be used.
std::unique_ptr<backend> open_backend(const backend_options& options);

/// One row of `troupe devices`.
struct device_info {
  std::string name = {};   ///< "cpu", "cuda:0"; "cuda" where none can be told apart
  std::string detail = {}; ///< model, cores, memory
  bool usable = true;
  std::string reason = {}; ///< why not, where it is not
  std::uint64_t memory_bytes = 0, free_bytes = 0;
  std::string capability = {}; ///< "9.0"; of a GPU
  std::string driver = {};     ///< its version; of a GPU
};
/// The host first. Without `accelerators` the host alone, and nothing is loaded to look for others.
std::vector<device_info> list_devices(bool accelerators = true);

} // namespace troupe::kernels
