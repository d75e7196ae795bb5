// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend: streams, copies, callbacks and recorded programs.
#include "kernels/cuda/cuda_backend.hpp"

#include <deque>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe::kernels::cuda {

namespace {

using function = std::function<void()>;

/// On a thread of CUDA's, which an exception would take down with the process: then with its own message.
void call(void* user_data) noexcept {
  (*static_cast<function*>(user_data))();
}

void call_once(void* user_data) noexcept {
  const std::unique_ptr<function> owned(static_cast<function*>(user_data));
  (*owned)();
}

void enqueue_call(cudaStream_t stream, function done) {
  auto owned = std::make_unique<function>(std::move(done));
  TROUPE_CUDA(cudaLaunchHostFunc(stream, call_once, owned.get()));
  static_cast<void>(owned.release()); // call_once has it now
}

} // namespace

/// A CUDA graph with the callbacks that it makes at each replay.
class cuda_backend::graph_program final : public program {
public:
  graph_program() = default;
  graph_program(const graph_program&) = delete;
  graph_program& operator=(const graph_program&) = delete;
  /// Waits for the last replay, which uses the callbacks.
  ~graph_program() override {
    if (!exec)
      return;
    cudaEventSynchronize(replayed);
    cudaGraphExecDestroy(exec);
  }

  std::deque<function> calls; ///< their addresses stay
  cudaGraphExec_t exec = nullptr;
  event replayed;
};

struct cuda_backend::function_program final : program {
  explicit function_program(function f) : run(std::move(f)) {}
  function run;
};

cuda_backend::cuda_backend(int device, const backend_options& options)
    : device_((TROUPE_CUDA(cudaSetDevice(device)), device)), name_(fmt::format("cuda:{}", device)),
      device_pool_(block_pool::create(block_pool::kind::device, device, options.pool_bytes)),
      host_pool_(block_pool::create(block_pool::kind::pinned, device, options.pool_bytes)), timeline_(options.on_span, compute_),
      scratch_(device_pool_), shadows_(compute_, device_pool_, scratch_),
      products_(compute_, scratch_, shadows_, options.products),
      convolutions_(open_convolution_library({compute_, scratch_, products_, options.products})) {}

cuda_backend::~cuda_backend() {
  try {
    synchronize();
  } catch (const device_error&) { // the caller has got the error already, or has gone
  }
}

/// Lets this device read memory of the one where `source` lies.
void cuda_backend::reach(const void* source) {
  cudaPointerAttributes found = {};
  TROUPE_CUDA(cudaPointerGetAttributes(&found, source));
  if (found.type != cudaMemoryTypeDevice || found.device == device_ || (peers_ >> found.device & 1) != 0)
    return;
  int can = 0;
  TROUPE_CUDA(cudaDeviceCanAccessPeer(&can, device_, found.device));
  if (can) { // else CUDA goes through the host
    const auto status = cudaDeviceEnablePeerAccess(found.device, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError(); // by another queue of this process
    else
      check(status, "cudaDeviceEnablePeerAccess");
  }
  peers_ |= std::uint64_t{1} << found.device;
}

void cuda_backend::copy(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0 || destination == source)
    return;
  timed(compute_, {.name = "copy", .bytes = bytes}, [&] {
    reach(source);
    TROUPE_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, compute_));
  });
  shadows_.written(destination, bytes);
}

void cuda_backend::copy_from_host(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0)
    return;
  timed(compute_, {.name = "copy from host", .bytes = bytes},
        [&] { TROUPE_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, compute_)); });
  shadows_.written(destination, bytes);
}

void cuda_backend::copy_to_host(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0)
    return;
  timed(compute_, {.name = "copy to host", .bytes = bytes},
        [&] { TROUPE_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, compute_)); });
}

void cuda_backend::download(void* destination, const void* source, std::size_t bytes, function done) {
  TROUPE_ASSERT(!recording_);
  timed(to_host_, {.where = device_span::track::to_host, .name = "download", .bytes = bytes}, [&] {
    if (bytes > 0)
      TROUPE_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, to_host_));
  });
  enqueue_call(to_host_, std::move(done));
  timeline_.report();
}

void cuda_backend::upload(void* destination, const void* source, std::size_t bytes) {
  TROUPE_ASSERT(!recording_);
  if (bytes == 0)
    return;
  timed(to_device_, {.where = device_span::track::to_device, .name = "upload", .bytes = bytes},
        [&] { TROUPE_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, to_device_)); });
  wait_for(compute_, to_device_, uploaded_);
  shadows_.written(destination, bytes);
}

void cuda_backend::notify(function done) {
  TROUPE_CUDA(cudaSetDevice(device_));
  wait_for(callbacks_, compute_, computed_);
  if (recording_) {
    recording_->calls.push_back(std::move(done));
    TROUPE_CUDA(cudaLaunchHostFunc(callbacks_, call, &recording_->calls.back()));
    return;
  }
  enqueue_call(callbacks_, std::move(done));
  callbacks_pending_ = true;
  timeline_.report();
}

std::unique_ptr<program> cuda_backend::capture(function work) {
  TROUPE_ASSERT(!recording_);
  TROUPE_CUDA(cudaSetDevice(device_));
  if (!timeline_.on())
    if (auto graph = record(work))
      return graph;
  return std::make_unique<function_program>(std::move(work));
}

/// A graph of what `work` enqueues, or null where that cannot be captured: nothing of it has run then.
std::unique_ptr<program> cuda_backend::record(const function& work) {
  auto out = std::make_unique<graph_program>();
  shadows_.forget(); // a replay must not count on what was rounded before it
  // Relaxed: growing a pool meanwhile calls cudaMalloc, which is harmless here.
  TROUPE_CUDA(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeRelaxed));
  recording_ = out.get();
  cudaGraph_t graph = nullptr;
  bool captured = true;
  try {
    work();
    if (!out->calls.empty()) // a capture ends on the stream where it began: the callbacks join it
      wait_for(compute_, callbacks_, called_);
  } catch (const device_error&) {
    captured = false;
  }
  recording_ = nullptr;
  shadows_.forget();
  captured = cudaStreamEndCapture(compute_, &graph) == cudaSuccess && captured && graph;
  captured = captured && cudaGraphInstantiate(&out->exec, graph, 0) == cudaSuccess;
  if (graph)
    cudaGraphDestroy(graph);
  if (captured)
    return out;
  cudaGetLastError(); // forget it; what is fatal comes back at the next call
  return nullptr;
}

void cuda_backend::replay(program& recorded) {
  TROUPE_ASSERT(!recording_);
  if (auto* plain = dynamic_cast<function_program*>(&recorded))
    return plain->run();
  auto* graph = dynamic_cast<graph_program*>(&recorded);
  TROUPE_ASSERT(graph != nullptr);
  TROUPE_CUDA(cudaSetDevice(device_));
  if (callbacks_pending_ && !graph->calls.empty()) // callbacks keep their order: those before the graph come first
    wait_for(compute_, callbacks_, called_);
  callbacks_pending_ = false;
  TROUPE_CUDA(cudaGraphLaunch(graph->exec, compute_));
  TROUPE_CUDA(cudaEventRecord(graph->replayed, compute_));
  shadows_.forget();
}

void cuda_backend::synchronize() {
  TROUPE_CUDA(cudaSetDevice(device_));
  for (cudaStream_t each : {cudaStream_t(to_device_), cudaStream_t(compute_), cudaStream_t(to_host_), cudaStream_t(callbacks_)})
    TROUPE_CUDA(cudaStreamSynchronize(each));
  timeline_.report();
}

} // namespace troupe::kernels::cuda
