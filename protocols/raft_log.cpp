// SPDX-License-Identifier: BSD-3-Clause
// What a log may be, and what one step of it does to a disk.
#include "protocols/raft_log.hpp"

#include <algorithm>
#include <utility>

namespace troupe::protocols::raft {

bool well_formed(const std::vector<entry>& log, log_index previous, term since, term in) {
  for (const entry& each : log) {
    if (each.index != next(previous) || each.term < since || each.term > in)
      return false;
    previous = each.index;
    since = each.term;
  }
  return since <= in;
}

bool sound(const stored& disk) {
  return well_formed(disk.log, disk.snapshot.index, disk.snapshot.term, disk.term);
}

std::optional<term> stored::term_at(log_index index) const {
  if (index == snapshot.index)
    return snapshot.term;
  if (index < snapshot.index || index > last())
    return {};
  return log[index.value - snapshot.index.value - 1].term;
}

log_index stored::last_not_after(log_index index, raft::term in) const {
  index = std::min(index, last());
  while (term_at(index) > in) // of nothing is less than any
    --index.value;
  return index;
}

std::vector<entry> stored::between(log_index index, log_index upto) const {
  const auto place = [this](log_index each) {
    return log.begin() + static_cast<std::ptrdiff_t>(each.value - snapshot.index.value);
  };
  return {place(index), place(upto)};
}

void stored::write(entry fresh) {
  while (!log.empty() && log.back().index >= fresh.index)
    log.pop_back();
  log.push_back(std::move(fresh));
}

void stored::compact(raft::snapshot upto) {
  const bool same = term_at(upto.index) == upto.term;
  std::erase_if(log, [&](const entry& old) { return !same || old.index <= upto.index; });
  snapshot = std::move(upto);
}

void keep(stored& disk, const persist& news) {
  disk.term = news.term;
  disk.vote = news.vote;
  if (news.snapshot) {
    disk.snapshot = *news.snapshot;
    disk.log.clear();
  }
  for (const entry& each : news.entries)
    disk.write(each);
}

} // namespace troupe::protocols::raft
