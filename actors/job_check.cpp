// SPDX-License-Identifier: BSD-3-Clause
// Whether a job can be run: every layer validates its part.
#include "actors/job_check.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/catalog.hpp"
#include "protocols/wire/codec.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

namespace {

/// A layer's sentence begins with its key.
std::string key_of(const std::string& section, const std::string& sentence) {
  return section + "." + sentence.substr(0, sentence.find(' '));
}

/// The protocols that can, for messages: "sync, backup".
template <class Predicate>
std::string names_of_those(const extensions& added, Predicate can) {
  std::vector<std::string> names;
  for (const auto& each : protocols::catalog(added.protocols))
    if (can(each))
      names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Why the job's protocol cannot have the checkpoints that it asks for; empty: it can, or asks for none.
std::string no_checkpoints(const job& job, const extensions& added) {
  const auto entry = protocols::find_protocol(job.protocol.name, added.protocols);
  if (!job.checkpoint.enabled() || !entry || entry->resumable)
    return "";
  return fmt::format("checkpoint.dir does not go with protocol.name = \"{}\", which keeps state that no checkpoint holds; leave "
                     "[checkpoint] out, or name one of {}",
                     entry->name, names_of_those(added, [](const auto& each) { return each.resumable; }));
}

/// Likewise for the backups of its shards.
std::string no_backups(const job& job, const extensions& added) {
  if (job.cluster.replicas <= 1)
    return "";
  const auto has = [](const protocols::protocol& each) { return each.may_have_backups(); };
  const auto planned = protocols::planned_protocols(job.protocol, added.protocols);
  const auto lacks = std::ranges::find_if_not(planned, has);
  if (lacks == planned.end())
    return "";
  return fmt::format("cluster.replicas does not go with protocol.name = \"{}\"{}, whose versions are not sums of rounds that a "
                     "backup could make again; leave it out, or name one of {}",
                     job.protocol.name, lacks->name == job.protocol.name ? "" : " and its " + lacks->name,
                     names_of_those(added, has));
}

/// Why its optimizer cannot have a rate of each matrix.
std::string no_local_rates(const job& job, const extensions& added) {
  if (job.optimizer.name != "lars")
    return "";
  if (job.cluster.shards > 1)
    return fmt::format("optimizer.name = \"lars\" goes by the norms of whole matrices, and cluster.shards = {} cuts them; write "
                       "cluster.shards = 1",
                       job.cluster.shards);
  for (const auto& each : protocols::planned_protocols(job.protocol, added.protocols))
    if (each.keeps && each.keeps(job.protocol).velocity)
      return fmt::format("optimizer.name = \"lars\" does not go with the momentum of protocol.name = \"{}\", which takes the "
                         "place of the optimizer's; write protocol.momentum = 0 and optimizer.momentum",
                         each.name);
  return "";
}

/// How its workers sum among themselves once there are as many as there may be.
auto sum_of_all(const job& job, const protocols::protocol& runs) {
  return runs.reduces(job.protocol, job.cluster.seats(), {}, 0);
}

/// Why what workers sum among themselves cannot be encoded as the job says; empty: it can.
std::string no_codec_of_sums(const job& job, const protocols::protocol& runs) {
  using namespace protocols::collective;
  const codec_spec& codec = job.codec;
  const auto sum = sum_of_all(job, runs);
  if (kernels::is_sparse(codec.form()))
    return "sums every element among its workers; name fp16, bf16, int8, int4 or onebit, or leave it out";
  if (codec.factors() && sum.by != algorithm::broadcast)
    return "sends sums; write protocol.algorithm = \"broadcast\", by which terms go to all, or leave it out";
  if (codec.factors() && (!sum.among.groups.empty() || (runs.asks_for_nodes && runs.asks_for_nodes(job.protocol))))
    return "sums a node's workers first, and a sum has no two factors; write protocol.group = 1, or leave it out";
  if (!sums_terms(sum.by))
    return "adds up in hops and would round at each; write protocol.algorithm = \"direct\", or leave it out";
  return "";
}

/// Why this protocol's pushes cannot be encoded as the job says; empty: they can.
std::string no_codec(const job& job, const protocols::protocol& runs) {
  const codec_spec& codec = job.codec;
  if (runs.decentralized && !runs.reduces)
    return "sends no pushes: its workers send each other whole replicas; leave it out";
  if (codec.factors() && runs.keeps && runs.keeps(job.protocol).replica)
    return "sends what local steps have made, which has no two factors; leave it out";
  if (runs.reduces)
    return no_codec_of_sums(job, runs);
  if (codec.factors() && runs.decodes)
    return "pushes weighted sums of several parts' gradients, which have no two factors; leave it out";
  if (runs.decodes)
    return "adds up pushes with weights that change from round to round, which would enlarge what a codec loses; leave it out";
  if (!runs.pushes_parameters)
    return "";
  if (codec.loses_much())
    return "pushes parameters, of which so few bits lose as much at the end as at the beginning; name fp16, bf16 or int8";
  return "";
}

/// Why elements of gradients cannot travel without the others; with the key. Of a protocol, see no_codec.
std::optional<job_problem> sparse_problem(const job& job, const extensions& added) {
  const codec_spec& codec = job.codec;
  if (codec.push == "threshold" && !(codec.threshold > 0))
    return job_problem{"codec.threshold",
                       "codec.push = \"threshold\" needs codec.threshold, what an element must reach; gradients "
                       "of small models are about 0.001"};
  if (!kernels::is_sparse(codec.form()))
    return {};
  if (job.optimizer.name != "sgd")
    return job_problem{"optimizer.name",
                       fmt::format("optimizer.name = \"{}\" does not go with codec.push = \"{}\", for it takes what is not sent "
                                   "for zero; name sgd, or another codec",
                                   job.optimizer.name, codec.push)};
  if (!codec.corrects_momentum())
    return {};
  const auto wrong = [](const char* key, const std::string& choice, const char* why) {
    return job_problem{key, fmt::format("{} does not go with codec.push = \"dgc\", {}; leave it out, or name topk", choice, why)};
  };
  if (!codec.error_feedback)
    return wrong("codec.error_feedback", "codec.error_feedback = false", "which adds up what is not sent yet");
  if (job.optimizer.nesterov)
    return wrong("optimizer.nesterov", "optimizer.nesterov = true", "whose workers keep the momentum, and do not look ahead");
  if (job.optimizer.weight_decay > 0)
    return wrong("optimizer.weight_decay", "optimizer.weight_decay",
                 "whose shards would decay at every step what workers' momentum does not know of");
  for (const auto& runs : protocols::planned_protocols(job.protocol, added.protocols))
    if (runs.keeps && runs.keeps(job.protocol).replica)
      return wrong("protocol.name", fmt::format("protocol.name = \"{}\"", runs.name),
                   "which adds up gradients in a momentum of its own: local steps have one already");
  return {};
}

/// Why a step has no factors to push.
std::optional<job_problem> factors_problem(const job& job) {
  if (!job.codec.factors())
    return {};
  if (job.compute.device != "cpu")
    return job_problem{"compute.device",
                       fmt::format("compute.device = \"{}\" does not go with codec.push = \"factors\", of which "
                                   "there are copies in host memory alone; leave one of them out",
                                   job.compute.device)};
  if (job.data.piece_rows() < job.data.batch)
    return job_problem{"data.micro_batch", fmt::format("data.micro_batch = {} does not go with codec.push = \"factors\": a "
                                                       "gradient that is added up in pieces has no two; leave one of them out",
                                                       job.data.micro_batch)};
  return {};
}

/// Why pushes cannot be as large as a budget allows.
std::optional<job_problem> budget_problem(const job& job, const extensions& added) {
  if (!job.codec.has_budget())
    return {};
  if (!job.codec.error_feedback)
    return job_problem{"codec.error_feedback",
                       "codec.error_feedback = false does not go with codec.budget_mbit, which sends later "
                       "what it does not send now; leave it out"};
  const auto runs = protocols::find_protocol(job.protocol.name, added.protocols);
  if (!runs)
    return {};
  if (runs->clock_bound && runs->clock_bound(job.protocol) >= 2)
    return {};
  return job_problem{
      "codec.budget_mbit",
      fmt::format("codec.budget_mbit does not go with protocol.name = \"{}\"{}: every element is sent at least once "
                  "in as many pushes as a worker may be ahead; {}, or leave it out",
                  runs->name, runs->clock_bound ? fmt::format(" and its bound of {}", runs->clock_bound(job.protocol)) : "",
                  runs->clock_bound ? "write protocol.bound = 2 or more"
                                    : fmt::format("name {}", names_of_those(added, [](const auto& each) {
                                                    return static_cast<bool>(each.clock_bound);
                                                  })))};
}

/// Why the job's parameters cannot travel as codes of differences: of these there is one image for all workers.
std::optional<job_problem> params_codec_problem(const job& job, const extensions& added) {
  if (!job.codec.encodes_params())
    return {};
  const auto wrong = [&](const std::string& with, const std::string& why) {
    return job_problem{"codec.params", fmt::format("codec.params = \"{}\" does not go with {}, {}; leave one of them out",
                                                   job.codec.params, with, why)};
  };
  for (const auto& runs : protocols::planned_protocols(job.protocol, added.protocols))
    if (runs.per_push || runs.decentralized)
      return wrong(fmt::format("protocol.name = \"{}\"", runs.name),
                   runs.per_push ? "which answers each push alone, so that no two workers have the same parameters"
                                 : "whose workers keep the parameters themselves");
  if (job.compute.shard_device != "cpu")
    return wrong(fmt::format("compute.shard_device = \"{}\"", job.compute.shard_device), "for shards encode in host memory");
  return {};
}

/// Likewise for the whole job, with the key that is wrong.
std::optional<job_problem> codec_problem(const job& job, const extensions& added) {
  if (!job.codec.encodes_pushes())
    return {};
  for (const auto& runs : protocols::planned_protocols(job.protocol, added.protocols)) {
    const auto name = runs.name == job.protocol.name
                          ? fmt::format("protocol.name = \"{}\", which", runs.name)
                          : fmt::format("protocol.name = \"{}\" and its {}, which", job.protocol.name, runs.name);
    if (const std::string why = no_codec(job, runs); !why.empty())
      return job_problem{"codec.push", fmt::format("codec.push = \"{}\" does not go with {} {}", job.codec.push, name, why)};
    if (runs.pushes_parameters && job.codec.error_feedback)
      return job_problem{"codec.error_feedback",
                         fmt::format("codec.error_feedback does not go with {} pushes parameters: the next push has all of them "
                                     "again, and needs nothing of the last; leave it out",
                                     name)};
    if (runs.per_push && !runs.pushes_parameters && job.optimizer.clip_norm > 0)
      return job_problem{
          "optimizer.clip_norm",
          fmt::format("optimizer.clip_norm and codec.push do not go with {} clips each push by the norm that it had "
                      "before it was encoded; leave one of them out",
                      name)};
  }
  return {};
}

/// Why no other sizes of partitions can be tried; empty: they can.
std::string no_sizes_to_try(const job& job, const extensions& added) {
  using namespace protocols::collective;
  const auto runs = protocols::find_protocol(job.protocol.name, added.protocols);
  if (!job.exchange.tries_sizes() || !runs || !runs->decentralized)
    return "";
  const std::string begin =
      fmt::format("exchange.partition_kib = \"auto\" does not go with protocol.name = \"{}\", ", runs->name);
  if (!runs->reduces_gradients(job.protocol))
    return begin
           + (runs->reduces ? "whose workers sum what local steps have moved by, uncut; leave it out"
                            : "whose workers send each other whole replicas; leave it out");
  if (job.codec.factors())
    return begin + "whose workers send the factors of whole gradients; leave it out";
  const auto sum = sum_of_all(job, *runs);
  if (!sums_terms(sum.by))
    return begin
           + fmt::format("which adds up in hops here ({}), in an order that goes by where a gradient is cut: no two runs would "
                         "agree; write protocol.algorithm = \"direct\", or a number",
                         name_of(sum.by));
  if (job.codec.encodes_pushes() && sum.by != algorithm::broadcast)
    return begin
           + fmt::format(
               "where codec.push = \"{}\" loses nothing of what a worker sums itself, and where a gradient is cut decides "
               "what that is: no two runs would agree; write protocol.algorithm = \"broadcast\", or a number",
               job.codec.push);
  return "";
}

/// Where all workers take the same steps in host memory: the key that asks for something else, and why it cannot be; or none.
std::optional<job_problem> no_common_steps(const job& job, const extensions& added) {
  const auto entry = protocols::find_protocol(job.protocol.name, added.protocols);
  if (!entry || !entry->reduces)
    return std::nullopt;
  if (job.cluster.shards > 1)
    return job_problem{"cluster.shards", fmt::format("cluster.shards = {} does not go with protocol.name = \"{}\", which has no "
                                                     "shards: every worker takes the step; leave it out",
                                                     job.cluster.shards, entry->name)};
  if (job.compute.device != "cpu")
    return job_problem{"compute.device", fmt::format("compute.device = \"{}\" does not go with protocol.name = \"{}\", whose "
                                                     "workers sum and step in host memory; leave it out",
                                                     job.compute.device, entry->name)};
  return std::nullopt;
}

} // namespace

std::vector<job_problem> check_job(const job& job, const extensions& added) {
  std::vector<job_problem> wrong;
  if (const auto fits = troupe::validate(job.optimizer); !fits)
    wrong.push_back({key_of("optimizer", fits.error().message), "optimizer." + fits.error().message});
  if (const auto entry = protocols::find_protocol(job.protocol.name, added.protocols))
    for (const std::string& sentence : protocols::validate(*entry, job.protocol, job.cluster.workers))
      wrong.push_back({key_of("protocol", sentence), sentence});
  else
    wrong.push_back({"protocol.name", fmt::format("protocol.name = \"{}\" is not known here; `troupe protocols` lists what is",
                                                  job.protocol.name)});
  if (const std::string why = no_checkpoints(job, added); !why.empty())
    wrong.push_back({"checkpoint.dir", why});
  if (const std::string why = no_backups(job, added); !why.empty())
    wrong.push_back({"cluster.replicas", why});
  if (const std::string why = no_sizes_to_try(job, added); !why.empty())
    wrong.push_back({"exchange.partition_kib", why});
  if (const std::string why = no_local_rates(job, added); !why.empty())
    wrong.push_back({"optimizer.name", why});
  if (auto why = params_codec_problem(job, added))
    wrong.push_back(*std::move(why));
  if (auto why = codec_problem(job, added))
    wrong.push_back(std::move(*why));
  if (auto why = sparse_problem(job, added))
    wrong.push_back(std::move(*why));
  if (auto why = factors_problem(job))
    wrong.push_back(std::move(*why));
  if (auto why = budget_problem(job, added))
    wrong.push_back(std::move(*why));
  if (auto why = no_common_steps(job, added))
    wrong.push_back(*std::move(why));
  return wrong;
}

std::vector<job_problem> check_processes(const job& job) {
  constexpr auto most = protocols::wire::max_listed_workers;
  if (job.cluster.max_workers > most)
    return {{"cluster.max_workers", fmt::format("cluster.max_workers = {} is more than the {} that a message between nodes can "
                                                "list; give at most that",
                                                job.cluster.max_workers, most)}};
  if (job.cluster.nodes > 1 && job.cluster.workers > most)
    return {{"cluster.workers", fmt::format("cluster.workers = {} is more than the {} that a message between nodes can list; "
                                            "give at most {}, or cluster.nodes = 1",
                                            job.cluster.workers, most, most)}};
  return {};
}

} // namespace troupe::actors
