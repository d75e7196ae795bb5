// SPDX-License-Identifier: BSD-3-Clause
// Sorting actors, and drawing their tree.
#include "apps/console/views.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/console/rates.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

using actors::actor_report;

/// The value for a sort key of top_orders.
double value_of(const actor_report& actor, std::string_view order) {
  if (order == "busy")
    return actor.busy;
  if (order == "mailbox")
    return static_cast<double>(actor.mailbox);
  return order == "messages" ? actor.messages_per_s : actor.since_s;
}

std::string jobs_head(const snapshot& now, const snapshot* before, boost::json::array& list) {
  std::string text;
  for (const auto& job : now.cluster.jobs) {
    const auto speed = before != nullptr ? speed_of(job, *before, now) : job_speed{};
    text += fmt::format("job {} ({}), {}, {}: step {}, epoch {:.2f}", job.number, job.name, job.protocol, job.state, job.steps,
                        job.epochs);
    if (speed.steps && speed.samples)
      text += fmt::format("; {:.0f} steps/s, {:.0f} samples/s", *speed.steps, *speed.samples);
    text += '\n';
    list.push_back({{"number", job.number},
                    {"name", job.name},
                    {"state", job.state},
                    {"steps", job.steps},
                    {"epochs", job.epochs},
                    {"steps_per_s", rate_json(speed.steps)},
                    {"samples_per_s", rate_json(speed.samples)}});
  }
  return text;
}

/// The tree of actors by who spawned them, as a drawing.
class branches {
public:
  branches(const snapshot& seen, const std::vector<actor_report>& all, bool unicode) : seen_(seen), all_(all), unicode_(unicode) {
    std::set<key> known;
    for (const auto& actor : all_)
      known.insert({actor.job, actor.id});
    for (const auto& actor : all_)
      if (const key parent{actor.job, actor.parent}; known.contains(parent))
        children_[parent].push_back(&actor);
      else
        roots_.push_back(&actor);
  }

  answer draw() {
    rows_ = {{"actor", "node", "state", "for", "watched by"}, {"cluster " + seen_.cluster.name}};
    auto list = below(roots_, "");
    boost::json::array circles; // actors that claim to have spawned each other: impossible, but they are shown
    for (const auto& actor : all_)
      if (!drawn_.contains(&actor))
        circles = below({&actor}, "");
    std::ranges::move(circles, std::back_inserter(list));
    return {table(rows_), {{"cluster", seen_.cluster.name}, {"tree", std::move(list)}}};
  }

private:
  using key = std::pair<std::uint64_t, std::string>;

  boost::json::array below(const std::vector<const actor_report*>& some, const std::string& indent) {
    boost::json::array list;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto& actor = *some[i];
      if (!drawn_.insert(&actor).second)
        continue;
      const bool last = i + 1 == some.size();
      const auto* turn = unicode_ ? (last ? "└─ " : "├─ ") : (last ? "`- " : "|- ");
      const auto* edge = last ? "   " : unicode_ ? "│  " : "|  ";
      const auto name = name_of(actor, seen_);
      rows_.push_back({indent + turn + name, actor.node, actor.state, seconds_text(actor.since_s),
                       actor.watched_by.empty() ? "nobody" : actor.watched_by});
      list.push_back({{"id", name},
                      {"role", actor.role},
                      {"node", actor.node},
                      {"job", actor.job},
                      {"state", actor.state},
                      {"watched_by", actor.watched_by},
                      {"stuck", actor.stuck},
                      {"children", below(children_[{actor.job, actor.id}], indent + edge)}});
    }
    return list;
  }

  const snapshot& seen_;
  const std::vector<actor_report>& all_;
  bool unicode_;
  std::map<key, std::vector<const actor_report*>> children_;
  std::vector<const actor_report*> roots_;
  std::set<const actor_report*> drawn_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace

answer top(const snapshot& now, const snapshot* before, const std::string& order) {
  const auto by = order.empty() ? std::string{top_orders.front()} : order;
  if (std::ranges::find(top_orders, by) == top_orders.end())
    return wrong(fmt::format("there is no order \"{}\"; there are {}", by, fmt::join(top_orders, ", ")));
  auto all = now.actors();
  std::ranges::stable_sort(all, std::greater{}, [&](const actor_report& actor) { return value_of(actor, by); });
  boost::json::array jobs, list;
  auto text = jobs_head(now, before, jobs);
  std::vector<std::vector<std::string>> rows{{"actor", "node", "state", "    for", "mailbox", "messages/s", "busy", "waits for"}};
  for (const auto& actor : all) {
    rows.push_back({name_of(actor, now), actor.node, actor.state, fmt::format("{:>7}", seconds_text(actor.since_s)),
                    fmt::format("{:>7}", actor.mailbox), fmt::format("{:>10.1f}", actor.messages_per_s),
                    fmt::format("{:>3.0f}%", 100 * actor.busy), names_text(actor.waits_for)});
    list.push_back(json_of(actor, now));
  }
  text += rows.size() == 1 ? "there are no actors\n" : fmt::format("{}{}", text.empty() ? "" : "\n", table(rows));
  return {text, {{"sorted_by", by}, {"jobs", std::move(jobs)}, {"actors", std::move(list)}}};
}

answer tree(const snapshot& seen, bool unicode) {
  const auto all = seen.actors();
  return branches{seen, all, unicode}.draw();
}

} // namespace troupe::apps::console
