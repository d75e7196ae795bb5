// SPDX-License-Identifier: BSD-3-Clause
// Streams as threads, events, host functions, and graphs as lists of what was enqueued.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/kernels/emulated_cuda/cuda_runtime.h"
#include "tests/kernels/emulated_cuda/memory.hpp"

namespace {

using troupe::emulated_cuda::memory_access;

/// One entry of a stream. What waits or calls the host must not hold device memory open.
struct entry {
  enum class memory : std::uint8_t { opened, as_it_is, closed } during = memory::opened;
  std::function<void()> work;
};

/// A graph in the making: what was enqueued, in that order, and the streams that have joined. A stream other than the first must
/// be waited for by it, after its last entry, before the capture ends.
struct recording {
  cudaStream_t first;
  std::vector<entry> entries;
  std::map<cudaStream_t, bool> unjoined;
};

struct event_state {
  std::uint64_t recorded = 0, completed = 0;
  std::chrono::steady_clock::time_point when{};
};

/// One for all events: they are few.
struct event_board {
  std::mutex mutex;
  std::condition_variable changed;
};
event_board& board() {
  static event_board all;
  return all;
}

} // namespace

struct CUevent_st {
  std::shared_ptr<event_state> state = std::make_shared<event_state>();
  std::weak_ptr<recording> captured;
  cudaStream_t captured_on = nullptr;
};

struct CUgraph_st {
  std::vector<entry> entries;
};
struct CUgraphExec_st {
  std::vector<entry> entries;
};

struct CUstream_st {
  CUstream_st() : runner([this] { run(); }) {}
  ~CUstream_st() {
    {
      std::lock_guard lock{mutex};
      ending = true;
      entries.clear(); // CUDA would run them some time later, when what they use may be gone
    }
    changed.notify_all();
    runner.join();
  }

  cudaError_t push(entry added) {
    if (capture) {
      capture->entries.push_back(std::move(added));
      if (this != capture->first)
        capture->unjoined[this] = true;
      return cudaSuccess;
    }
    {
      std::lock_guard lock{mutex};
      entries.push_back(std::move(added));
      ++pending;
    }
    changed.notify_all();
    return cudaSuccess;
  }

  void wait_until_idle() {
    std::unique_lock lock{mutex};
    changed.wait(lock, [this] { return pending == 0; });
  }

  void run() {
    std::optional<memory_access> access; // kept while one piece of work follows another
    for (std::unique_lock lock{mutex};;) {
      if (entries.empty())
        access.reset();
      changed.wait(lock, [this] { return ending || !entries.empty(); });
      if (entries.empty())
        return;
      auto next = std::move(entries.front());
      entries.pop_front();
      lock.unlock();
      if (next.during == entry::memory::closed)
        access.reset();
      else if (next.during == entry::memory::opened && !access)
        access.emplace();
      next.work();
      next.work = nullptr;
      lock.lock();
      if (entries.empty())
        access.reset(); // before anybody hears that all is done
      --pending;
      changed.notify_all();
    }
  }

  std::shared_ptr<recording> capture; ///< of the enqueuing thread
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<entry> entries;
  std::size_t pending = 0; ///< enqueued and not done
  bool ending = false;
  std::thread runner; ///< last: it uses all of the above
};

namespace troupe::emulated_cuda {

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return stream ? stream->push({.work = std::move(work)}) : cudaErrorInvalidValue;
}

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 || block.x * block.y * block.z == 0
      || block.x * block.y * block.z > 1024 || config.dynamicSmemBytes != 0)
    return cudaErrorInvalidConfiguration;
  return enqueue(config.stream, [=, thread = std::move(thread)] {
    count_kernel();
    run_grid(grid, block, thread);
  });
}

} // namespace troupe::emulated_cuda

using troupe::emulated_cuda::device_of;
using troupe::emulated_cuda::enqueue;

cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool to_device = device_of(destination).has_value(), from_device = device_of(source).has_value();
  const auto seen = from_device ? (to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
                                : (to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
  if (bytes > 0 && kind != cudaMemcpyDefault && kind != seen)
    return cudaErrorInvalidValue;
  return enqueue(stream, [=] { std::memcpy(destination, source, bytes); });
}

cudaError_t cudaMemsetAsync(void* destination, int value, std::size_t bytes, cudaStream_t stream) {
  if (!device_of(destination))
    return cudaErrorInvalidValue;
  return enqueue(stream, [=] { std::memset(destination, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->capture)
    return cudaErrorStreamCaptureUnsupported;
  stream->wait_until_idle();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return stream->push({.during = entry::memory::closed, .work = [=] { function(data); }});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->captured = stream->capture;
  event->captured_on = stream;
  if (stream->capture)
    return cudaSuccess;
  std::uint64_t turn;
  {
    std::lock_guard lock{board().mutex};
    turn = ++event->state->recorded;
  }
  return stream->push({.during = entry::memory::as_it_is, .work = [state = event->state, turn] {
                         {
                           std::lock_guard lock{board().mutex};
                           state->completed = turn;
                           state->when = std::chrono::steady_clock::now();
                         }
                         board().changed.notify_all();
                       }});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (auto capture = event->captured.lock()) {
    if (stream->capture && stream->capture != capture)
      return cudaErrorStreamCaptureInvalidated;
    if (!stream->capture)
      capture->unjoined[stream] = true;
    stream->capture = capture;
    if (stream == capture->first)
      capture->unjoined[event->captured_on] = false;
    return cudaSuccess;
  }
  if (stream->capture)
    return cudaErrorStreamCaptureInvalidated; // a graph cannot wait for what lies outside
  std::uint64_t turn;
  {
    std::lock_guard lock{board().mutex};
    turn = event->state->recorded;
  }
  return stream->push({.during = entry::memory::closed, .work = [state = event->state, turn] {
                         std::unique_lock lock{board().mutex};
                         board().changed.wait(lock, [&] { return state->completed >= turn; });
                       }});
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock{board().mutex};
  return event->state->completed == event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock lock{board().mutex};
  board().changed.wait(lock, [&] { return event->state->completed == event->state->recorded; });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  std::lock_guard lock{board().mutex};
  *milliseconds = std::chrono::duration<float, std::milli>(end->state->when - begin->state->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->capture)
    return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_shared<recording>();
  stream->capture->first = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const auto done = std::move(stream->capture);
  stream->capture = nullptr;
  if (!done || done->first != stream)
    return cudaErrorStreamCaptureInvalidated;
  bool unjoined = false;
  for (auto& [other, open] : done->unjoined) {
    if (other != stream)
      other->capture = nullptr;
    unjoined = unjoined || open;
  }
  if (std::getenv("TROUPE_EMULATED_CUDA_NO_CAPTURE"))
    return cudaErrorStreamCaptureInvalidated; // as if something in it could not be captured
  if (unjoined)
    return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{std::move(done->entries)};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* program, cudaGraph_t graph, unsigned long long) {
  *program = new CUgraphExec_st{graph->entries};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t program, cudaStream_t stream) {
  for (const auto& next : program->entries)
    stream->push(next);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t program) {
  delete program;
  return cudaSuccess;
}
