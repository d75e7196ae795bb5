// SPDX-License-Identifier: BSD-3-Clause
// Arrows between spans.
#include "actors/monitoring/trace_flows.hpp"

#include <map>
#include <utility>

#include "protocols/tree.hpp"

namespace troupe::actors {

namespace {

/// A role's number and a version, or a worker's and a push's clock.
using span_key = std::pair<std::uint32_t, std::int64_t>;

class arrows {
public:
  arrows(const job& job, const std::vector<node_trace>& nodes) : tree_(protocols::holder_tree(job.shape())) {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      for (const auto& event : nodes[node].events)
        sort_in({node, &event});
  }

  std::vector<flow> draw() {
    for (const auto& [where, made] : applies_) {
      const auto& pushes = made.event->pushes;
      for (std::size_t i = 0; i + 1 < pushes.size(); i += 2)
        follow({static_cast<std::uint32_t>(pushes[i]), pushes[i + 1]}, where, made);
    }
    for (const auto& [where, sum] : sums_)
      for (const auto parent : tree_.at(where.first).parents) {
        draw("sum", sum, applies_, {parent.value, where.second});
        draw("sum", sum, sums_, {parent.value, where.second});
      }
    for (const auto& [where, step] : steps_)
      for (const auto& holder : tree_)
        if (const auto made = applies_.find({holder.self.value, where.second}); holder.is_shard && made != applies_.end())
          add("parameters", made->second, step);
    return std::move(out_);
  }

private:
  using places = std::map<span_key, span_place>;

  /// If several spans have one key (steps of a local round, a repeated push), the first counts.
  void sort_in(span_place at) {
    const auto& event = *at.event;
    if (event.kind == span_kind::push)
      pushes_.emplace(span_key{event.role, event.args[1]}, at);
    else if (event.kind == span_kind::apply)
      applies_.emplace(span_key{event.role, event.args[0]}, at);
    else if (event.kind == span_kind::sum && event.role < tree_.size())
      sums_.emplace(span_key{event.role, event.args[0]}, at);
    else if (event.kind == span_kind::compute)
      steps_.emplace(span_key{event.role, event.args[1]}, at);
  }

  /// To the holder that takes this worker's pushes: this shard, or the aggregator that sums them for this version.
  void follow(const span_key& push, const span_key& where, const span_place& made) {
    const auto sent = pushes_.find(push);
    if (sent == pushes_.end())
      return;
    for (const auto& holder : tree_)
      if (!protocols::takes(holder, protocols::worker_id{push.first}))
        continue;
      else if (holder.is_shard && holder.self.value == where.first)
        add("gradient", sent->second, made);
      else if (!holder.is_shard && where.first == 0)
        draw("gradient", sent->second, sums_, {holder.self.value, where.second});
  }

  void draw(std::string_view name, const span_place& from, const places& among, const span_key& key) {
    if (const auto to = among.find(key); to != among.end())
      add(name, from, to->second);
  }
  void add(std::string_view name, const span_place& from, const span_place& to) {
    out_.push_back({name, out_.size() + 1, from, to});
  }

  std::vector<protocols::holder_place> tree_;
  places pushes_, applies_, sums_, steps_;
  std::vector<flow> out_;
};

} // namespace

std::vector<flow> flows_of(const job& job, const std::vector<node_trace>& nodes) {
  return arrows{job, nodes}.draw();
}

} // namespace troupe::actors
