// SPDX-License-Identifier: BSD-3-Clause
// Snapshots of a shard, to a disk and back.
#include "actors/roles/holder/shard_checkpoint.hpp"

#include <exception>

#include "protocols/wire/state.hpp"

namespace troupe::actors {

void restore(const shard_start& from, kernels::backend& queue, optimizer& to) {
  for (const auto& [name, buffer] : to.buffers())
    for (const auto& [kept, values] : from.blocks)
      if (kept == name)
        queue.copy_from_host(buffer.data(), values.data(), buffer.bytes());
  to.resume_after(from.optimizer_steps);
}

shard_snapshot::shard_snapshot(protocols::version ver, flat_range range, std::uint32_t shard, kernels::backend& queue,
                               const kernels::buffer& parameters, const optimizer& state)
    : head_{.shard = shard,
            .ver = ver,
            .range = range,
            .numbers = {{"optimizer.steps", static_cast<std::uint64_t>(state.steps())}}},
      answer_{.shard = shard, .ver = ver} {
  const auto copied = [&queue](const kernels::buffer& from) {
    auto to = queue.allocate_host(from.bytes());
    queue.copy_to_host(to.data(), from.data(), from.bytes());
    return to;
  };
  blocks_.emplace_back("parameters", queue.on_host() ? parameters : copied(parameters));
  for (const auto& [name, buffer] : state.buffers())
    blocks_.emplace_back(name, copied(buffer));
}

void shard_snapshot::add(const protocols::lead_state& marked, protocols::nanoseconds trained) {
  answer_.lead = wire::encode_state(marked);
  answer_.samples = marked.samples_applied;
  answer_.trained = trained;
}

shard_saved shard_snapshot::write(const std::string& dir) const {
  std::vector<named_block> blocks;
  for (const auto& [name, buffer] : blocks_)
    blocks.push_back({name, {buffer.as<const float>(), buffer.bytes() / sizeof(float)}});
  auto out = answer_;
  try {
    out.file = write_shard_file(dir + "/" + checkpoint_name(head_.ver), head_, blocks);
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  return out;
}

void write_behind(caf::actor_system& system, std::shared_ptr<const shard_snapshot> what, std::string dir,
                  std::function<void(const shard_saved&)> tell) {
  system.spawn<caf::detached>([what = std::move(what), dir = std::move(dir), tell = std::move(tell)](caf::event_based_actor*) {
    tell(what->write(dir));
  });
}

} // namespace troupe::actors
