// SPDX-License-Identifier: BSD-3-Clause
// Every key of a job file: the values it accepts, its field, its meaning. The defaults are those of the structs.
#include "apps/config/job_draft.hpp"

#include "protocols/catalog.hpp"
#include "tensor/layers.hpp"

namespace troupe::config {

namespace {

using key_list = std::vector<key_info<loaded_job>>;

// A key whose value lives in `loaded_job::FIELD`.
#define TROUPE_KEY(section, name, domain, field, ...)                                                                            \
  keys.push_back(key_of<loaded_job>(section, name, domain, TROUPE_FIELD(field), __VA_ARGS__))

template <class Kind>
std::vector<std::string> with_added(std::vector<std::string> names, const std::vector<Kind>& added) {
  for (const Kind& kind : added)
    names.push_back(kind.name);
  return names;
}

void add_data(key_list& keys, const actors::extensions& added) {
  const std::string s = "data";
  TROUPE_KEY(
      s, "source",
      (text{with_added({"digits", "idx", "cifar10", "csv", "text", "tokens", "npy", "safetensors"}, added.sources), {}}),
      job.data.source,
      "digits: drawn by the program; idx: MNIST's format, also .gz; cifar10: its binary version; csv: numbers, the label "
      "last; text, tokens: windows of a text or of ids, each with the ids that follow; npy, safetensors: arrays of features "
      "and labels");
  TROUPE_KEY(s, "path", text{}, job.data.path, "folder (idx, cifar10) or file (the others), from the current directory", true);
  TROUPE_KEY(s, "test_path", text{}, job.data.test_path,
             "csv, tokens, npy: the file with the test samples; default: the last tenth of path", true);
  TROUPE_KEY(s, "labels_path", text{}, job.data.labels_path, "npy: the file with the labels of path's rows", true);
  TROUPE_KEY(s, "test_labels_path", text{}, job.data.test_labels_path, "npy: the labels of test_path's rows", true);
  TROUPE_KEY(s, "batch", (integer{1, 1 << 20}), job.data.batch, "samples of each worker in a step");
  TROUPE_KEY(s, "micro_batch", (integer{1, 1 << 20}), job.data.micro_batch,
             "a worker computes its batch in pieces of at most so many samples, and adds up their gradients; default: batch",
             true);
  TROUPE_KEY(s, "scale", (text{{"standard", "unit"}, {}}), job.data.scale,
             "standard: (x - mean) / deviation of the training set, a pair for each channel or column: `check` and saved weights "
             "have them; unit: pixels / 255, numbers of npy and safetensors as they are");
  TROUPE_KEY(
      s, "augment", text_list{}, job.data.augment,
      "what becomes of images in training, another each epoch: [\"crop 4\", \"flip\"], at most so many pixels to any side, and "
      "mirrored or not",
      true);
  TROUPE_KEY(s, "partition", (text{{"shuffled", "by-worker"}, {}}), job.data.partition,
             "shuffled: one permutation an epoch, shared by all workers; by-worker: a worker's samples stay its own");
  TROUPE_KEY(
      s, "sorted_fraction", (real{.most = 1}), job.data.sorted_fraction,
      "by-worker: share of the training set that is sorted by label and cut among the workers; the rest is assigned at random");
  TROUPE_KEY(
      s, "label_noise", (real{.most = 1}), job.data.label_noise,
      "share of the training labels that are replaced by one drawn from all classes, its own included; keyed by the job's seed");
  TROUPE_KEY(s, "vocabulary", (text{{"characters", "bytes"}, {}}), job.data.vocabulary,
             "text: what has an id: each character (UTF-8) that occurs, or each of 256 bytes");
  TROUPE_KEY(s, "token_type", (text{{"uint16", "uint32"}, {}}), job.data.token_type, "tokens: what an id is in the file");
  TROUPE_KEY(s, "vocabulary_size", (integer{2, 1 << 24}), job.data.vocabulary_size, "tokens: how many ids there are", true);
  TROUPE_KEY(s, "context", (integer{1, 1 << 20}), job.data.context, "text, tokens: how many ids a sample has");
  TROUPE_KEY(s, "stride", (integer{1, 1 << 20}), job.data.stride,
             "text, tokens: ids from a sample's begin to the next's; default: context", true);
  TROUPE_KEY(s, "train_samples", (integer{1, 10'000'000}), job.data.train_samples, "digits: how many training samples are drawn");
  TROUPE_KEY(s, "test_samples", (integer{1, 10'000'000}), job.data.test_samples, "digits: how many test samples are drawn");
}

void add_model(key_list& keys, const actors::extensions& added) {
  const std::string s = "model";
  TROUPE_KEY(s, "kind", (text{with_added({"mlp"}, actors::model_kinds(added)), {}}), model_kind,
             "mlp: flatten, the hidden layers with relu, one output per class; the others have keys of their own", true);
  TROUPE_KEY(s, "hidden", (integer_list{1, 1 << 16}), hidden, "mlp: the width of each hidden layer", true);
  TROUPE_KEY(s, "layers", text_list{}, job.model.layers,
             "one text per layer, such as [\"flatten\", \"linear 128 relu\", \"linear 10\"]; there are " + layers::described(),
             true);
  TROUPE_KEY(s, "onnx", text{}, job.model.onnx,
             "an ONNX file (opsets 11 to 17), instead of kind or layers: its graph is trained, from its weights", true);
  TROUPE_KEY(s, "loss", (text{{"cross-entropy", "mse", "bce"}, {}}), job.model.loss.name,
             "cross-entropy: of classes; mse: the mean squared error of numbers; bce: of probabilities, from logits");
  TROUPE_KEY(s, "label_smoothing", (real{.least = 0, .most = 1, .open_most = true}), job.model.loss.label_smoothing,
             "cross-entropy: how much of a label is spread evenly over all classes");
  TROUPE_KEY(s, "init", text{}, job.init,
             "file of weights to start from (safetensors, Hugging Face's too), or zeros; default: random, or those of onnx",
             true);
}

void add_optimizer(key_list& keys) {
  const std::string s = "optimizer";
  const real from_zero{.least = 0};
  const real above_zero{.least = 0, .open_least = true};
  const real decay{.least = 0, .most = 1, .open_most = true};
  TROUPE_KEY(s, "name", (text{{"sgd", "lars", "adamw"}, {}}), job.optimizer.name,
             "sgd: with or without momentum; lars: with a rate of each matrix besides; adamw");
  TROUPE_KEY(s, "lr", above_zero, job.optimizer.lr, "learning rate of the averaged step");
  TROUPE_KEY(s, "momentum", decay, job.optimizer.momentum, "sgd, lars: how much of the last step goes into the next");
  TROUPE_KEY(s, "nesterov", boolean{}, job.optimizer.nesterov, "sgd, lars: look ahead along the momentum");
  TROUPE_KEY(s, "weight_decay", from_zero, job.optimizer.weight_decay, "sgd, lars: added to the gradient; adamw: decoupled");
  TROUPE_KEY(s, "weight_decay_on", (text{{"all", "matrices"}, {}}), job.optimizer.weight_decay_on,
             "matrices: not biases, nor the scales and shifts of norms");
  TROUPE_KEY(s, "freeze", text_list{}, job.optimizer.freeze,
             "names of parameters that no step changes, such as [\"h.0.*\"]; * stands for any text", true);
  TROUPE_KEY(s, "lr_scale", text_list{}, job.optimizer.lr_scale,
             "names of parameters with a factor on their learning rate, such as [\"h.0.* = 0.1\"]; * stands for any text", true);
  TROUPE_KEY(s, "trust", above_zero, job.optimizer.trust,
             "lars: the rate of a matrix is lr trust |w| / (|g| + weight_decay |w|)");
  TROUPE_KEY(s, "beta1", decay, job.optimizer.beta1, "adamw: decay of the first moment");
  TROUPE_KEY(s, "beta2", decay, job.optimizer.beta2, "adamw: decay of the second moment");
  TROUPE_KEY(s, "epsilon", above_zero, job.optimizer.epsilon, "adamw: keeps the division finite");
  TROUPE_KEY(s, "clip_norm", (real{.least = 0, .most = 1e12}), job.optimizer.clip_norm,
             "largest norm of the gradient, over all that is trained: of a round's sum, of a push that is applied alone, or of a "
             "worker's own step; 0: any");
  TROUPE_KEY(s, "schedule", (text{{"constant", "step", "cosine"}, {}}), job.optimizer.schedule, "how the learning rate falls");
  TROUPE_KEY(s, "gamma", (real{.least = 0, .most = 1, .open_least = true}), job.optimizer.gamma, "step: the factor");
  TROUPE_KEY(s, "step_epochs", above_zero, job.optimizer.step_epochs, "step: epochs between two factors");
  TROUPE_KEY(s, "min_lr", from_zero, job.optimizer.min_lr, "cosine: where it ends");
  TROUPE_KEY(s, "total_epochs", above_zero, job.optimizer.total_epochs, "cosine: when it ends; default: stop.epochs", true);
  TROUPE_KEY(s, "warmup_epochs", from_zero, job.optimizer.warmup_epochs,
             "epochs over which the learning rate rises to its value");
  TROUPE_KEY(s, "scale_with_workers", boolean{}, job.optimizer.scale_with_workers, "multiply lr by the number of workers");
}

void add_compute(key_list& keys) {
  const std::string s = "compute";
  TROUPE_KEY(s, "device", device{}, job.compute.device, "where the workers compute; cuda: each worker on the next GPU in turn");
  TROUPE_KEY(s, "threads", (integer{1, 256}), job.compute.threads, "BLAS threads of each compute actor");
  TROUPE_KEY(s, "precision", (text{{"fp32", "tf32", "bf16"}, {"fp16"}}), job.compute.precision,
             "tf32, bf16: what a GPU rounds the operands of its products to; storage and sums are float32");
  TROUPE_KEY(s, "recompute", (text{{"none", "blocks"}, {}}), job.compute.recompute,
             "blocks: what a block of a gpt or resnet, or a layer with braces, makes inside is computed again for the backward "
             "instead of kept; the bits are the same");
  TROUPE_KEY(s, "shard_device", device{}, job.compute.shard_device, "where the shards keep the parameters");
}

void add_protocol(key_list& keys, const actors::extensions& added) {
  const text names{with_added({}, protocols::catalog(added.protocols)), {}};
  TROUPE_KEY("protocol", "name", names, job.protocol.name,
             "which worker waits for which; `troupe protocols` lists the protocols and their parameters");
  TROUPE_KEY("protocol", "fan_in", fan_in_domain(), job.protocol.fan_in,
             "workers or aggregators under one aggregator; node: one for the workers of each node; 0: no aggregators");
}

void add_exchange(key_list& keys) {
  const std::string s = "exchange";
  TROUPE_KEY(
      s, "partition_kib", (integer_or_word{{16, 32768}, "auto", 0}), job.exchange.partition_kib,
      "gradients and parameters travel in parts of at most so many KiB; in so many allreduce sums a gradient, each by itself; "
      "auto: begins with 1024 and tries others while the job runs");
  TROUPE_KEY(
      s, "order", (text{{"layers", "ready"}, {}}), job.exchange.order,
      "which part goes first of those that wait for a lane; layers: that of the first layer; ready: the one that came first");
  TROUPE_KEY(
      s, "overlap", boolean{}, job.exchange.overlap,
      "a part of a gradient leaves, or is summed, while backward goes on, and forward begins with the first parameters that "
      "come; false: when the whole is there");
}

void add_cluster(key_list& keys) {
  const std::string s = "cluster";
  TROUPE_KEY(s, "nodes", (integer{1, 1024}), job.cluster.nodes, "processes, the one that runs the job included");
  TROUPE_KEY(s, "workers", (integer{1, most_workers}), job.cluster.workers, "default: one for each node that holds workers");
  TROUPE_KEY(s, "max_workers", (integer{1, most_workers}), job.cluster.max_workers,
             "run --cluster: nodes that join later, or become free, bring more workers, up to so many; default: none", true);
  TROUPE_KEY(s, "shards", (integer{1, 1024}), job.cluster.shards,
             "parts of the parameters; default: 1; colocated: one for each node, if the protocol has any");
  TROUPE_KEY(s, "replicas", (integer{1, 16}), job.cluster.replicas,
             "copies of each shard on nodes apart: the job goes on while one of them is left", true);
  TROUPE_KEY(s, "progress_s", (real{.least = 0, .open_least = true}), job.cluster.progress_s,
             "seconds of a round or an evaluation after which whoever it waits for is given up; default: 20 times the median "
             "round, at least 30; 10 times the longest evaluation, at least 60",
             true);
  keys.push_back({s, "placement", text{{"separate", "colocated"}, {}},
                  "separate: the first node holds the shards, the others the workers; colocated: every node its share of both",
                  false,
                  [](loaded_job& j, const value& v) {
                    const bool colocated = std::get<std::string>(v) == "colocated";
                    j.job.cluster.where = colocated ? actors::placement::colocated : actors::placement::separate;
                  },
                  [](const loaded_job& j) -> value {
                    return std::string(j.job.cluster.where == actors::placement::colocated ? "colocated" : "separate");
                  }});
  TROUPE_KEY(s, "respawn", boolean{}, respawn,
             "run without --cluster: a process that dies is started anew, at most 5 times a minute; its workers come back");
}

void add_codec(key_list& keys) {
  const real above_zero{.least = 0, .open_least = true};
  const std::string s = "codec";
  const auto with = [](std::initializer_list<const char*> further) {
    text forms{{"none", "fp16", "bf16", "int8", "int4", "onebit"}, {}};
    forms.choices.insert(forms.choices.end(), further.begin(), further.end());
    return forms;
  };
  TROUPE_KEY(
      s, "push", with({"topk", "dgc", "threshold", "factors"}), job.codec.push,
      "what becomes of a push on its way to shards and aggregators, of allreduce's sums on their ways: fp16, bf16: rounded; "
      "int8, int4: rounded at random, so "
      "that the mean is right; onebit: the mean of those with its sign; topk: the largest elements alone; dgc: those of the "
      "velocities that have added up, which workers keep then; threshold: plus or minus codec.threshold where that is reached; "
      "factors: of a matrix the two that its gradient is the product of, where they are smaller, and all else as it is");
  TROUPE_KEY(s, "error_feedback", boolean{}, job.codec.error_feedback,
             "what a push loses is added to the worker's next; default: true with int4, onebit, topk, dgc and threshold");
  TROUPE_KEY(s, "density", (real{.most = 1, .open_least = true}), job.codec.density,
             "topk, dgc: the share of elements that is sent, of each 4,096 one at least");
  TROUPE_KEY(
      s, "warmup_steps", (integer{0, 1 << 20}), job.codec.warmup_steps,
      "topk, dgc: versions for each of the densities 0.25, 0.0625, 0.015625 and 0.004, which come before; default: 15 with "
      "dgc, else 0");
  TROUPE_KEY(s, "budget_mbit", above_zero, job.codec.budget_mbit,
             "topk, instead of density: what each worker may push, in 10^6 bits a second; every element goes with one of "
             "protocol.bound pushes at least",
             true);
  TROUPE_KEY(s, "threshold", above_zero, job.codec.threshold, "threshold: what an element must reach, and is sent as", true);
  TROUPE_KEY(s, "clip", (real{}), job.codec.clip,
             "dgc: largest norm of a gradient, times the square root of the number of workers; 0: any");
  TROUPE_KEY(s, "params", with({"changed"}), job.codec.params,
             "what becomes of parameters on their way to workers: the code of what they differ by from those that workers have; "
             "what it loses is in the next difference; changed: those that are not as they were, exactly");
}

void add_ends(key_list& keys) {
  const real above_zero{.least = 0, .open_least = true};
  const std::string e = "evaluate";
  TROUPE_KEY(e, "every_samples", (integer{1}), job.evaluate.every_samples,
             "samples between evaluations; default, without every_s: an epoch", true);
  TROUPE_KEY(e, "every_s", above_zero, job.evaluate.every_s, "training seconds between evaluations", true);
  TROUPE_KEY(e, "train_samples", (integer{1}), job.evaluate.train_samples, "how many training samples give train_loss");
  TROUPE_KEY(e, "holdout", (real{.least = 0, .most = 1, .open_most = true}), job.data.holdout,
             "share of the training samples, drawn by the seed, that is not trained with but evaluated: validation_loss");
  const std::string s = "stop";
  TROUPE_KEY(s, "epochs", above_zero, job.stop.epochs, "the first limit of [stop] that is reached ends the job", true);
  TROUPE_KEY(s, "steps", (integer{1}), job.stop.steps, "versions of the parameters", true);
  TROUPE_KEY(s, "seconds", above_zero, job.stop.seconds, "training time", true);
  TROUPE_KEY(s, "samples", (integer{1}), job.stop.samples, "samples in applied updates", true);
  TROUPE_KEY(s, "target_accuracy", (real{.least = 0, .most = 1, .open_least = true}), job.stop.target_accuracy,
             "of an evaluation", true);
  TROUPE_KEY(
      s, "patience", (integer{1, 1'000'000}), job.stop.patience,
      "evaluations in a row without a lower loss, of what is held out or else of the test; the weights of the lowest are kept",
      true);
}

std::string wrong_folder(const std::string& path) {
  return path.empty() ? "is empty; it takes the path of a folder" : "";
}

void add_checkpoint(key_list& keys) {
  const std::string s = "checkpoint";
  TROUPE_KEY(s, "dir", (text{{}, {}, wrong_folder}), job.checkpoint.dir,
             "folder for checkpoints, the same path on every node that holds shards; `run --resume` goes on from one", true);
  TROUPE_KEY(s, "every_s", (real{.least = 0, .open_least = true}), job.checkpoint.every_s,
             "training seconds between checkpoints; default, without every_steps: one at the end", true);
  TROUPE_KEY(s, "every_steps", (integer{1}), job.checkpoint.every_steps, "steps between checkpoints", true);
  TROUPE_KEY(s, "keep", (integer{1, 1'000'000}), job.checkpoint.keep, "how many of this run's checkpoints stay: the newest");
}

} // namespace

std::vector<key_info<loaded_job>> job_keys(const actors::extensions& added) {
  key_list keys;
  TROUPE_KEY("", "name", text{}, job.name, "name of the job in its results; default: the file's name");
  TROUPE_KEY("", "seed", integer{0}, job.seed, "seed of everything random: the same seed gives the same weights");
  add_data(keys, added);
  add_model(keys, added);
  add_optimizer(keys);
  add_compute(keys);
  add_protocol(keys, added);
  add_cluster(keys);
  add_exchange(keys);
  add_codec(keys);
  add_ends(keys);
  add_checkpoint(keys);
  add_inject_keys(keys);
  TROUPE_KEY("simulate", "numerics", (text{{"model", "quadratic"}, {}}), numerics,
             "model: real gradients; quadratic: a closed-form quadratic loss, for clusters too large for real gradients");
  return keys;
}
#undef TROUPE_KEY

} // namespace troupe::config
