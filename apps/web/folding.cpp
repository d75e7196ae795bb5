// SPDX-License-Identifier: BSD-3-Clause
// Groups many actors into few boxes.
#include "apps/web/folding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace troupe::apps::web {

namespace {

constexpr std::size_t most_standing_out = 6, most_arrows = 300;

bool in_trouble(const box& actor) {
  return actor.mood == "slow" || actor.mood == "stuck";
}

/// The most frequent mood; of equally frequent ones the worst.
std::string mood_of_most(const std::map<std::string, std::size_t>& counts) {
  std::pair<std::size_t, std::string> most;
  for (const auto* mood : {"stuck", "slow", "waits", "works", "idle"})
    if (const auto found = counts.find(mood); found != counts.end() && found->second > most.first)
      most = {found->second, mood};
  return most.second;
}

box one_of(const std::vector<box>& members, std::string id, std::string node) {
  box out{.id = std::move(id), .role = members.front().role, .node = std::move(node)};
  for (const auto& member : members) {
    ++out.moods[member.mood];
    out.mailbox += member.mailbox;
    for (const auto& [kind, share] : member.shares)
      out.shares[kind] += share / static_cast<double>(members.size());
  }
  out.mood = mood_of_most(out.moods);
  return out;
}

/// Groups the actors of one role.
class role_folding {
public:
  role_folding(std::vector<box> members, std::map<std::string, std::string>& stands_for) : stands_for_(stands_for) {
    std::vector<std::string> nodes; // in the order of their first actors
    std::map<std::string, std::vector<box>> on;
    for (auto& member : members) {
      if (!on.contains(member.node))
        nodes.push_back(member.node);
      on[member.node].push_back(std::move(member));
    }
    for (const auto& node : nodes)
      let_stand_out(on[node]);
    const auto healthy = [&](const std::string& node) { return std::ranges::none_of(on[node], in_trouble); };
    if (nodes.size() > most_alone)
      std::ranges::stable_partition(nodes, [&](const auto& node) { return !healthy(node); });
    std::vector<box> rest;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (i < most_alone)
        add(std::move(on[nodes[i]]), " on " + nodes[i], nodes[i]);
      else
        std::ranges::move(on[nodes[i]], std::back_inserter(rest));
    add(std::move(rest), " on other nodes", "");
  }

  std::vector<box> take() { return std::move(out_); }

private:
  void let_stand_out(std::vector<box>& members) {
    if (std::ranges::all_of(members, in_trouble))
      return;
    std::erase_if(members, [this](const box& member) {
      if (!in_trouble(member) || out_.size() == most_standing_out)
        return false;
      out_.push_back(member);
      return true;
    });
  }

  void add(std::vector<box> members, const std::string& where, const std::string& node) {
    if (members.empty())
      return;
    if (members.size() == 1)
      return out_.push_back(std::move(members.front()));
    const auto id = members.front().role + "s" + where;
    for (const auto& member : members)
      stands_for_[member.id] = id;
    out_.push_back(one_of(members, id, node));
  }

  std::map<std::string, std::string>& stands_for_;
  std::vector<box> out_;
};

} // namespace

double brief(double value) {
  return std::round(value * 1000) / 1000;
}

picture folded(picture all) {
  std::vector<std::string> roles;
  std::map<std::string, std::vector<box>> by_role;
  for (auto& each : all.boxes) {
    if (!by_role.contains(each.role))
      roles.push_back(each.role);
    by_role[each.role].push_back(std::move(each));
  }
  picture out;
  std::map<std::string, std::string> stands_for;
  for (const auto& role : roles)
    std::ranges::move(by_role[role].size() > most_alone ? role_folding{std::move(by_role[role]), stands_for}.take()
                                                        : std::move(by_role[role]),
                      std::back_inserter(out.boxes));

  std::map<std::string, std::size_t> behind;
  for (const auto& [member, group] : stands_for)
    ++behind[group];
  const auto name = [&](const std::string& id) { return stands_for.contains(id) ? stands_for[id] : id; };
  std::map<std::pair<std::string, std::string>, double> shares;
  for (const auto& each : all.arrows)
    if (const auto from = name(each.from), to = name(each.to); from != to)
      shares[{from, to}] += each.share / static_cast<double>(std::max<std::size_t>(behind[from], 1));
  for (const auto& [ends, share] : shares)
    out.arrows.push_back({ends.first, ends.second, std::min(share, 1.0)});
  std::ranges::stable_sort(out.arrows, std::greater{}, &arrow::share);
  out.arrows.resize(std::min(out.arrows.size(), most_arrows));
  return out;
}

boost::json::array json_of(const std::vector<box>& boxes) {
  boost::json::array out;
  for (const auto& each : boxes) {
    boost::json::object shares;
    for (const auto& [kind, share] : each.shares)
      shares[kind] = brief(share);
    out.push_back({{"id", each.id},
                   {"role", each.role},
                   {"node", each.node},
                   {"state", each.state},
                   {"since_s", brief(each.since_s)},
                   {"mailbox", each.mailbox},
                   {"waits_for", boost::json::value_from(each.waits_for)},
                   {"mood", each.mood},
                   {"shares", std::move(shares)},
                   {"of", boost::json::value_from(each.moods)}});
  }
  return out;
}

boost::json::array json_of(const std::vector<arrow>& arrows) {
  boost::json::array out;
  for (const auto& each : arrows)
    out.push_back({{"from", each.from}, {"to", each.to}, {"share", brief(each.share)}});
  return out;
}

} // namespace troupe::apps::web
