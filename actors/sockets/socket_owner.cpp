// SPDX-License-Identifier: BSD-3-Clause
// Asking the kernel, or its tables, for the user of a socket.
#include "actors/sockets/socket_owner.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <variant>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace troupe::actors::net {
namespace {

/// An address in network order; of IPv4 the first word.
struct endpoint {
  std::array<std::uint32_t, 4> address{};
  std::uint16_t port = 0; ///< network order
};

/// A connection as its far end sees it.
struct mirrored {
  int family = AF_UNSPEC;
  endpoint local, remote;
};

/// An IPv4 address that is written as one of IPv6 becomes one of IPv4.
bool read_endpoint(const sockaddr_storage& from, int& family, endpoint& into) {
  family = from.ss_family;
  if (family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    into = {{v4.sin_addr.s_addr}, v4.sin_port};
    return true;
  }
  if (family != AF_INET6)
    return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  std::memcpy(into.address.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  into.port = v6.sin6_port;
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    family = AF_INET;
    into.address = {into.address[3]};
  }
  return true;
}

std::optional<mirrored> other_side(int descriptor) {
  sockaddr_storage near{}, far{};
  socklen_t near_size = sizeof near, far_size = sizeof far;
  mirrored out;
  int near_family = AF_UNSPEC;
  const bool known = ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&near), &near_size) == 0
                     && ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&far), &far_size) == 0
                     && read_endpoint(far, out.family, out.local) && read_endpoint(near, near_family, out.remote)
                     && near_family == out.family;
  return known ? std::optional{out} : std::nullopt;
}

struct user {
  std::uint32_t id;
};
struct nobody {};   // no such socket, or no process has it
struct no_words {}; // the source cannot be asked
using answer = std::variant<user, nobody, no_words>;

// -- the kernel

struct question {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

answer read_reply(const nlmsghdr& head, const mirrored& wanted) {
  if (head.nlmsg_type == NLMSG_ERROR) {
    const auto* const failed = static_cast<const nlmsgerr*>(NLMSG_DATA(&head));
    return failed->error == -ENOENT ? answer{nobody{}} : answer{no_words{}};
  }
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg)))
    return no_words{};
  const auto& found = *static_cast<const inet_diag_msg*>(NLMSG_DATA(&head));
  // A listener at that port is found where there is no such connection. A socket without an inode has no process, and no user.
  if (found.id.idiag_dport != wanted.remote.port || found.idiag_inode == 0)
    return nobody{};
  return user{found.idiag_uid};
}

answer ask_kernel(const mirrored& wanted) {
  const int link = ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (link < 0)
    return no_words{};
  question asked{};
  asked.head.nlmsg_len = sizeof asked;
  asked.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  asked.head.nlmsg_flags = NLM_F_REQUEST;
  asked.body.sdiag_family = static_cast<std::uint8_t>(wanted.family);
  asked.body.sdiag_protocol = IPPROTO_TCP;
  asked.body.idiag_states = ~0U;
  auto& id = asked.body.id;
  std::ranges::copy(wanted.local.address, id.idiag_src);
  std::ranges::copy(wanted.remote.address, id.idiag_dst);
  id.idiag_sport = wanted.local.port;
  id.idiag_dport = wanted.remote.port;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  alignas(nlmsghdr) std::array<std::byte, 4096> reply;
  ssize_t come = ::send(link, &asked, sizeof asked, 0);
  if (come == static_cast<ssize_t>(sizeof asked))
    come = ::recv(link, reply.data(), reply.size(), MSG_DONTWAIT); // the kernel answers within `send`
  ::close(link);
  const auto& head = reinterpret_cast<const nlmsghdr&>(reply);
  if (come < static_cast<ssize_t>(sizeof(nlmsghdr)) || head.nlmsg_len > static_cast<std::size_t>(come))
    return no_words{};
  return read_reply(head, wanted);
}

// -- the tables

/// As /proc/net/tcp writes it: each word as this machine's number, the port as a number.
std::string table_text(const endpoint& end, int family) {
  std::string text;
  for (std::size_t i = 0; i < (family == AF_INET ? 1U : 4U); ++i)
    text += fmt::format("{:08X}", end.address[i]);
  return text + fmt::format(":{:04X}", ntohs(end.port));
}

answer search_table(const char* path, const mirrored& wanted, int family) {
  std::ifstream table{path};
  if (!table)
    return no_words{};
  const std::string local = table_text(wanted.local, family), remote = table_text(wanted.remote, family);
  std::string line, number, from, to, ignored;
  std::getline(table, line); // the heading
  while (std::getline(table, line)) {
    std::istringstream fields{line};
    if (!(fields >> number >> from >> to) || from != local || to != remote)
      continue;
    std::uint32_t id = 0;
    std::uint64_t inode = 0;
    fields >> ignored >> ignored >> ignored >> ignored >> id >> ignored >> inode; // state, queues, timer, retransmits
    if (!fields)
      return no_words{};
    return inode != 0 ? answer{user{id}} : answer{nobody{}};
  }
  return nobody{};
}

answer search_tables(const mirrored& wanted) {
  if (wanted.family == AF_INET6)
    return search_table("/proc/net/tcp6", wanted, AF_INET6);
  const auto found = search_table("/proc/net/tcp", wanted, AF_INET);
  if (!std::holds_alternative<nobody>(found))
    return found;
  mirrored mapped = wanted; // a socket of IPv6 that speaks IPv4
  for (endpoint* end : {&mapped.local, &mapped.remote})
    end->address = {0, 0, htonl(0xFFFF), end->address[0]};
  const auto other = search_table("/proc/net/tcp6", mapped, AF_INET6);
  return std::holds_alternative<user>(other) ? other : found;
}

std::string address_text(const mirrored& ends) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(ends.family, ends.local.address.data(), text.data(), text.size()) == nullptr)
    return "an unknown address";
  return fmt::format("{}:{}", text.data(), ntohs(ends.local.port));
}

} // namespace

std::optional<std::uint32_t> user_at_other_end(int descriptor, owner_source from) {
  const auto ends = other_side(descriptor);
  if (!ends)
    return {};
  const auto found = from == owner_source::kernel ? ask_kernel(*ends) : search_tables(*ends);
  const auto* const who = std::get_if<user>(&found);
  return who != nullptr ? std::optional{who->id} : std::nullopt;
}

std::optional<std::string> foreign_user(int descriptor) {
  const std::uint32_t own = ::geteuid();
  const auto ends = other_side(descriptor);
  if (!ends)
    return "";
  auto found = ask_kernel(*ends);
  if (std::holds_alternative<no_words>(found))
    found = search_tables(*ends);
  if (const auto* const who = std::get_if<user>(&found)) {
    if (who->id == own || who->id == 0)
      return {};
    return fmt::format(
        "connection from {}: it is of user {}, and without certificates this cluster takes those of its own user, {}, "
        "alone",
        address_text(*ends), who->id, own);
  }
  if (std::holds_alternative<nobody>(found))
    return "";
  return fmt::format(
      "connection from {}: the system does not tell whose it is (neither NETLINK_SOCK_DIAG nor /proc/net/tcp); use "
      "certificates: `troupe certs --help`",
      address_text(*ends));
}

} // namespace troupe::actors::net
