// SPDX-License-Identifier: BSD-3-Clause
// The rules between keys, and the values that follow from others.
#include "apps/config/job_draft.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "actors/checkpoint/job_facts.hpp"
#include "actors/node/place_roles.hpp"
#include "apps/config/suggest.hpp"
#include "protocols/catalog.hpp"
#include "tensor/data/augmentation.hpp"
#include "tensor/layers.hpp"

namespace troupe::config {

namespace {

/// `key` has a meaning only where `other` is one of `values`.
struct belonging {
  std::string key, other;
  std::vector<std::string> values;
};

std::vector<belonging> belongings() {
  return {
      {"data.path", "data.source", {"idx", "cifar10", "csv", "text", "tokens", "npy", "safetensors"}},
      {"data.scale", "data.source", {"digits", "idx", "cifar10", "csv", "npy", "safetensors"}},
      {"data.augment", "data.source", {"digits", "idx", "cifar10", "npy", "safetensors"}},
      {"data.label_noise", "data.source", {"digits", "idx", "cifar10", "csv"}},
      {"data.test_path", "data.source", {"csv", "tokens", "npy"}},
      {"data.labels_path", "data.source", {"npy"}},
      {"data.test_labels_path", "data.source", {"npy"}},
      {"data.vocabulary", "data.source", {"text"}},
      {"data.token_type", "data.source", {"tokens"}},
      {"data.vocabulary_size", "data.source", {"tokens"}},
      {"data.context", "data.source", {"text", "tokens"}},
      {"data.stride", "data.source", {"text", "tokens"}},
      {"data.train_samples", "data.source", {"digits"}},
      {"data.test_samples", "data.source", {"digits"}},
      {"data.sorted_fraction", "data.partition", {"by-worker"}},
      {"optimizer.momentum", "optimizer.name", {"sgd", "lars"}},
      {"optimizer.nesterov", "optimizer.name", {"sgd", "lars"}},
      {"optimizer.trust", "optimizer.name", {"lars"}},
      {"optimizer.beta1", "optimizer.name", {"adamw"}},
      {"optimizer.beta2", "optimizer.name", {"adamw"}},
      {"optimizer.epsilon", "optimizer.name", {"adamw"}},
      {"optimizer.gamma", "optimizer.schedule", {"step"}},
      {"optimizer.step_epochs", "optimizer.schedule", {"step"}},
      {"optimizer.min_lr", "optimizer.schedule", {"cosine"}},
      {"optimizer.total_epochs", "optimizer.schedule", {"cosine"}},
      {"codec.error_feedback", "codec.push", {"fp16", "bf16", "int8", "int4", "onebit", "topk", "dgc", "threshold"}},
      {"codec.density", "codec.push", {"topk", "dgc"}},
      {"codec.warmup_steps", "codec.push", {"topk", "dgc"}},
      {"codec.budget_mbit", "codec.push", {"topk"}},
      {"codec.threshold", "codec.push", {"threshold"}},
      {"codec.clip", "codec.push", {"dgc"}},
  };
}

/// Consensus ADMM is defined over a separate function for each worker (Boyd et al. 2011, section 7.1).
void derive_partition(job_draft& draft) {
  const auto runs = protocols::find_protocol(draft.out.job.protocol.name, draft.out.added.protocols);
  if (!runs || !runs->own_samples || draft.unclear("protocol.name") || draft.unclear("data.partition"))
    return;
  if (draft.has("data.partition") && draft.out.job.data.partition != "by-worker")
    draft.refuse("data.partition", fmt::format("data.partition = \"{}\" leaves {}'s workers no samples of their own; leave it "
                                               "out, or write \"by-worker\"",
                                               draft.out.job.data.partition, runs->name));
  draft.out.job.data.partition = "by-worker";
  draft.from["data.partition"] = "protocol.name";
}

void check_belongings(job_draft& draft) {
  const std::map<std::string, std::string> chosen{{"data.source", draft.out.job.data.source},
                                                  {"data.partition", draft.out.job.data.partition},
                                                  {"optimizer.name", draft.out.job.optimizer.name},
                                                  {"optimizer.schedule", draft.out.job.optimizer.schedule},
                                                  {"codec.push", draft.out.job.codec.push}};
  for (const auto& [key, other, values] : belongings()) {
    if (draft.unclear(other) || std::find(values.begin(), values.end(), chosen.at(other)) != values.end())
      continue;
    draft.idle.insert(key);
    if (draft.lost_to(key, other))
      draft.leave_out(key, fmt::format("it belongs to {} = \"{}\", and {} is \"{}\"", other, fmt::join(values, "\" or \""),
                                       draft.given.at(other).flag, chosen.at(other)));
    else if (draft.has(key))
      draft.refuse(key, fmt::format("{} belongs to {} = \"{}\", which is \"{}\" here; leave it out", key, other,
                                    fmt::join(values, "\" or \""), chosen.at(other)));
  }
}

/// What a source reads, for messages.
std::string reads_from(const std::string& source) {
  static const std::map<std::string, std::string> files{{"csv", "train.csv"},
                                                        {"text", "shakespeare.txt"},
                                                        {"tokens", "train.bin"},
                                                        {"npy", "features.npy"},
                                                        {"safetensors", "data.safetensors"}};
  const auto file = files.find(source);
  return file == files.end() ? "a folder, such as path = \"data/mnist\""
                             : fmt::format("a file, such as path = \"data/{}\"", file->second);
}

void check_data(job_draft& draft) {
  const data_spec& data = draft.out.job.data;
  if (const auto how = parse_augmentation(data.augment); !how)
    draft.refuse("data.augment", how.error().message);
  if (data.source == "digits" || !draft.out.job.own_data.name.empty() || draft.unclear("data.source"))
    return;
  const auto needs = [&](const std::string& key, bool missing, const std::string& need) {
    if (missing && !draft.unclear(key))
      draft.refuse("data.source", fmt::format("{} is missing; data.source = \"{}\" {}", key, data.source, need));
  };
  needs("data.path", data.path.empty(), "reads " + reads_from(data.source));
  needs("data.vocabulary_size", data.source == "tokens" && data.vocabulary_size == 0,
        "takes how many ids there are, such as vocabulary_size = 50257");
  needs("data.labels_path", data.source == "npy" && data.labels_path.empty(),
        "reads a file of labels, too, such as labels_path = \"data/labels.npy\"");
  if (data.source == "npy" && data.test_path.empty() != data.test_labels_path.empty() && !draft.unclear("data.test_path")
      && !draft.unclear("data.test_labels_path"))
    draft.refuse(data.test_path.empty() ? "data.test_labels_path" : "data.test_path",
                 "data.test_path and data.test_labels_path belong together; give both or neither");
}

/// The layer that a text was likely meant for: each word is replaced by the nearest word of a layer. Empty: none.
std::string likely_layer(const std::string& text) {
  static const std::vector<std::string> words = layers::all_words();
  static const std::map<std::string, std::string> elsewhere{{"dense", "linear"},      {"fc", "linear"},     {"affine", "linear"},
                                                            {"maxpool", "pool"},      {"max_pool", "pool"}, {"maxpool2d", "pool"},
                                                            {"avgpool2d", "avgpool"}, {"conv2d", "conv"}};
  std::istringstream in(text);
  std::string likely;
  for (std::string word; in >> word;) {
    std::string small = word;
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (const auto known = elsewhere.find(small); known != elsewhere.end())
      word = known->second;
    else if (const std::string near = nearest(word, words);
             !near.empty() && std::isalpha(static_cast<unsigned char>(word[0])) != 0)
      word = near;
    likely += (likely.empty() ? "" : " ") + word;
  }
  return likely != text && layers::parse(likely) ? likely : "";
}

void check_layers(job_draft& draft) {
  const auto& lines = draft.out.job.model.layers;
  bool each_reads = true;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (const auto layer = layers::parse(lines[i]); !layer) {
      each_reads = false;
      const std::string likely = likely_layer(lines[i]);
      draft.refuse("model.layers",
                   fmt::format("layer {}: {}", i + 1,
                               likely.empty() ? layer.error().message
                                              : fmt::format("\"{}\" is no layer; did you mean \"{}\"?", lines[i], likely)));
    }
  if (each_reads && !lines.empty()) // and the braces
    if (const auto list = layers::parse(lines); !list)
      draft.refuse("model.layers", list.error().message);
}

void check_model(job_draft& draft) {
  check_layers(draft);
  const bool listed = draft.has("model.layers"), kind = draft.has("model.kind"), hidden = draft.has("model.hidden");
  for (const char* key : {"model", "model.layers", "model.kind", "model.hidden", "model.onnx"})
    if (draft.unclear(key))
      return;
  if (draft.has("model.onnx")) {
    if (draft.out.job.model.onnx.empty())
      draft.refuse("model.onnx", "model.onnx = \"\" names no file; write one, such as onnx = \"net.onnx\"");
    else if (listed || kind || hidden)
      draft.refuse("model.onnx", fmt::format("the model is given twice, as an ONNX file and as {}; keep one of them",
                                             listed ? "a list of layers" : "a kind"));
    return;
  }
  if (const std::string& own = draft.out.job.own_model.name; !own.empty()) {
    if (listed || hidden)
      draft.refuse(listed ? "model.layers" : "model.hidden",
                   fmt::format("the model is given twice, as kind = \"{}\" and as {}; keep one of them", own,
                               listed ? "a list of layers" : "an mlp"));
    if (const auto networks = network_kinds(); std::ranges::count(networks, own) == 0)
      for (const char* key : {"model.loss", "model.label_smoothing"}) {
        draft.idle.insert(key);
        if (draft.has(key))
          draft.refuse(key, fmt::format("kind = \"{}\" has a loss of its own; leave {} out", own, key));
      }
    return;
  }
  if (listed && (kind || hidden))
    draft.refuse(kind ? "model.kind" : "model.hidden",
                 "the model is given twice, as a list of layers and as an mlp; keep one of them");
  else if (hidden && !kind)
    draft.refuse("model.hidden", "model.hidden belongs to an mlp; write kind = \"mlp\" beside it");
  else if (kind && !hidden)
    draft.refuse("model.kind", "model.hidden is missing; an mlp takes the width of each hidden layer, such as hidden = [128]");
  else if (!listed && !kind)
    draft.refuse(
        "model",
        "model.layers is missing; write layers = [\"flatten\", \"linear 128 relu\", \"linear 10\"], or kind = \"mlp\" and "
        "hidden = [128]");
}

/// Windows that do not overlap, unless the job says otherwise.
void derive_stride(job_draft& draft) {
  data_spec& data = draft.out.job.data;
  if ((data.source != "text" && data.source != "tokens") || draft.has("data.stride") || draft.unclear("data.stride")
      || draft.unclear("data.context"))
    return;
  data.stride = data.context;
  draft.from["data.stride"] = "data.context";
}

/// Few bits need it: without, the sign of a mean would be all that ever arrives.
void derive_feedback(job_draft& draft) {
  actors::codec_spec& codec = draft.out.job.codec;
  const auto derives = [&](const char* key) {
    if (draft.has(key) || draft.unclear(key) || !codec.encodes_pushes())
      return false;
    draft.from[key] = "codec.push";
    return true;
  };
  if (derives("codec.error_feedback"))
    codec.error_feedback = codec.loses_much();
  if (codec.corrects_momentum() && derives("codec.warmup_steps"))
    codec.warmup_steps = 15;
}

/// A budget says how much is sent.
void check_budget(job_draft& draft) {
  if (!draft.has("codec.budget_mbit"))
    return;
  for (const std::string key : {"codec.density", "codec.warmup_steps"}) {
    draft.idle.insert(key);
    if (draft.has(key))
      draft.refuse(key, fmt::format("{} and codec.budget_mbit both say how much of a push is sent; keep one of them", key));
  }
}

/// A cosine needs an end. The layer that computes with the values checks whether they fit together.
void derive_schedule(job_draft& draft) {
  optimizer_spec& optimizer = draft.out.job.optimizer;
  if (optimizer.schedule != "cosine" || draft.has("optimizer.total_epochs") || draft.unclear("optimizer.total_epochs")
      || draft.unclear("stop.epochs"))
    return;
  if (draft.has("stop.epochs")) {
    optimizer.total_epochs = draft.out.job.stop.epochs;
    draft.from["optimizer.total_epochs"] = "stop.epochs";
  } else {
    draft.refuse("optimizer.schedule", "schedule = \"cosine\" ends nowhere; give optimizer.total_epochs or stop.epochs");
    draft.refused.insert("optimizer.total_epochs");
  }
}

std::string counted(std::uint32_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void derive_cluster(job_draft& draft) {
  actors::cluster_spec& cluster = draft.out.job.cluster;
  const bool colocated = cluster.where == actors::placement::colocated;
  if (!draft.has("cluster.workers") && !draft.unclear("cluster.workers")) {
    cluster.workers = colocated ? cluster.nodes : std::max(1U, cluster.nodes - 1);
    draft.from["cluster.workers"] = "cluster.nodes";
  }
  const auto runs = protocols::find_protocol(draft.out.job.protocol.name, draft.out.added.protocols);
  const bool takes_shards = !runs || !runs->reduces;
  if (!draft.has("cluster.shards") && !draft.unclear("cluster.shards") && colocated && takes_shards) {
    cluster.shards = cluster.nodes;
    draft.from["cluster.shards"] = "cluster.nodes";
  }
}

/// Of a job whose workers may become more.
void check_growth(job_draft& draft) {
  const actors::job& job = draft.out.job;
  const std::uint32_t most = job.cluster.max_workers;
  if (most == 0)
    return;
  const auto refuse = [&](const std::string& why) {
    draft.refuse("cluster.max_workers", fmt::format("cluster.max_workers = {} {}", most, why));
  };
  if (most < job.cluster.workers)
    refuse(fmt::format("is below cluster.workers = {}, with which the job begins; give at least that, or leave it out",
                       job.cluster.workers));
  else if (job.data.partition == "by-worker")
    refuse("does not go with data.partition = \"by-worker\", which divides the data once; leave one of them out");
}

/// Of a job whose shards have backups.
void check_replicas(job_draft& draft) {
  const actors::cluster_spec& cluster = draft.out.job.cluster;
  if (cluster.replicas > cluster.nodes)
    draft.refuse("cluster.replicas",
                 fmt::format("cluster.replicas = {} needs as many nodes, for copies of a shard live on nodes apart, and "
                             "cluster.nodes = {}; give {} nodes, or replicas = {}",
                             cluster.replicas, cluster.nodes, cluster.replicas, cluster.nodes));
}

/// Every node must hold something, and a process with several CPU workers gives each one thread.
void check_cluster(job_draft& draft) {
  derive_cluster(draft);
  const actors::cluster_spec& cluster = draft.out.job.cluster;
  for (const char* key : {"cluster.nodes", "cluster.workers", "cluster.shards", "cluster.placement"})
    if (draft.unclear(key))
      return;
  const bool colocated = cluster.where == actors::placement::colocated;
  // node 0 of a separate cluster holds the shards
  const std::uint32_t worker_nodes = colocated ? cluster.nodes : std::max(1U, cluster.nodes - 1);
  const std::uint32_t held = colocated ? std::max(cluster.workers, cluster.shards) : cluster.workers;
  const std::string blamed = draft.has("cluster.workers") ? "cluster.workers" : "cluster.nodes";
  if (held < worker_nodes) {
    const std::string holders =
        counted(cluster.workers, "worker") + (colocated ? " and " + counted(cluster.shards, "shard") : "");
    const bool one = !colocated && cluster.workers == 1;
    draft.refuse(blamed, fmt::format("{} {} {} of {} nodes with nothing to do; give cluster.workers = {} or cluster.nodes = {}",
                                     holders, one ? "leaves" : "leave", worker_nodes - held, cluster.nodes, worker_nodes,
                                     colocated ? held : held + 1));
  }
  check_growth(draft);
  if (!draft.unclear("cluster.replicas"))
    check_replicas(draft);
  const actors::compute_spec& compute = draft.out.job.compute;
  if (compute.device == "cpu" && compute.threads > 1 && cluster.workers > worker_nodes)
    draft.refuse("compute.threads",
                 fmt::format("compute.threads = {} needs one worker per process, and {} workers share {} process{}; give "
                             "compute.threads = 1 or more cluster.nodes",
                             compute.threads, cluster.workers, worker_nodes, worker_nodes == 1 ? "" : "es"));
}

/// The CPU always computes in fp32.
void check_precision(job_draft& draft) {
  const actors::compute_spec& compute = draft.out.job.compute;
  if (compute.precision == "fp32" || compute.device != "cpu" || draft.unclear("compute.device"))
    return;
  if (draft.lost_to("compute.precision", "compute.device"))
    draft.leave_out("compute.precision", "the CPU computes in fp32");
  else
    draft.refuse("compute.precision",
                 fmt::format("compute.precision = \"{}\" is for GPUs, and compute.device = \"cpu\" computes in fp32; "
                             "write device = \"cuda\" or leave it out",
                             compute.precision));
}

void check_ends(job_draft& draft) {
  if (draft.has("evaluate.every_samples") && draft.has("evaluate.every_s"))
    draft.refuse("evaluate.every_s", "evaluate.every_samples and evaluate.every_s are both given; keep one of them");
  bool ends = draft.unclear("stop");
  for (const char* key : {"stop.epochs", "stop.steps", "stop.seconds", "stop.samples", "stop.target_accuracy", "stop.patience"})
    ends = ends || draft.has(key) || draft.unclear(key);
  if (!ends)
    draft.refuse("stop", "nothing ends this job; write [stop] with epochs, steps, seconds, samples, target_accuracy or patience, "
                         "such as epochs = 5");
}

/// Nodes and later runs find the folder from wherever they are: its path becomes absolute.
void check_checkpoint(job_draft& draft) {
  if (draft.has("checkpoint.every_steps") && draft.has("checkpoint.every_s"))
    draft.refuse("checkpoint.every_s", "checkpoint.every_steps and checkpoint.every_s are both given; keep one of them");
  if (std::string& dir = draft.out.job.checkpoint.dir; draft.has("checkpoint.dir"))
    dir = actors::absolute_folder(dir);
  if (draft.has("checkpoint.dir") || draft.unclear("checkpoint.dir"))
    return;
  const auto unset = draft.unset.find("checkpoint.dir");
  for (const std::string key : {"checkpoint.every_s", "checkpoint.every_steps", "checkpoint.keep"})
    if (draft.has(key) && draft.given.at(key).flag.empty() && unset != draft.unset.end())
      draft.leave_out(key, fmt::format("{} unsets checkpoint.dir", unset->second));
    else if (draft.has(key))
      draft.refuse(key, fmt::format("{} has no checkpoint.dir, the folder for checkpoints; give one, such as dir = "
                                    "\"checkpoints\", or leave {} out",
                                    key, key));
}

/// Why the workers of a protocol cannot have their own samples; empty: they can.
std::string shares_samples(const protocols::protocol& runs) {
  if (runs.decodes)
    return "whose workers compute each other's parts";
  return runs.per_push ? "whose shards hand the next slice to the worker that pushes" : "";
}

} // namespace

void apply_protocol_rules(job_draft& draft) {
  if (draft.out.job.data.partition != "by-worker" || draft.unclear("protocol.name"))
    return;
  for (const auto& runs : protocols::planned_protocols(draft.out.job.protocol, draft.out.added.protocols))
    if (const std::string why = shares_samples(runs); !why.empty())
      draft.refuse("data.partition",
                   fmt::format("data.partition = \"by-worker\" does not go with {}, {}; write \"shuffled\"", runs.name, why));
}

void apply_rules(job_draft& draft) {
  if (!draft.has("name") && !draft.unclear("name")) {
    draft.out.job.name = std::filesystem::path(draft.out.file).stem().string();
    draft.from["name"] = "the file's name";
  }
  derive_partition(draft);
  check_belongings(draft);
  check_data(draft);
  derive_stride(draft);
  check_model(draft);
  derive_schedule(draft);
  derive_feedback(draft);
  check_budget(draft);
  check_cluster(draft);
  check_precision(draft);
  check_ends(draft);
  check_checkpoint(draft);
}

void derive_blocks(job_draft& draft) {
  actors::job& job = draft.out.job;
  const auto runs = protocols::find_protocol(job.protocol.name, draft.out.added.protocols);
  if (runs && draft.problems.empty())
    job.cluster.blocks =
        actors::worker_blocks(job, *runs, actors::place_roles(job, std::vector<actors::member_node>(job.cluster.nodes)));
}

} // namespace troupe::config
