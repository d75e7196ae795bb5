// SPDX-License-Identifier: BSD-3-Clause
// process_vm_readv, and whom it may read.
#include "actors/net/lending/peer_memory.hpp"

#include <cerrno>
#include <random>
#include <system_error>

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace troupe::actors::net {
namespace {

iovec at(std::uint64_t address, std::size_t bytes) {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
}

std::uint64_t drawn(std::random_device& from) {
  return (std::uint64_t{from()} << 32U | from()) | 1U; // not 0, which is what a wiped one reads as
}

} // namespace

lent_memory::lent_memory() {
  std::random_device from;
  for (auto& word : secret_)
    word = drawn(from);
}

protocols::wire::lending lent_memory::offer() const {
  // Yama lets a process read its children alone, unless they allow more. Elsewhere this fails and changes nothing.
  (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return {static_cast<std::uint32_t>(::getpid()), reinterpret_cast<std::uintptr_t>(secret_.data()), {secret_[0], secret_[1]}};
}

void lent_memory::wipe() {
  for (auto& word : secret_)
    word = 0;
}

std::optional<peer_memory> peer_memory::open(const protocols::wire::lending& offer) {
  const peer_memory out(offer);
  return out.read(offer.secret_at, {}) ? std::nullopt : std::optional{out};
}

std::optional<std::string> peer_memory::read(std::uint64_t address, std::span<std::byte> to) const {
  std::array<std::uint64_t, 2> secret{};
  // The secret comes last: it is there still once all before it has been copied.
  const std::array<iovec, 2> here{{{to.data(), to.size()}, {secret.data(), sizeof secret}}};
  const std::array<iovec, 2> there{at(address, to.size()), at(offer_.secret_at, sizeof secret)};
  ssize_t come = 0;
  do
    come = ::process_vm_readv(static_cast<pid_t>(offer_.process), here.data(), here.size(), there.data(), there.size(), 0);
  while (come < 0 && errno == EINTR);
  if (come < 0)
    return std::generic_category().message(errno);
  if (static_cast<std::size_t>(come) != to.size() + sizeof secret)
    return "it ends within what is lent";
  if (secret != offer_.secret)
    return "it is not lent any more";
  return {};
}

} // namespace troupe::actors::net
