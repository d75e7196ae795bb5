// SPDX-License-Identifier: BSD-3-Clause
// Deciding alone, and remembering it.
#include "actors/journal/durable_ledger.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include "actors/checkpoint/durable_file.hpp"
#include "kernels/assert.hpp"
#include "protocols/overloaded.hpp"
#include "protocols/wire/ledger.hpp"

namespace troupe::actors {
namespace {

namespace ledger = protocols::ledger;
namespace raft = protocols::raft;

/// The log is as long as this at most, and then a snapshot takes its place.
constexpr std::size_t most_words_of_log = 64U << 10U, most_entries = 4096;
const raft::options alone{.self = {0}, .members = {{0}}};

/// Times do not matter to a member alone.
constexpr protocols::nanoseconds whenever = 0;

std::size_t words_of(const std::vector<raft::entry>& log) {
  std::size_t out = 0;
  for (const auto& each : log)
    out += each.words.size();
  return out;
}

/// What one majority has decided another may not know. Who is alone has no such file.
void check_members(const std::string& folder, const std::vector<std::string>& names, bool is_new) {
  const std::string path = folder + "/members", now = fmt::format("{}", fmt::join(names, "\n"));
  std::ifstream file(path);
  const std::string before(std::istreambuf_iterator<char>(file), {});
  if (before == now)
    return;
  if (!is_new)
    throw std::runtime_error(
        fmt::format("{}: this journal is of other coordinators than the cluster's file names now; give the role "
                    "to the same nodes again, or an empty folder to each, and submit the jobs again",
                    path));
  durable_file out(path + ".new");
  out.write(std::as_bytes(std::span(now)), 0);
  out.sync();
  out.keep_as(path);
}

} // namespace

folder_lock::folder_lock(const std::string& folder) {
  make_folder(folder);
  const std::string path = folder + "/lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw_io(path, "open it", errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0)
    return;
  const int code = errno;
  ::close(descriptor_);
  if (code == EWOULDBLOCK)
    throw std::runtime_error(
        fmt::format("{}: another process has this journal; end that one, or give this coordinator a folder of its own", folder));
  throw_io(path, "lock it", code);
}

folder_lock::~folder_lock() {
  ::close(descriptor_);
}

durable_ledger::durable_ledger(const std::string& folder) : durable_ledger(folder, alone, {}, whenever) {
  carry_out(member_.on(raft::tick{}, whenever));
  TROUPE_ASSERT(member_.leads());
}

durable_ledger::durable_ledger(const std::string& folder, const raft::options& as, const std::vector<std::string>& names,
                               protocols::nanoseconds now)
    : lock_(folder), folder_(folder), journal_(folder), member_(as, journal_.contents(), now) {
  check_members(folder, names, journal_.contents() == raft::stored{});
  install(journal_.contents().snapshot);
}

durable_ledger::messages durable_ledger::on(const raft::message& msg, protocols::nanoseconds now) {
  compact_if_long();
  return carry_out(member_.on(msg, now));
}

durable_ledger::messages durable_ledger::on(const raft::tick& msg, protocols::nanoseconds now) {
  return carry_out(member_.on(msg, now));
}

durable_ledger::messages durable_ledger::propose(const ledger::entry& entry, protocols::nanoseconds now) {
  compact_if_long();
  return carry_out(member_.on(raft::proposal{{protocols::wire::encode(entry)}}, now));
}

std::string durable_ledger::decide(const ledger::entry& entry) {
  if (auto full = ledger::no_room_for(state_, entry); !full.empty())
    return full;
  propose(entry, whenever);
  return {};
}

durable_ledger::messages durable_ledger::carry_out(const raft::effects& effects) {
  messages out;
  for (const auto& each : effects)
    std::visit(overloaded{[&](const raft::persist& effect) { journal_.write(effect); },
                          [&](const raft::send& effect) { out.push_back(effect.message); },
                          [&](const raft::committed& effect) {
                            for (const auto& decided : effect.entries)
                              apply(decided);
                          },
                          [&](const raft::installed& effect) { install(effect.snapshot); }, [](const raft::leads&) {},
                          [](const raft::follows&) {}},
               each);
  return out;
}

/// What the journal proves to be as it was written, and does not decode, is of another program.
void durable_ledger::install(const raft::snapshot& from) {
  if (from.words.empty())
    return;
  auto read = protocols::wire::decode_ledger(from.words);
  if (!read || !ledger::sound(*read))
    throw std::runtime_error(fmt::format("{}: {}; start the version of Troupe that wrote it, or give another folder", folder_,
                                         read ? "its ledger of jobs contradicts itself" : read.error().text));
  state_ = std::move(*read);
}

void durable_ledger::apply(const raft::entry& decided) {
  if (decided.words.empty()) // of an election
    return;
  const auto entry = protocols::wire::decode_ledger_entry(decided.words);
  if (!entry)
    throw std::runtime_error(fmt::format("{}: entry {}: {}; start the version of Troupe that wrote it, or give another folder",
                                         folder_, decided.index.value, entry.error().text));
  ledger::apply(state_, *entry);
}

void durable_ledger::compact_if_long() {
  const auto& log = member_.state().stored.log;
  if (log.size() < most_entries && words_of(log) < most_words_of_log)
    return;
  carry_out(member_.on(raft::compaction{member_.state().commit, protocols::wire::encode(state_)}, whenever));
}

} // namespace troupe::actors
