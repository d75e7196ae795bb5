// SPDX-License-Identifier: BSD-3-Clause
// Fading means over looks at a cluster.
#include "apps/web/activity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "apps/console/stragglers.hpp"
#include "apps/median.hpp"

namespace troupe::apps::web {

namespace {

constexpr double fading = 0.9;
/// A state that has lasted this long is shown as it is; one that changes faster, by its share of the last seconds.
constexpr double long_s = 1.5;
constexpr std::array kinds{"works", "waits", "idle", "stuck"};

/// One word for an actor's state. An actor that waits for no other and has nothing to do is idle.
std::string kind_of(const actors::actor_report& actor) {
  if (actor.stuck || actor.ended)
    return "stuck";
  if (actor.paused)
    return "idle";
  if (!actor.waits_for.empty())
    return "waits";
  for (const auto* rests : {"idle", "collects", "hold", "held", "waits", "runs"}) // the last is the coordinator's
    if (actor.state.starts_with(rests))
      return "idle";
  return "works";
}

} // namespace

void recent_activity::faded::see(double value) {
  sum = sum * fading + value;
  weight = weight * fading + 1;
}

void recent_activity::see(const console::snapshot& seen, double at_s) {
  const auto all = seen.actors();
  std::set<std::string> here;
  for (const auto& actor : all) {
    const auto id = console::name_of(actor, seen);
    here.insert(id);
    auto& known = actors_[id];
    for (const auto* kind : kinds)
      known.kinds[kind].see(kind_of(actor) == kind ? 1 : 0);
    for (const auto& each : actor.waits_for) // as if all earlier looks had seen no such wait
      known.waits.try_emplace(each, faded{0, (known.kinds["works"].weight - 1) / fading});
    const std::set<std::string> whom(actor.waits_for.begin(), actor.waits_for.end());
    for (auto& [each, share] : known.waits)
      share.see(whom.contains(each) ? 1 : 0);
    std::erase_if(known.waits, [](const auto& each) { return each.second.mean() < 0.01; });
    if (const auto ms = actor.fields.find("compute_ms"); ms != actor.fields.end())
      if (const auto value = std::strtod(ms->second.c_str(), nullptr); value > 0) // else it has made no step yet
        known.compute_ms.see(value);
  }
  std::erase_if(actors_, [&](const auto& each) { return !here.contains(each.first); });
  const auto judged = console::stragglers(seen);
  for (const auto& worker : judged.json.at("workers").as_array())
    actors_[std::string{worker.at("id").as_string()}].slow.see(worker.at("verdict").as_string().empty() ? 0 : 1);

  std::set<std::pair<std::string, std::string>> open;
  for (const auto& node : seen.reports.nodes)
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

bool recent_activity::slow(const std::string& id) const {
  const auto known = actors_.find(id);
  return known != actors_.end() && known->second.slow.mean() > 0.5;
}

/// One word for an actor: by its shares where its state changes many times a second.
std::string recent_activity::mood_of(const actors::actor_report& actor, const std::string& id) const {
  const auto now = kind_of(actor);
  if (now == "stuck" || slow(id))
    return now == "stuck" ? now : "slow";
  const auto known = actors_.find(id);
  if (actor.since_s >= long_s || known == actors_.end())
    return now;
  const auto share = [&](const std::string& kind) { return known->second.kinds.at(kind).mean(); };
  return *std::ranges::max_element(kinds.begin(), kinds.end() - 1, {}, share); // it is not stuck
}

picture recent_activity::actors(const console::snapshot& seen) const {
  picture out;
  for (const auto& actor : seen.actors()) {
    const auto id = console::name_of(actor, seen);
    box one{.id = id,
            .role = actor.role,
            .node = actor.node,
            .state = actor.state,
            .since_s = actor.since_s,
            .mailbox = actor.mailbox,
            .waits_for = actor.waits_for,
            .mood = mood_of(actor, id)};
    if (const auto known = actors_.find(id); known != actors_.end()) {
      for (const auto& [kind, share] : known->second.kinds)
        one.shares[kind] = share.mean();
      for (const auto& [to, share] : known->second.waits)
        out.arrows.push_back({id, to, share.mean()});
    }
    out.boxes.push_back(std::move(one));
  }
  return out;
}

boost::json::object recent_activity::stragglers(const console::snapshot& seen) const {
  auto out = console::stragglers(seen).json;
  auto workers = std::move(out.at("workers").as_array()); // a reference into an object does not outlive a new key
  std::set<std::string> stuck;
  for (const auto& actor : seen.actors())
    if (actor.stuck)
      stuck.insert(console::name_of(actor, seen));
  std::vector<double> times;
  std::map<std::string, std::vector<double>> by_node;
  boost::json::array in_trouble;
  for (auto& each : workers) {
    auto& worker = each.as_object();
    const std::string id{worker.at("id").as_string()};
    const auto known = actors_.find(id);
    const auto ms = known == actors_.end() ? worker.at("compute_ms").to_number<double>() : known->second.compute_ms.mean();
    worker["compute_ms"] = brief(ms);
    worker["slow"] = slow(id);
    worker["stuck"] = stuck.contains(id);
    if (!stuck.contains(id))
      times.push_back(ms);
    if (stuck.contains(id) || slow(id))
      in_trouble.push_back(worker);
    else
      by_node[std::string{worker.at("node").as_string()}].push_back(ms);
  }
  out["median_ms"] = brief(median(std::move(times)));
  if (workers.size() <= most_alone) {
    out["workers"] = std::move(workers);
    return out;
  }
  in_trouble.resize(std::min(in_trouble.size(), most_alone));
  out["workers"] = std::move(in_trouble);
  boost::json::array nodes;
  for (const auto& [node, ms] : by_node)
    if (nodes.size() < most_alone)
      nodes.push_back({{"id", node},
                       {"count", ms.size()},
                       {"compute_ms", brief(median(ms))},
                       {"low_ms", brief(std::ranges::min(ms))},
                       {"high_ms", brief(std::ranges::max(ms))}});
  out["left_out"] = by_node.size() - nodes.size();
  out["nodes"] = std::move(nodes);
  return out;
}

std::pair<recent_activity::lane_list, recent_activity::lane_list> recent_activity::chosen_lanes(std::size_t most) const {
  constexpr std::size_t few = 12;
  lane_list shown, others;
  for (const auto& lane : lanes_)
    (lanes_.size() > few && lane.second.idle() ? others : shown).push_back(&lane);
  if (shown.size() > most) {
    std::ranges::stable_sort(shown, std::greater{}, [](const auto* lane) { return lane->second.last.bytes_sent; });
    others.insert(others.end(), shown.begin() + static_cast<std::ptrdiff_t>(most), shown.end());
    shown.resize(most);
  }
  return {std::move(shown), std::move(others)};
}

boost::json::array recent_activity::lanes(std::size_t most) const {
  boost::json::array out;
  for (const auto* lane : chosen_lanes(most).first)
    out.push_back({{"from", lane->first.first},
                   {"to", lane->first.second},
                   {"sent_per_s", std::round(lane->second.sent_per_s.mean())},
                   {"bytes_sent", lane->second.last.bytes_sent},
                   {"bytes_queued", lane->second.last.queued_bytes}});
  return out;
}

boost::json::object recent_activity::other_lanes(std::size_t most) const {
  const auto others = chosen_lanes(most).second;
  double per_second = 0;
  std::uint64_t sent = 0, queued = 0;
  for (const auto* lane : others) {
    per_second += lane->second.sent_per_s.mean();
    sent += lane->second.last.bytes_sent;
    queued += lane->second.last.queued_bytes;
  }
  return {{"count", others.size()}, {"sent_per_s", std::round(per_second)}, {"bytes_sent", sent}, {"bytes_queued", queued}};
}

} // namespace troupe::apps::web
