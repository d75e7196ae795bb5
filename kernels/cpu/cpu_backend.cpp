// SPDX-License-Identifier: BSD-3-Clause
// The CPU backend: sets the thread's mode, and hands over to the loops and libraries.
#include "kernels/cpu/cpu_backend.hpp"

#include <cstring>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include <cblas.h>
#include <omp.h>
#include <xmmintrin.h>

#include "kernels/assert.hpp"

/// OpenBLAS's own handler of fork; every entry point restarts the threads if needed. Weak: other builds of the
/// library may lack it.
extern "C" [[gnu::weak]] int blas_thread_shutdown_();

namespace troupe::kernels {

namespace {

/// OpenBLAS starts a thread for every core when it is loaded. A process whose first backend asks for one thread ends them, since
/// they would all be idle.
void set_openblas_threads(int threads) {
  if (openblas_get_num_threads() != threads) // setting it restarts ended threads even where they are not wanted
    openblas_set_num_threads(threads);
  static std::once_flag first; // later another backend might be using them
  std::call_once(first, [threads] {
    if (threads == 1 && blas_thread_shutdown_ != nullptr)
      blas_thread_shutdown_();
  });
}

} // namespace

/// While it lives, this thread flushes denormals to zero and starts as many OpenMP threads as the job asked for.
class cpu_backend::compute_mode {
public:
  explicit compute_mode(const cpu_options& options) : saved_(_mm_getcsr()) {
    constexpr unsigned flush_results = 1U << 15, denormals_are_zero = 1U << 6;
    _mm_setcsr(saved_ | flush_results | denormals_are_zero);
    omp_set_num_threads(options.threads);
  }
  compute_mode(const compute_mode&) = delete;
  compute_mode& operator=(const compute_mode&) = delete;
  ~compute_mode() { _mm_setcsr(saved_); }

private:
  unsigned saved_;
};

cpu_backend::cpu_backend(const cpu_options& options)
    : options_(options), pool_(memory_pool::create(options.pool_bytes)), loops_(loops_for(options.loops)),
      gemm_(options.gemm, loops_), conv2d_(pool_) {
  TROUPE_ASSERT(options.threads > 0);
  set_openblas_threads(options.threads);
}

cpu_backend::~cpu_backend() = default;

/// A sequence of calls.
class cpu_backend::recording final : public program {
public:
  using step = std::variant<kept_operation, std::function<void()>>;
  std::vector<step> steps;
};

void cpu_backend::enqueue(const operation& op) {
  validate(op);
  if (recorded_) {
    recorded_->steps.emplace_back(kept_operation(op));
    return;
  }
  const compute_mode mode(options_);
  std::visit([this](const auto& own) { run(own); }, op);
}

float* cpu_backend::scratch(std::int64_t floats) {
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  if (scratch_.bytes() < bytes) {
    scratch_ = {}; // back to the pool before the larger one is made
    scratch_ = pool_->allocate(bytes);
  }
  return scratch_.as<float>();
}

void cpu_backend::copy(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0 || destination == source)
    return;
  if (recorded_)
    recorded_->steps.emplace_back([=] { std::memcpy(destination, source, bytes); });
  else
    std::memcpy(destination, source, bytes);
}

void cpu_backend::notify(std::function<void()> done) {
  if (recorded_)
    recorded_->steps.emplace_back(std::move(done));
  else
    done();
}

std::unique_ptr<program> cpu_backend::capture(std::function<void()> work) {
  TROUPE_ASSERT(!recorded_);
  auto out = std::make_unique<recording>();
  recorded_ = out.get();
  work();
  recorded_ = nullptr;
  return out;
}

void cpu_backend::replay(program& recorded) {
  TROUPE_ASSERT(!recorded_);
  auto* own = dynamic_cast<recording*>(&recorded);
  TROUPE_ASSERT(own != nullptr);
  for (const auto& step : own->steps)
    if (const auto* op = std::get_if<kept_operation>(&step))
      op->enqueue_on(*this);
    else
      std::get<std::function<void()>>(step)();
}

} // namespace troupe::kernels
