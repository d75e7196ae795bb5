// SPDX-License-Identifier: BSD-3-Clause
// Fading means over looks at a cluster.
#include "apps/web/habits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "apps/console/stragglers.hpp"

namespace troupe::apps::web {

namespace {

constexpr double fading = 0.9;
constexpr std::array kinds{"works", "waits", "idle", "stuck"};

/// In one word, as people tell them apart; whoever names nobody that it waits for and has nothing to do is idle.
std::string kind_of(const actors::actor_report& actor) {
  if (actor.stuck)
    return "stuck";
  if (!actor.waits_for.empty())
    return "waits";
  for (const auto* rests : {"idle", "collects", "hold", "held", "waits"})
    if (actor.state.starts_with(rests))
      return "idle";
  return "works";
}

/// Three digits are more than a page shows, and half the bytes.
double brief(double value) { return std::round(value * 1000) / 1000; }

} // namespace

void habits::faded::see(double value) {
  sum = sum * fading + value;
  weight = weight * fading + 1;
}

void habits::see(const console::snapshot& at, double at_s) {
  const auto all = at.actors();
  std::set<std::string> here;
  for (const auto& actor : all) {
    const auto id = console::name_of(actor, at);
    here.insert(id);
    auto& known = actors_[id];
    for (const auto* kind : kinds)
      known.kinds[kind].see(kind_of(actor) == kind ? 1 : 0);
    for (const auto& whom : actor.waits_for) // as if it had been looked at before, and not been waited for
      known.waits.try_emplace(whom, faded{0, (known.kinds["works"].weight - 1) / fading});
    for (auto& [whom, share] : known.waits)
      share.see(std::ranges::count(actor.waits_for, whom) > 0 ? 1 : 0);
    std::erase_if(known.waits, [](const auto& each) { return each.second.mean() < 0.01; });
    if (const auto ms = actor.fields.find("compute_ms"); ms != actor.fields.end())
      if (const auto value = std::strtod(ms->second.c_str(), nullptr); value > 0) // else it has made no step yet
        known.compute_ms.see(value);
  }
  std::erase_if(actors_, [&](const auto& each) { return !here.contains(each.first); });
  const auto judged = console::stragglers(at);
  for (const auto& worker : judged.json.at("workers").as_array())
    actors_[std::string{worker.at("id").as_string()}].slow.see(worker.at("verdict").as_string().empty() ? 0 : 1);

  std::set<std::pair<std::string, std::string>> open;
  for (const auto& node : at.reports.nodes)
    for (const auto& link : node.links) {
      const auto& key = *open.emplace(node.node, link.peer).first;
      auto [lane, fresh] = lanes_.try_emplace(key);
      if (!fresh && at_s > seen_s_ && link.bytes_sent >= lane->second.last.bytes_sent)
        lane->second.sent_per_s.see(static_cast<double>(link.bytes_sent - lane->second.last.bytes_sent) / (at_s - seen_s_));
      lane->second.last = link;
    }
  std::erase_if(lanes_, [&](const auto& each) { return !open.contains(each.first); });
  seen_s_ = at_s;
}

boost::json::array habits::actors(const console::snapshot& at, std::size_t most) const {
  boost::json::array out;
  for (const auto& actor : at.actors()) {
    if (out.size() == most)
      break;
    const auto id = console::name_of(actor, at);
    boost::json::object shares;
    if (const auto known = actors_.find(id); known != actors_.end())
      for (const auto& [kind, share] : known->second.kinds)
        shares[kind] = brief(share.mean());
    out.push_back({{"id", id},
                   {"role", actor.role},
                   {"node", actor.node},
                   {"state", actor.state},
                   {"since_s", brief(actor.since_s)},
                   {"mailbox", actor.mailbox},
                   {"waits_for", boost::json::value_from(actor.waits_for)},
                   {"kind", kind_of(actor)},
                   {"shares", std::move(shares)}});
  }
  return out;
}

boost::json::array habits::waits(std::size_t most) const {
  boost::json::array out;
  for (const auto& [from, known] : actors_)
    for (const auto& [to, share] : known.waits)
      if (out.size() < most)
        out.push_back({{"from", from}, {"to", to}, {"share", brief(share.mean())}});
  return out;
}

boost::json::object habits::stragglers(const console::snapshot& at, std::size_t most) const {
  auto out = console::stragglers(at).json;
  auto& workers = out.at("workers").as_array();
  std::set<std::string> stuck;
  for (const auto& actor : at.actors())
    if (actor.stuck)
      stuck.insert(console::name_of(actor, at));
  for (auto& each : workers) {
    auto& worker = each.as_object();
    const auto known = actors_.find(std::string{worker.at("id").as_string()});
    if (known == actors_.end())
      continue;
    worker["compute_ms"] = brief(known->second.compute_ms.mean());
    worker["slow"] = known->second.slow.mean() > 0.5;
    worker["stuck"] = stuck.contains(known->first);
  }
  if (workers.size() > most) {
    const auto longer = [](const boost::json::value& a, const boost::json::value& b) {
      return a.at("compute_ms").to_number<double>() > b.at("compute_ms").to_number<double>();
    };
    std::partial_sort(workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(most), workers.end(), longer);
    out["left_out"] = workers.size() - most;
    workers.resize(most);
  }
  return out;
}

boost::json::array habits::lanes(std::size_t most) const {
  std::vector<std::pair<const std::pair<std::string, std::string>*, const lane_habits*>> all;
  for (const auto& [ends, lane] : lanes_)
    all.emplace_back(&ends, &lane);
  if (all.size() > most) {
    std::ranges::stable_sort(all, std::greater{}, [](const auto& each) { return each.second->last.bytes_sent; });
    all.resize(most);
  }
  boost::json::array out;
  for (const auto& [ends, lane] : all)
    out.push_back({{"from", ends->first},
                   {"to", ends->second},
                   {"sent_per_s", std::round(lane->sent_per_s.mean())},
                   {"bytes_sent", lane->last.bytes_sent},
                   {"bytes_queued", lane->last.queued_bytes}});
  return out;
}

} // namespace troupe::apps::web
