// SPDX-License-Identifier: BSD-3-Clause
// The formulas: who sends what to whom in a round.
#include "apps/traffic_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "actors/node/place_roles.hpp"
#include "kernels/assert.hpp"
#include "kernels/form.hpp"
#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"
#include "protocols/wire/codec.hpp"
#include "tensor/layout.hpp"

namespace troupe::apps {

namespace {

namespace wire = protocols::wire;

/// Of a frame with this head, without its payload.
double head_bytes(const wire::message& head) {
  const std::vector<std::uint64_t> payload(wire::payload_bytes(head) / sizeof(std::uint64_t));
  const auto frame = wire::encode(head, std::as_bytes(std::span(payload)));
  TROUPE_ASSERT(frame);
  return static_cast<double>(frame->head_bytes().size());
}

/// One round, message by message.
class round_of {
public:
  round_of(const actors::job& job, std::int64_t floats, std::span<const protocols::protocol> added,
           const factored_slots& factored)
      : job_(job), factored_(factored), places_(actors::place_roles(job, std::vector<actors::member_node>(job.cluster.nodes))),
        shards_(cut_into_shards(floats, static_cast<int>(job.cluster.shards), job.codec.cut_unit())), whole_{0, floats} {
    if (const auto runs = protocols::find_protocol(job.protocol.name, added)) {
      decentralized_ = runs->decentralized;
      per_push_ = runs->per_push;
      reduces_ = runs->reduces;
      partitions_ = actors::sum_partitions(job, *runs, whole_.size());
      blocks_ = actors::worker_blocks(job, *runs, places_);
    }
    for (std::uint32_t i = 0; i < job.cluster.nodes; ++i)
      out_.nodes.push_back({fmt::format("node-{}", i)});
  }

  traffic_estimate run() {
    if (decentralized_) {
      reduces_ ? chunks() : replicas();
      for (std::uint32_t shard = 0; shard < job_.cluster.shards; ++shard)
        parameters(shard, [this](std::uint32_t from, std::uint32_t to, double bytes) { out_.start += from != to ? bytes : 0; });
      return out_;
    }
    auto shape = job_.shape();
    shape.blocks = blocks_;
    const auto tree = protocols::holder_tree(shape);
    for (const protocols::holder_place& place : tree) {
      if (protocols::is_vacant(place))
        continue;
      if (place.backup_of)
        count(out_.round.push, node_of(*place.backup_of), node_of(place.self),
              sum_of(range_of(*place.backup_of), places_.workers.size()));
      for (const auto worker : place.backup_of ? std::set<protocols::worker_id>{} : place.workers)
        count(out_.round.push, places_.workers[worker.value].node, node_of(place.self), push_of(range_of(place.self)));
      for (const auto child : place.backup_of ? std::vector<protocols::holder_id>{} : place.children)
        count(out_.round.push, node_of(child), node_of(place.self),
              sum_of(range_of(place.self), protocols::workers_below(tree, child).size()));
    }
    for (std::uint32_t shard = 0; shard < job_.cluster.shards; ++shard) {
      out_.start += whole_once(shard);
      parameters(shard,
                 [this](std::uint32_t from, std::uint32_t to, double bytes) { count(out_.round.params, from, to, bytes); });
      if (node_of({shard}) != places_.evaluator)
        out_.evaluation += parameters_of(shards_[shard], 1);
    }
    return out_;
  }

private:
  static double bytes_of(flat_range range) { return static_cast<double>(range.size()) * sizeof(float); }
  static double frames_of(flat_range range, std::int64_t partition) {
    return static_cast<double>(cut_into_partitions(range, partition).size());
  }
  double frames_of(flat_range range) const { return frames_of(range, job_.exchange.partition_bytes()); }
  static constexpr wire::range some{0, 16};
  static constexpr auto past_warmup = std::numeric_limits<std::uint64_t>::max(); ///< a version

  double push_of(flat_range range) const {
    if (job_.codec.factors())
      return head_bytes(wire::push_end{}) + products(range, job_.exchange.partition_bytes(), wire::push_part{{}, {}, {}, some});
    const auto form = job_.codec.form();
    return head_bytes(wire::push_end{}) + encoded(range, form, share_)
           + frames_of(range) * head_bytes(part_of(wire::push_part{{}, {}, {}, some}, form));
  }
  /// The parts of a whole batch's gradient where factors travel.
  template <class Head>
  double products(flat_range range, std::int64_t partition_bytes, const Head& head) const {
    const auto parts = cut_into_partitions(range, partition_bytes, factored_);
    auto out = static_cast<double>(factored_bytes(factored_, parts, job_.data.batch));
    for (const auto part : parts) {
      const auto* slot = slot_of(factored_, part);
      const bool pays = slot != nullptr && slot->pays(part, job_.data.batch);
      out += head_bytes(part_of(head, pays ? kernels::form::factors : kernels::form::fp32));
    }
    return out;
  }
  /// Of so many workers' pushes.
  double sum_of(flat_range range, std::size_t pushes) const {
    const auto form = kernels::is_sparse(job_.codec.form()) ? kernels::form::sparse_fp32 : kernels::form::fp32;
    return encoded(range, form, share_of(pushes))
           + frames_of(range) * head_bytes(part_of(wire::partial_part{{}, {}, {}, some}, form));
  }
  /// The elements that are in one of so many pushes at least, if each chooses its own by chance.
  double share_of(std::size_t pushes) const { return 1 - std::pow(1 - share_, static_cast<double>(pushes)); }
  double encoded(flat_range range, kernels::form form, double share) const {
    double out = 0;
    for (const auto part : cut_into_partitions(range, job_.exchange.partition_bytes()))
      out += kernels::expected_bytes(form, {part.begin, part.size()}, share);
    return out;
  }
  template <class Part>
  static Part part_of(Part head, kernels::form form) {
    head.as = form;
    head.bytes = kernels::says_bytes(form) ? 8 : 0;
    return head;
  }
  double parameters_of(flat_range range, std::size_t workers, kernels::form form = kernels::form::fp32) const {
    const auto head = part_of(wire::params_part{std::vector<protocols::worker_id>(workers), {}, {}, some}, form);
    return frames_of(range) * head_bytes(head) + encoded(range, form, job_.changed_share(past_warmup));
  }
  double chunk_of(flat_range range, kernels::form form) const {
    const wire::peer_part head{{}, {.is = protocols::peer_message::kind::chunk}, some, form};
    if (form == kernels::form::factors)
      return products(range, actors::chunk_partition_bytes, head);
    return encoded(range, form, 1) + std::max(frames_of(range, actors::chunk_partition_bytes), 1.0) * head_bytes(head);
  }
  double replica() const { return bytes_of(whole_) + frames_of(whole_) * head_bytes(wire::peer_part{{}, {}, some}); }

  flat_range range_of(protocols::holder_id holder) const {
    return holder.value < shards_.size() ? shards_[holder.value] : whole_;
  }
  std::uint32_t node_of(protocols::holder_id holder) const { return places_.holders[holder.value].node; }

  void count(double& in, std::uint32_t from, std::uint32_t to, double bytes) {
    if (from == to)
      return;
    in += bytes;
    out_.nodes[from].sends += bytes;
    out_.nodes[to].receives += bytes;
  }

  /// From one shard: once to each node, or where each push is answered alone, to each worker.
  template <class Send>
  void parameters(std::uint32_t shard, Send send) const {
    std::map<std::uint32_t, std::size_t> workers;
    for (const auto& worker : places_.workers)
      ++workers[worker.node];
    for (const auto& [node, here] : workers)
      for (std::size_t i = per_push_ ? here : 1; i > 0; --i)
        send(node_of({shard}), node, parameters_of(shards_[shard], per_push_ ? 1 : here, job_.codec.params_form()));
  }

  /// By how much the first sending of a shard, of all its parameters, is larger than those that build on it.
  double whole_once(std::uint32_t shard) const {
    double out = 0;
    if (job_.codec.encodes_params())
      parameters(shard, [&](std::uint32_t from, std::uint32_t to, double bytes) {
        const auto here = std::ranges::count(places_.workers, to, &actors::role_place::node);
        out += from != to ? parameters_of(shards_[shard], static_cast<std::size_t>(here)) - bytes : 0;
      });
    return out;
  }

  /// Each worker to its peers, any other worker as likely as the next.
  void replicas() {
    const auto& workers = places_.workers;
    const auto peers = job_.protocol.parameters.find("peers");
    const auto* given = peers == job_.protocol.parameters.end() ? nullptr : std::get_if<std::int64_t>(&peers->second);
    const auto others = static_cast<double>(workers.size() - 1);
    const double each = others > 0 ? std::min(static_cast<double>(given != nullptr ? *given : 1), others) / others : 0;
    for (const auto& from : workers)
      for (const auto& to : workers)
        count(out_.round.peers, from.node, to.node, each * replica());
    for (const auto& worker : workers)
      out_.evaluation += worker.node != places_.evaluator ? replica() : 0;
  }

  /// Each worker's part in a sum, and its word to the lead that it has made the step. One replica is enough to evaluate.
  void chunks() {
    using namespace protocols::collective;
    const auto& workers = places_.workers;
    const auto ranks = static_cast<std::uint32_t>(workers.size());
    const auto sum = reduces_(job_.protocol, ranks, blocks_, static_cast<std::uint64_t>(bytes_of(whole_)));
    const auto of = segments(sum.by, sum.among);
    const auto cuts = cut_into_shards(whole_.size(), static_cast<int>(of * sum.fragments * partitions_), job_.codec.cut_unit());
    const auto form_at = [&](std::uint32_t stage) {
      return cargo_of(sum.by, sum.among, stage) == cargo::plain ? kernels::form::fp32 : job_.codec.form();
    };
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (const step& each : schedule(sum.by, sum.among, rank))
        if (each.does == step::kind::send)
          for (std::uint32_t first = 0; first < cuts.size(); first += of) // each partition; each fragment's turn comes as often
            count(out_.round.peers, workers[rank].node, workers[each.peer].node,
                  chunk_of({cuts[first + each.first].begin, cuts[first + each.last - 1].end}, form_at(each.stage))
                      / sum.fragments);
      count(out_.round.push, workers[rank].node, node_of({0}), head_bytes(wire::push_end{}));
    }
    out_.evaluation = workers.front().node != places_.evaluator ? replica() : 0;
  }

  const actors::job& job_;
  const factored_slots& factored_;
  const actors::job_places places_;
  const std::vector<flat_range> shards_;
  const flat_range whole_;
  bool decentralized_ = false, per_push_ = false;
  const double share_ = job_.codec.pushed_share(past_warmup);
  decltype(protocols::protocol::reduces) reduces_{};
  std::uint32_t partitions_ = 1; ///< of a sum among workers
  std::vector<std::uint32_t> blocks_{};
  traffic_estimate out_;
};

} // namespace

traffic_estimate estimate_traffic(const actors::job& job, std::int64_t floats, std::span<const protocols::protocol> added,
                                  const factored_slots& factored) {
  return round_of(job, floats, added, factored).run();
}

std::optional<round_bound> bound_round(const actors::job& job, const traffic_estimate& network, double step_ms,
                                       std::span<const protocols::protocol> added) {
  const auto runs = protocols::find_protocol(job.protocol.name, added);
  if (!runs || network.nodes.size() < 2 || step_ms <= 0 || job.inject.link.mbit <= 0)
    return std::nullopt;
  const double steps = runs->period_of(job.protocol) * (runs->keeps ? runs->keeps(job.protocol).parts : 1);
  double most = 0;
  for (const auto& each : network.nodes)
    most = std::max({most, each.sends, each.receives});
  return round_bound{steps * step_ms, most * 8 / 1000 / job.inject.link.mbit};
}

std::optional<lighter_traffic> lighten(const actors::job& job, std::int64_t floats, std::span<const protocols::protocol> added,
                                       const factored_slots& factored) {
  const auto runs = protocols::find_protocol(job.protocol.name, added);
  if (!runs || !runs->takes_fan_in || job.cluster.max_workers > job.cluster.workers)
    return std::nullopt;
  auto lighter = job;
  lighter.protocol.fan_in = protocols::fan_in_of_nodes;
  const double now = estimate_traffic(job, floats, added, factored).round.all();
  const double then = estimate_traffic(lighter, floats, added, factored).round.all();
  if (then > 0.99 * now)
    return std::nullopt;
  return lighter_traffic{"protocol.fan_in", "node", then};
}

} // namespace troupe::apps
