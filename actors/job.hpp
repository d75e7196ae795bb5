// SPDX-License-Identifier: BSD-3-Clause
// A job as every node sees it: a job file with every value resolved.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/form.hpp"
#include "protocols/emulate/inject.hpp"
#include "protocols/message.hpp"
#include "protocols/place.hpp"
#include "protocols/spec.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/layout.hpp"
#include "tensor/model.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// Of a chunk of a sum: it is read where it was received, so it should come in one piece.
inline constexpr std::int64_t chunk_partition_bytes = 16 << 20;

struct compute_spec {
  std::string device = "cpu"; ///< "cpu" | "cuda" | "cuda:N"
  int threads = 1;            ///< per compute actor
  std::string precision = "fp32";
  std::string shard_device = "cpu";
  std::string recompute = "none"; ///< "none" | "blocks": plan::options::recompute
  bool recomputes() const { return recompute == "blocks"; }
};

/// How tensors go over lanes. No bit of a result depends on it, but for an allreduce: by ring, halving or tree the order of a sum
/// depends on how it is cut, and by `direct` with a codec, of which elements a worker sums its own terms, which lose nothing.
struct exchange_spec {
  std::int64_t partition_kib = 1024; ///< the unit of sending; 0: tried out while the job runs, from `first_kib` on
  std::string order = "layers";      ///< which goes first of what waits in a lane: "layers" | "ready": what came first
  bool overlap = true; ///< gradients leave, or are summed, during backward; forward begins with the first parameters
  static constexpr std::uint32_t first_kib = 1024;
  bool tries_sizes() const { return partition_kib == 0; }
  /// `kib`: plan::partition_kib.
  std::int64_t partition_bytes(std::uint32_t kib = 0) const {
    const std::int64_t own = tries_sizes() ? first_kib : partition_kib;
    return (kib > 0 ? kib : own) << 10;
  }
};

enum class placement : std::uint8_t {
  separate,  ///< node 0 holds coordinator and shards, the others share the workers
  colocated, ///< every node holds its share of the shards and of the workers
};

struct cluster_spec {
  std::uint32_t nodes = 1;       ///< processes, this one counted
  std::uint32_t workers = 1;     ///< with which the job begins
  std::uint32_t max_workers = 0; ///< up to which nodes that join later bring more; 0: they bring none
  std::uint32_t shards = 1;
  std::uint32_t replicas = 1; ///< of each shard, itself among them, on nodes apart
  placement where = placement::separate;
  std::vector<std::uint32_t> blocks = {}; ///< tree_shape::blocks, once the job is placed, if it goes by them
  double progress_s = 0; ///< how long a round or an evaluation may take before whoever it waits for is given up; 0: as they took
  bool may_span_nodes() const { return nodes > 1 || max_workers > workers; }
  std::uint32_t seats() const { return std::max(workers, max_workers); }
};

/// A field that is 0 does not apply; if both are: once an epoch of the data.
struct evaluate_spec {
  std::uint64_t every_samples = 0;
  double every_s = 0;
  std::int64_t train_samples = 5000; ///< training samples used for train_loss
};

/// `[checkpoint]`, and where `run --resume` begins. Of the intervals one may be set; neither: at the end only.
struct checkpoint_spec {
  std::string dir{}; ///< absolute; every node that holds shards writes there; empty: no checkpoints
  std::uint64_t every_steps = 0;
  double every_s = 0;
  std::uint32_t keep = 3; ///< newest ones of this run
  std::string resume{};   ///< absolute, "DIR/step-N"; empty: the job begins at step 0
  bool enabled() const { return !dir.empty(); }
};

/// `[codec]`: what tensors become where they travel.
struct codec_spec {
  /// "none", "fp16", "bf16", "int8", "int4", "onebit", some elements alone: "topk", "dgc", "threshold", or "factors".
  std::string push = "none";
  bool error_feedback = false;
  std::string params = "none";    ///< likewise, of what shards send; "changed": the elements that are not as they were
  double density = 0.001;         ///< of topk and dgc: the share of elements that is sent
  std::uint32_t warmup_steps = 0; ///< versions at each of the larger densities before
  double budget_mbit = 0;         ///< of topk, instead: so many 10^6 bits a second of each worker; 0: none
  double threshold = 0;
  double clip = 0; ///< of dgc: the norm of a gradient, over the square root of the number of workers; 0: any

  kernels::form form() const { return form_of(push); }
  bool encodes_pushes() const { return form() != kernels::form::fp32; }
  kernels::form params_form() const { return form_of(params); }
  bool encodes_params() const { return params_form() != kernels::form::fp32; }
  /// So much that without error feedback it would be lost for good.
  bool loses_much() const { return form() >= kernels::form::int4 && !factors(); }
  /// What backward multiplies for the gradient of a matrix travels, and who sums multiplies.
  bool factors() const { return form() == kernels::form::factors; }
  /// dgc: workers keep the momentum, and shards have none.
  bool corrects_momentum() const { return push == "dgc"; }
  /// Of a push against this version: 0.25, 0.0625, 0.015625 and 0.004 come first (Lin et al. 2018), as far as they are larger.
  double density_at(std::uint64_t version) const {
    constexpr std::array before{0.25, 0.0625, 0.015625, 0.004};
    const std::uint64_t stage = warmup_steps > 0 ? version / warmup_steps : before.size();
    return stage < before.size() ? std::max(before[stage], density) : density;
  }
  /// The share of a push's elements that is sent; all at most where that depends on them, or on time.
  double pushed_share(std::uint64_t version) const {
    return form() == kernels::form::sparse_bf16 && !has_budget() ? density_at(version) : 1;
  }
  bool has_budget() const { return budget_mbit > 0; }
  /// Shards begin at multiples of so many floats, so that their number changes no block.
  std::int64_t cut_unit() const {
    return std::max({flat_alignment, kernels::block_of(form()), kernels::block_of(params_form())});
  }

private:
  static kernels::form form_of(std::string_view name) {
    if (name == "topk" || name == "dgc")
      return kernels::form::sparse_bf16;
    if (name == "threshold")
      return kernels::form::sparse_sign;
    if (name == "changed")
      return kernels::form::sparse_fp32;
    return kernels::form_named(name).value_or(kernels::form::fp32);
  }
};

/// `model.init`: every parameter starts at zero.
inline constexpr const char* init_zeros = "zeros";

/// A model or data source that the program has added (extensions.hpp), with all its parameters. No name: none.
struct own_spec {
  std::string name{};
  std::map<std::string, protocols::spec_value> parameters{};
  friend bool operator==(const own_spec&, const own_spec&) = default;
};

struct job {
  std::string name = "job";
  std::uint64_t seed = 1;
  data_spec data;
  own_spec own_data;
  model_spec model;
  own_spec own_model;
  std::string init; ///< safetensors to start from, or init_zeros; empty: random
  optimizer_spec optimizer;
  compute_spec compute;
  protocols::protocol_spec protocol;
  cluster_spec cluster;
  exchange_spec exchange;
  codec_spec codec;
  evaluate_spec evaluate;
  protocols::stop_spec stop;
  checkpoint_spec checkpoint;
  protocols::inject_spec inject;

  /// dgc leaves the momentum to workers.
  optimizer_spec shard_optimizer() const {
    auto out = optimizer;
    if (codec.corrects_momentum())
      out.momentum = 0;
    return out;
  }
  /// The share of the parameters that a version changes, if pushes choose their elements by chance. A momentum moves them on.
  double changed_share(std::uint64_t version) const {
    if (shard_optimizer().momentum > 0 || optimizer.weight_decay > 0)
      return 1;
    return 1 - std::pow(1 - codec.pushed_share(version), static_cast<double>(cluster.workers));
  }
  /// Into how many partitions a gradient of so many floats is cut that workers sum among themselves. With factors, into none: a
  /// part of a layer has none. `kib`: plan::partition_kib.
  std::uint32_t partitions_of_sum(std::int64_t floats, std::uint32_t kib = 0) const {
    constexpr std::int64_t most = protocols::segment_range::most_parts;
    const auto each = exchange.partition_bytes(kib) / std::int64_t{sizeof(float)};
    return codec.factors() ? 1 : static_cast<std::uint32_t>(std::clamp((floats + each - 1) / each, std::int64_t{1}, most));
  }
  /// All that its holders' places follow from.
  protocols::tree_shape shape() const {
    return {cluster.workers, cluster.shards, protocol.fan_in, cluster.replicas, false, cluster.blocks};
  }
};

} // namespace troupe::actors
