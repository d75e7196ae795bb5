// SPDX-License-Identifier: BSD-3-Clause
// Room for a role's first snapshot: there before it is made.
#include "actors/roles/holder/role_snapshot.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <gtest/gtest.h>
#include <sys/mman.h>

namespace troupe::actors {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t large = std::size_t{40} << 20; // more than malloc keeps when it is freed

/// Whole pages of it that the system has given.
std::size_t pages_of(const kernels::buffer& block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block.data()); // NOLINT: pages are told by their addresses
  EXPECT_EQ(address % page, 0U);
  std::vector<unsigned char> given(block.bytes() / page);
  EXPECT_EQ(mincore(block.data(), given.size() * page, given.data()), 0);
  std::size_t out = 0;
  for (const auto each : given)
    out += each & 1U;
  return out;
}

class Room : public testing::Test {
protected:
  void make(std::vector<std::size_t> sizes) {
    make_room(system, queue, std::move(sizes));
    system.await_all_actors_done();
  }

  caf::actor_system_config config;
  caf::actor_system system{config};
  std::shared_ptr<kernels::backend> queue = kernels::open_backend({});
};

TEST_F(Room, IsThereForAllBlocksAtOnce) {
  EXPECT_LT(pages_of(queue->allocate_host(large - page)), large / page / 2) << "the system gives no page before it is written";
  make({large, large});
  const auto first = queue->allocate_host(large);
  const auto second = queue->allocate_host(large);
  EXPECT_EQ(pages_of(first), large / page);
  EXPECT_EQ(pages_of(second), large / page);
}

TEST_F(Room, ThatIsNotThereIsLeftToTheSnapshotToSay) {
  make({large, std::size_t{1} << 60U});
  EXPECT_EQ(pages_of(queue->allocate_host(large)), large / page);
  EXPECT_THROW(queue->allocate_host(std::size_t{1} << 60U), kernels::out_of_memory);
}

} // namespace
} // namespace troupe::actors
