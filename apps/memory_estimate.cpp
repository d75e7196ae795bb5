// SPDX-License-Identifier: BSD-3-Clause
// How much memory a job's roles take, from its shapes alone, and whether the devices have it.
#include "apps/memory_estimate.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/roles/codec/push_encoder.hpp"
#include "apps/report.hpp"
#include "kernels/form.hpp"
#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"

namespace troupe::apps {

namespace {

constexpr double megabyte = 1e6;
/// The program, CAF, BLAS and their buffers (measured on a process of a job with small tensors).
constexpr double process_bytes = 38 * megabyte;
/// A GPU's context with its libraries' modules, per process, and cuBLAS's scratch memory, per queue. Generous guesses, until they
/// are measured on a device.
constexpr double context_bytes = 700 * megabyte, queue_bytes = 64 * megabyte;

double optimizer_states(const optimizer_spec& spec) {
  return spec.name == "adamw" ? 2 : spec.momentum > 0 ? 1 : 0;
}

/// The estimate; one method for each kind of role.
class estimator {
public:
  estimator(const actors::job& job, const memory_facts& facts, std::span<const protocols::protocol> added)
      : job_(job), facts_(facts),
        tree_(
            protocols::holder_tree({job.cluster.workers, job.cluster.shards, job.protocol.fan_in, 1, false, job.cluster.blocks})),
        p_(facts.parameters), states_(optimizer_states(job.shard_optimizer())) {
    if (const auto protocol = protocols::find_protocol(job.protocol.name, added)) {
      decentralized_ = protocol->decentralized;
      reduces_ = static_cast<bool>(protocol->reduces);
      if (reduces_) { // but for those of a node, who share an address space
        const auto sum = protocol->reduces(job.protocol, job.cluster.workers, {}, static_cast<std::uint64_t>(p_));
        for (const auto size : sum.among.groups)
          terms_ = std::max(terms_, static_cast<double>(size));
        terms_ /= sum.fragments;
      }
      sums_ = job.optimizer.clip_norm > 0 && protocol->sums_gradients(job.protocol);
      if (protocol->keeps)
        keeps_ = protocol->keeps(job.protocol);
    }
  }

  std::vector<role_memory> run() {
    workers();
    shards();
    aggregators();
    evaluator();
    processes();
    return std::move(roles_);
  }

private:
  static bool on_host(const std::string& device) { return device == "cpu"; }
  /// Whether all roles share one address space, so that tensors are shared and not sent.
  bool one_process() const {
    return job_.cluster.nodes == 1 && on_host(job_.compute.device) && on_host(job_.compute.shard_device);
  }

  void optimizer_of(role_memory& role, double part) {
    if (states_ > 0)
      role.items.push_back({"optimizer", states_ * part});
    if (facts_.matrix > 0)
      role.items.push_back({"gradient of a matrix", facts_.matrix});
  }

  /// A push as it travels.
  double encoded(kernels::form form) const {
    const double share = form == kernels::form::sparse_fp32 ? job_.changed_share(0) : job_.codec.pushed_share(0);
    return kernels::expected_bytes(form, {0, static_cast<std::int64_t>(p_ / element_bytes)}, share);
  }

  void workers() {
    role_memory w{"worker", job_.cluster.workers, job_.compute.device};
    const bool host = on_host(w.device);
    if (job_.cluster.replicas > 1)
      w.items.push_back({"the newest push", p_});
    const double batches = (keeps_.parts > 1 ? keeps_.parts : 2) * static_cast<double>(job_.data.batch) * facts_.sample;
    w.items.push_back({"activations", facts_.activations});
    // In one process the shard may still read the last one while the next is computed.
    w.items.push_back({"gradients", (keeps_.parts > 1 || one_process() ? 2 : 1) * p_});
    // Those in use and those coming in; with a single shard in the same process both are the shard's own.
    if (reduces_ || !(one_process() && job_.cluster.shards == 1))
      w.items.push_back({"parameters", 2 * p_});
    if (reduces_) {
      if (!keeps_.replica) {
        optimizer_of(w, p_);
        if (states_ > 0 && job_.partitions_of_sum(static_cast<std::int64_t>(p_ / element_bytes)) > 1)
          w.items.push_back({"optimizer before a step that is not whole", states_ * p_});
      } else if (keeps_.outer_momentum)
        w.items.push_back({"outer optimizer", p_});
      w.items.push_back({"parts of sums", terms_ * p_}); // of this round, and of a peer's next
    }
    if (keeps_.replica) {
      w.items.push_back({"replica", p_});
      w.items.push_back({keeps_.pushed_replica ? "replica at the last push" : "change of the replica", p_});
      if (keeps_.velocity)
        w.items.push_back({"velocity, and the point ahead of the replica", 2 * p_});
      else
        optimizer_of(w, p_);
    }
    if (job_.codec.encodes_pushes()) {
      const double codes = job_.codec.factors() ? facts_.products : encoded(job_.codec.form());
      w.items.push_back({"codes of a push", codes, host});
      if (job_.codec.factors())
        w.items.push_back({"factors of gradients", 2 * facts_.factors}); // of a push, and of the next step
      if (job_.codec.error_feedback)
        w.items.push_back({"what codes lost", (reduces_ ? 4 : 2) * p_, host}); // of terms and sums; and before the last push
      if (job_.codec.corrects_momentum())
        w.items.push_back({"velocity that codes are chosen by", 2 * p_, host});
    }
    if (job_.codec.encodes_params())
      w.items.push_back({"image of the parameters", p_, host});
    if (keeps_.dual)
      w.items.push_back({"dual variable", 2 * p_}); // the old one is read while the new one is written
    if (decentralized_ && !reduces_)
      w.items.push_back({"replicas of peers", 2 * p_});
    w.items.push_back({"batches", batches, host});
    if (!host) {
      w.items.push_back({"batches", batches});
      w.items.push_back({"parameters and gradients under way", 3 * p_, false});
      w.items.push_back({"library scratch", queue_bytes});
      if (job_.compute.precision == "bf16") // both sets of parameters and, at most, every activation
        w.items.push_back({"operands in bfloat16", p_ + facts_.activations / 2});
    }
    roles_.push_back(std::move(w));
  }

  void shards() {
    role_memory s{"shard", job_.cluster.shards * job_.cluster.replicas, job_.compute.shard_device};
    const bool host = on_host(s.device);
    const double part = p_ / job_.cluster.shards, n = job_.cluster.workers;
    s.items.push_back({"parameters", 2 * part}); // the newest version and the one that is being made
    if (job_.cluster.replicas > 1 || sums_)
      s.items.push_back({"sum of a round", part});
    if (job_.codec.encodes_params())
      s.items.push_back(
          {"image that workers have, and its code", part + encoded(job_.codec.params_form()) / job_.cluster.shards});
    double copied = part; // beside what a checkpoint has of the version, the next one
    if (!keeps_.replica && !reduces_) {
      optimizer_of(s, part);
      copied += states_ * part;
    }
    if (keeps_.outer_momentum && !reduces_) {
      s.items.push_back({"outer optimizer", part});
      copied += part;
    }
    if (job_.checkpoint.enabled() && !decentralized_)
      s.items.push_back({"copies for a checkpoint", copied, host});
    const auto first = tree_.front();
    const auto pushes = static_cast<double>(first.children.size() + first.workers.size());
    if ((!one_process() || job_.codec.encodes_pushes()) && !decentralized_) {
      s.items.push_back({"pushes of workers", pushes * part});
      if (!host)
        s.items.push_back({"pushes under way", pushes * part, false});
    }
    if (keeps_.backups) {
      s.items.push_back({"versions that workers compute with", n * part});
      s.items.push_back({"delay compensation", 2 * part});
    }
    if (!host)
      s.items.push_back({"library scratch", queue_bytes});
    roles_.push_back(std::move(s));
  }

  void aggregators() {
    std::size_t count = 0, pushes = 0;
    for (const auto& place : tree_)
      if (!place.is_shard && !protocols::is_vacant(place)) {
        ++count;
        pushes = std::max(pushes, place.workers.size() + place.children.size());
      }
    if (count == 0)
      return;
    role_memory a{"aggregator", static_cast<std::uint32_t>(count), job_.compute.shard_device};
    a.items.push_back({"sum", p_});
    if (!one_process() || job_.codec.encodes_pushes())
      a.items.push_back({"pushes of children", static_cast<double>(pushes) * p_});
    roles_.push_back(std::move(a));
  }

  void evaluator() {
    role_memory e{"evaluator", 1, "cpu"};
    e.items.push_back({"activations", facts_.evaluation});
    e.items.push_back({"batch", static_cast<double>(job_.data.piece_rows()) * facts_.sample});
    if (job_.stop.patience > 0)
      e.items.push_back({"parameters of the lowest loss", p_});
    if (decentralized_)
      e.items.push_back({"replicas of workers", (1.0 + (reduces_ ? 1 : job_.cluster.workers)) * p_});
    else if (!(one_process() && job_.cluster.shards == 1))
      e.items.push_back({"parameters", p_});
    roles_.push_back(std::move(e));
  }

  void processes() {
    role_memory host{"node", job_.cluster.nodes, "cpu"};
    host.items.push_back({"program", process_bytes});
    host.items.push_back({"data set", facts_.data});
    roles_.push_back(std::move(host));
    // Node 0 has a worker only if all nodes have.
    const bool apart = job_.cluster.nodes > 1 && job_.cluster.where == actors::placement::separate;
    std::map<std::string, std::uint32_t> openers;
    if (!on_host(job_.compute.device))
      openers[job_.compute.device] += std::min(job_.cluster.workers, apart ? job_.cluster.nodes - 1 : job_.cluster.nodes);
    if (!on_host(job_.compute.shard_device) && (apart || !openers.contains(job_.compute.shard_device)))
      openers[job_.compute.shard_device] += apart ? 1 : std::min(job_.cluster.shards, job_.cluster.nodes);
    for (const auto& [device, count] : openers)
      roles_.push_back({"node", count, device, {{"context and libraries", context_bytes}}});
  }

  const actors::job& job_;
  const memory_facts& facts_;
  const std::vector<protocols::holder_place> tree_;
  const double p_, states_;
  protocols::footprint keeps_{};
  bool decentralized_ = false, reduces_ = false;
  double terms_ = 2;  ///< of a sum, that wait at a worker
  bool sums_ = false; ///< a round's pushes, before they are applied
  std::vector<role_memory> roles_;
};

double sum_of(const std::vector<memory_item>& items, bool on_device) {
  double bytes = 0;
  for (const memory_item& i : items)
    if (i.on_device == on_device)
      bytes += i.bytes;
  return bytes;
}

/// "cuda" is the first GPU that can be used.
std::string device_named(const std::string& name, const std::vector<kernels::device_info>& devices) {
  if (name == "cuda")
    for (const kernels::device_info& d : devices)
      if (d.usable && d.name.starts_with("cuda"))
        return d.name;
  return name;
}

} // namespace

double role_memory::device_bytes() const {
  return sum_of(items, true);
}
double role_memory::host_bytes() const {
  return sum_of(items, false);
}

namespace {

/// Of one sample in the memory of a data set: floats of tables, bytes of images. Others stay on the disk.
double sample_bytes(const data_spec& data, double elements) {
  if (stays_on_disk(data))
    return 0;
  return data.source == "csv" ? elements * element_bytes : elements;
}

} // namespace

result<memory_facts> find_memory_facts(const actors::job& job, const model& network, std::int64_t samples) {
  constexpr std::int64_t most_rows = 128;
  const auto queue = kernels::open_backend({});
  const auto workspace_at = [&](std::int64_t rows, bool training) -> result<plan_cost> {
    const auto looked_at = std::min(rows, most_rows);
    const auto batch = job.data.batch, piece = job.data.piece_rows();
    const auto last =
        piece == batch ? 0 : std::min(batch % piece == 0 ? piece : batch % piece, looked_at); // another piece, if any
    const auto compiled = plan::compile(
        network, *queue,
        {.max_rows = looked_at + last, .piece_rows = looked_at, .training = training, .recompute = job.compute.recomputes()});
    if (!compiled)
      return compiled.error();
    plan_cost cost = (*compiled)->cost();
    cost.workspace_bytes = cost.workspace_bytes / looked_at * rows;
    return cost;
  };
  auto step = workspace_at(job.data.piece_rows(), true);
  if (!step)
    return step.error();
  const auto evaluation = workspace_at(job.data.piece_rows(), false);
  if (!evaluation)
    return evaluation.error();
  const auto elements = static_cast<double>(network.sample().elements());
  std::int64_t matrix = 0;
  for (const auto& slot : network.layout().slots)
    if (slot.own_rate)
      matrix = std::max(matrix, slot.elements());
  const auto factored = actors::factored_slots_of(job, network);
  const auto parts = cut_into_partitions({0, network.layout().floats()}, job.exchange.partition_bytes(), factored);
  return memory_facts{.parameters = static_cast<double>(network.layout().floats()) * element_bytes,
                      .activations = static_cast<double>(step->workspace_bytes),
                      .evaluation = static_cast<double>(evaluation->workspace_bytes),
                      .matrix = static_cast<double>(matrix) * element_bytes,
                      .factors = static_cast<double>(factor_floats(factored, job.data.batch)) * element_bytes,
                      .products = static_cast<double>(factored_bytes(factored, parts, job.data.batch)),
                      .sample = (elements + static_cast<double>(network.label_shape().elements())) * element_bytes,
                      .data = static_cast<double>(samples) * sample_bytes(job.data, elements),
                      .step = *step};
}

std::vector<role_memory> estimate_memory(const actors::job& job, const memory_facts& facts,
                                         std::span<const protocols::protocol> added) {
  return estimator(job, facts, added).run();
}

std::vector<device_need> compare_with_devices(const std::vector<role_memory>& roles,
                                              const std::vector<kernels::device_info>& devices) {
  std::vector<device_need> needs{{"cpu"}};
  const auto need_of = [&](const std::string& device) -> device_need& {
    const auto found = std::find_if(needs.begin(), needs.end(), [&](const auto& need) { return need.device == device; });
    return found != needs.end() ? *found : needs.emplace_back(device_need{device});
  };
  for (const role_memory& role : roles) {
    need_of("cpu").bytes += role.count * role.host_bytes();
    need_of(device_named(role.device, devices)).bytes += role.count * role.device_bytes();
  }
  for (const kernels::device_info& d : devices)
    for (device_need& need : needs)
      if (need.device == d.name)
        need.free_bytes = static_cast<double>(d.free_bytes);
  return needs;
}

std::string shortage_text(const device_need& need, const std::vector<role_memory>& roles) {
  const bool host = need.device == "cpu";
  std::vector<std::string> parts;
  double of_batches = 0;
  std::uint32_t workers = 0;
  for (const role_memory& role : roles) {
    const bool there = role.device == need.device || (role.device == "cuda" && need.device.starts_with("cuda"));
    std::vector<std::string> items;
    double bytes = 0;
    for (const memory_item& i : role.items) {
      if (!(there && i.on_device) && !(host && !i.on_device))
        continue;
      bytes += i.bytes;
      items.push_back(fmt::format("{} {}", i.name, bytes_text(i.bytes)));
      if (i.name == "activations" || i.name == "batches")
        of_batches += role.role == "worker" ? role.count * i.bytes : 0;
    }
    if (bytes == 0)
      continue;
    workers += role.role == "worker" ? role.count : 0;
    parts.push_back(fmt::format("{} of {}{} ({})", counted(role.count, role.role), bytes_text(bytes),
                                role.count > 1 ? " each" : "", fmt::join(items, ", ")));
  }
  std::vector<std::string> help;
  if (of_batches > need.bytes / 10)
    help.emplace_back("a smaller data.batch or data.micro_batch");
  if (workers > 1)
    help.emplace_back(host ? "fewer cluster.workers" : "fewer workers a device (cluster.workers)");
  help.emplace_back("a smaller model");
  return fmt::format(
      "{} has {} free and the job needs about {}: {}; what would help: {}{}", host ? "this machine" : need.device,
      bytes_text(need.free_bytes), bytes_text(need.bytes), fmt::join(parts, "; "), fmt::join(help, ", "),
      host ? ""
           : " (compute.precision = \"bf16\" would not: everything is stored as float32, and operands in bfloat16 beside it)");
}

} // namespace troupe::apps
