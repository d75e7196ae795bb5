// SPDX-License-Identifier: BSD-3-Clause
// The beginning of a job.
#include "actors/checkpoint/first_parameters.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "actors/checkpoint/names.hpp"
#include "protocols/wire/state.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::actors {

namespace {

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

} // namespace

protocols::lead_state lead_of(const checkpoint_manifest& manifest) {
  auto state = protocols::wire::decode_state<protocols::lead_state>(manifest.lead);
  if (!state || state->made < manifest.ver)
    throw std::runtime_error("the checkpoint's manifest does not tell how the job goes on; it is of another program");
  return *std::move(state);
}

first_parameters::first_parameters(const job& job, const parameter_layout& layout, std::span<const float> given)
    : job_(job), layout_(layout), given_(given), from_(resumes() ? read_manifest(job.checkpoint.resume) : checkpoint_manifest{}),
      lead_(resumes() ? lead_of(from_) : protocols::lead_state{}) {}

kernels::buffer first_parameters::flat(const std::function<kernels::buffer(std::size_t)>& allocate) const {
  auto out = allocate(bytes_of(layout_.floats()));
  std::memset(out.data(), 0, out.bytes());
  if (resumes()) {
    read_block(job_.checkpoint.resume, from_, parameters_name, {0, layout_.floats()}, out.as<float>());
    return out;
  }
  if (job_.init == init_zeros)
    return out;
  if (job_.init.empty() && !given_.empty())
    std::memcpy(out.data(), given_.data(), given_.size_bytes());
  else if (job_.init.empty())
    initialize_parameters(layout_, job_.seed, out.as<float>());
  else if (auto read = load_safetensors(job_.init, layout_, out.as<float>()); !read)
    throw std::runtime_error(read.error().message);
  return out;
}

saved_state first_parameters::of_shard(flat_range range, const std::function<kernels::buffer(std::size_t)>& allocate) const {
  if (!resumes())
    return {};
  const auto& folder = job_.checkpoint.resume;
  saved_state out{.ver = ver(),
                  .optimizer_steps = static_cast<std::int64_t>(read_number(folder, from_, "optimizer.steps")),
                  .trained = from_.training_ns};
  const auto read = [&](const char* name) {
    auto values = allocate(bytes_of(range.size()));
    return read_block(folder, from_, name, range, values.as<float>()) ? values : kernels::buffer{};
  };
  for (const char* name : {"velocity", "second", "outer.velocity", "mean_square"})
    if (auto values = read(name))
      out.blocks.emplace_back(name, std::move(values));
  out.image = read(image_name);
  out.image_ver = {read_number(folder, from_, image_version_name)};
  return out;
}

saved_state first_parameters::of_worker(std::uint32_t worker, const std::function<kernels::buffer(std::size_t)>& allocate) const {
  const auto* kept = resumes() ? file_of_worker(from_, worker) : nullptr;
  if (kept == nullptr)
    return {};
  const shard_file file(job_.checkpoint.resume, *kept);
  if (file.head().range != flat_range{0, layout_.floats()})
    throw std::runtime_error(fmt::format("{}/{}: is of another model", job_.checkpoint.resume, kept->name));
  saved_state out{.ver = ver(),
                  .optimizer_steps = static_cast<std::int64_t>(file.number("optimizer.steps")),
                  .weight = std::bit_cast<double>(file.number(weight_name)),
                  .position = file.number(position_name),
                  .open = {.samples = static_cast<std::int64_t>(file.number(open_samples_name)),
                           .loss = std::bit_cast<double>(file.number(open_loss_name)),
                           .finite = file.number(open_not_finite_name) == 0,
                           .ignored = std::bit_cast<double>(file.number(open_ignored_name))}};
  for (const std::string& name : file.blocks()) {
    auto values = allocate(bytes_of(layout_.floats()));
    file.read(name, file.head().range, values.as<float>());
    out.blocks.emplace_back(name, std::move(values));
  }
  return out;
}

} // namespace troupe::actors
