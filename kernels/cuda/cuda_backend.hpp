// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/scratch.hpp"
#include "kernels/cuda/shadows.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/timeline.hpp"

namespace troupe::kernels::cuda {

/// `backend` on one CUDA device. Four streams: everything in the queue's order runs on `compute`; `download` and `upload` have
/// one each, so that copies run beside it; host functions run on `callbacks`, which waits for `compute` and is waited for by
/// nothing, so that the device never waits for the host.
///
/// A recorded program is a CUDA graph; where something in it cannot be captured, or every operation is to be timed (`on_span`),
/// it is the function that was given, called again at each replay.
///
/// Any failing call throws device_error; after that the object can only be destroyed.
class cuda_backend final : public backend {
public:
  /// The device must be there.
  cuda_backend(int device, const backend_options& options);
  /// Waits for running work, so that no callback is lost and no buffer is freed in use.
  ~cuda_backend() override;

  std::string_view name() const override { return name_; }
  bool on_host() const override { return false; }

  buffer allocate(std::size_t bytes) override { return device_pool_->allocate(bytes); }
  buffer allocate_host(std::size_t bytes) override { return host_pool_->allocate(bytes); }

  void enqueue(const operation& op) override;
  void copy(void* destination, const void* source, std::size_t bytes) override;
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override;
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override;

  void download(void* destination, const void* source, std::size_t bytes, std::function<void()> done) override;
  void upload(void* destination, const void* source, std::size_t bytes) override;
  void notify(std::function<void()> done) override;
  std::unique_ptr<program> capture(std::function<void()> work) override;
  void replay(program& recorded) override;
  void synchronize() override;

private:
  class graph_program;
  struct function_program;

  /// Makes the device current, and enqueues one span of the trace on `where`.
  template <class F>
  void timed(cudaStream_t where, const device_span& span, F enqueue) {
    TROUPE_CUDA(cudaSetDevice(device_));
    timeline_.begin(where);
    enqueue();
    timeline_.end(where, span);
  }
  void reach(const void* source);
  std::unique_ptr<program> record(const std::function<void()>& work);

  const int device_;
  const std::string name_;
  std::shared_ptr<block_pool> device_pool_, host_pool_;
  stream compute_, to_host_, to_device_, callbacks_;
  event uploaded_, computed_, called_;
  timeline timeline_;
  scratch scratch_;
  shadows shadows_;
  products products_;
  std::unique_ptr<convolution_library> convolutions_;
  graph_program* recording_ = nullptr; ///< what `notify` adds to, while there is a capture
  bool callbacks_pending_ = false;     ///< since the last replay
  std::uint64_t peers_ = 0;            ///< devices whose memory this one can read, a bit each
};

/// The number in "cuda:N". Throws device_error where the text is another, or where the device cannot be used, with the reason.
int usable_device(std::string_view name);

} // namespace troupe::kernels::cuda
