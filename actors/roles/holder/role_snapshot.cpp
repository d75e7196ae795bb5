// SPDX-License-Identifier: BSD-3-Clause
// Snapshots of roles, to a disk and back.
#include "actors/roles/holder/role_snapshot.hpp"

#include <cstddef>
#include <exception>

#include "protocols/wire/state.hpp"

namespace troupe::actors {

role_snapshot::role_snapshot(file_saved about, flat_range range, kernels::backend& queue)
    : queue_(queue), head_{.shard = about.index, .ver = about.ver, .range = range}, answer_(std::move(about)) {}

void role_snapshot::share(const std::string& name, const kernels::buffer& block) {
  queue_.on_host() ? add(name, block) : copy(name, block);
}

void role_snapshot::copy(const std::string& name, const kernels::buffer& block) {
  auto to = queue_.allocate_host(block.bytes());
  queue_.copy_to_host(to.data(), block.data(), block.bytes());
  blocks_.emplace_back(name, std::move(to));
}

void role_snapshot::copy(const named_buffers& blocks) {
  for (const auto& [name, block] : blocks)
    copy(name, block);
}

void role_snapshot::number(const std::string& name, std::int64_t value) {
  head_.numbers[name] = static_cast<std::uint64_t>(value);
}

void role_snapshot::add(const protocols::lead_state& marked, protocols::nanoseconds trained) {
  answer_.lead = wire::encode_state(marked);
  answer_.samples = marked.samples_applied;
  answer_.trained = trained;
}

file_saved role_snapshot::write(const std::string& dir) const {
  std::vector<named_block> blocks;
  for (const auto& [name, buffer] : blocks_)
    blocks.push_back({name, {buffer.as<const float>(), buffer.bytes() / sizeof(float)}});
  auto out = answer_;
  const std::string folder = dir + "/" + checkpoint_name(head_.ver);
  try {
    out.file =
        out.of_worker ? write_worker_file(folder, out.incarnation, head_, blocks) : write_shard_file(folder, head_, blocks);
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  return out;
}

void make_room(caf::actor_system& system, std::shared_ptr<kernels::backend> queue, std::vector<std::size_t> sizes) {
  constexpr std::size_t page = 4096;
  system.spawn<caf::detached>([queue = std::move(queue), sizes = std::move(sizes)](caf::event_based_actor*) {
    std::vector<kernels::buffer> room; // all at once: a block that is given back serves for the next
    try {
      for (const auto bytes : sizes) {
        const auto memory = room.emplace_back(queue->allocate_host(bytes)).span<std::byte>();
        for (std::size_t at = 0; at < memory.size(); at += page)
          memory[at] = std::byte{0}; // the system gives a page when it is first written
      }
    } catch (const kernels::out_of_memory&) {
    }
  });
}

void write_behind(caf::actor_system& system, std::shared_ptr<const role_snapshot> snapshot, std::string dir,
                  std::function<void(const file_saved&)> tell) {
  system.spawn<caf::detached>([snapshot = std::move(snapshot), dir = std::move(dir),
                               tell = std::move(tell)](caf::event_based_actor*) { tell(snapshot->write(dir)); });
}

} // namespace troupe::actors
