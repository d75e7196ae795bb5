// SPDX-License-Identifier: BSD-3-Clause
// Opens backends and lists devices.
#include <fstream>
#include <thread>

#include <cblas.h>
#include <fmt/format.h>

#include "kernels/backend.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/host_memory.hpp"
#include "kernels/cpu/onednn_gemm.hpp"
#include "kernels/cuda_library.hpp"

namespace troupe::kernels {

namespace {

/// "AMD EPYC", as the kernel says.
std::string processor_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (auto colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

std::string blas() {
  const auto onednn = onednn_version();
  const auto openblas = fmt::format("OpenBLAS ({})", openblas_get_corename());
  if (!has_onednn())
    return openblas;
  return best_gemm_library() == gemm_library::onednn ? onednn + ", " + openblas : openblas + ", " + onednn;
}

device_info cpu_info() {
  const auto memory = find_host_memory();
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  return {.name = "cpu",
          .detail = fmt::format("{}, {} core{}, {:.1f} GiB, {}, {}", processor_model(), cores, cores == 1 ? "" : "s",
                                static_cast<double>(memory.total_bytes) / (1 << 30), to_string(best_instruction_set()), blas()),
          .usable = true,
          .reason = {},
          .memory_bytes = memory.total_bytes,
          .free_bytes = memory.free_bytes};
}

std::unique_ptr<backend> open_cuda(const backend_options& options) {
  try {
    return std::unique_ptr<backend>(load_cuda_library().open(options));
  } catch (const device_error& e) {
    throw device_error(fmt::format("device \"{}\": {}; device = \"cpu\" works", options.device, e.what()));
  }
}

} // namespace

std::unique_ptr<backend> open_backend(const backend_options& options) {
  if (options.threads < 1)
    throw device_error(fmt::format("threads = {}: a backend needs at least 1", options.threads));
  if (options.device == "cpu")
    return std::make_unique<cpu_backend>(cpu_options{.threads = options.threads, .pool_bytes = options.pool_bytes});
  if (options.device == "cuda" || options.device.starts_with("cuda:"))
    return open_cuda(options);
  throw device_error(fmt::format("device \"{}\" is not known; there are \"cpu\", \"cuda\" and \"cuda:N\"", options.device));
}

std::vector<device_info> list_devices(bool accelerators) {
  std::vector<device_info> devices{cpu_info()};
  if (!accelerators)
    return devices;
  try {
    load_cuda_library().list(devices);
  } catch (const device_error& e) {
    devices.push_back({.name = "cuda", .detail = "GPU", .usable = false, .reason = e.what()});
  }
  return devices;
}

} // namespace troupe::kernels
