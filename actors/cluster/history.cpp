// SPDX-License-Identifier: BSD-3-Clause
// Remembering some of it.
#include "actors/cluster/history.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

namespace {

/// Not in the middle of a letter of UTF-8.
void cut(std::string& text, std::size_t most) {
  if (text.size() <= most)
    return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most;
  text.resize(most);
}

} // namespace

void history_book::open(std::uint64_t job, const std::string& name, const std::string& protocol) {
  jobs_[job].title = {job, name, protocol};
}

void history_book::say(std::uint64_t job, std::string text, std::int64_t at_ms) {
  const auto found = jobs_.find(job);
  auto& said = found == jobs_.end() ? said_ : found->second.said;
  cut(text, most_text);
  said.push_back({++last_event_, at_ms, found == jobs_.end() ? 0 : job, std::move(text)});
  if (said.size() > most_events)
    said.pop_front();
}

void history_book::add(std::uint64_t job, const progress& p) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    found->second.steps.add(p);
    found->second.title.now = p;
  }
}

void history_book::add(std::uint64_t job, const evaluation_point& e) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    found->second.evaluations.add(e);
    found->second.title.evaluated = e;
  }
}

void history_book::close(std::uint64_t job, const std::string& how) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.title.ended)
    return;
  found->second.title.state = how;
  found->second.title.ended = true;
  ended_.push_back(job);
  if (ended_.size() > most_ended) {
    jobs_.erase(ended_.front());
    ended_.pop_front();
  }
}

history history_book::of(std::uint64_t job) const {
  history out;
  for (const auto& [number, known] : jobs_) {
    out.jobs.push_back(known.title);
    if (job == 0)
      out.events.insert(out.events.end(), known.said.begin(), known.said.end());
  }
  if (job == 0) {
    out.events.insert(out.events.end(), said_.begin(), said_.end());
    std::ranges::sort(out.events, {}, &cluster_event::number);
    if (out.events.size() > most_events)
      out.events.erase(out.events.begin(), out.events.end() - most_events);
    return out;
  }
  const auto& known = jobs_.at(job);
  out.steps = known.steps.all();
  out.evaluations = known.evaluations.all();
  out.events = {known.said.begin(), known.said.end()};
  return out;
}

} // namespace troupe::actors
