// SPDX-License-Identifier: BSD-3-Clause
// The command line's grammar: the only source that includes CLI11.
#include "apps/command_line.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/http/web_server.hpp"
#include "apps/bench/training.hpp"
#include "apps/config/suggest.hpp"
#include "apps/job_flags.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::apps {

namespace {

/// The values of all flags; the named subcommand decides which of them count.
struct arguments {
  job_flags job;
  run_options run;
  evaluate_options evaluate;
  generate_options generate;
  predict_options predict;
  export_options exported;
  node_options node;
  check_options check;
  plain_options plain;
  bench_options bench;
  compare_options compare;
  simulate_options simulate;
  replay_options replay;
  certs_options certs;
  checkpoint_options checkpoint;
  weights_options weights;
  console_options console;
  std::vector<CLI::Option*> webs{};
};

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& meaning, const std::string& example) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->footer("Example:\n  " + example);
  return command;
}

void add_json(CLI::App* command, bool& json) {
  command->add_flag("--json", json, "print exactly one JSON object as the last line of stdout");
}

/// A check of a flag's text. CLI11's own ranges print their limits with up to 309 digits.
CLI::Validator must_be(const std::string& description, bool (*fits)(const std::string&)) {
  return {[description, fits](std::string& text) { return fits(text) ? "" : fmt::format("\"{}\" is not {}", text, description); },
          "", ""};
}

/// For flags that name a file. An empty name is a mistake of a script, not a request for no file.
CLI::Validator a_name() {
  return must_be("a name of a file", [](const std::string& text) { return !text.empty(); });
}

CLI::Validator a_folder() {
  return must_be("a name of a folder", [](const std::string& text) { return !text.empty(); });
}

/// Of a file of weights that is to be written.
CLI::Option* add_names(CLI::App* command, std::string& names) {
  return command
      ->add_option("--names", names, "names of its tensors: troupe's, or Hugging Face's for a GPT-2, which transformers reads")
      ->type_name("NAMES")
      ->check(CLI::IsMember({"troupe", "huggingface"}))
      ->capture_default_str();
}

/// A job file and the flags that change it, the same for every command that takes one.
CLI::Option* add_job(CLI::App* command, arguments& a) {
  // One value a flag: `--set a=1 b=2` would swallow the job file.
  command
      ->add_option(
          "--set", a.job.sets,
          "override a key of the job file (--set data.batch=32) or unset it (--set optimizer.momentum=); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--seed", a.job.seed, "seed of everything random")->type_name("S");
  return command->add_option("job", a.job.file, "job file (TOML)")->type_name("JOB.toml");
}

void add_nodes(CLI::App* command, arguments& a) {
  command->add_option("--nodes", a.job.nodes, "number of processes that run the job, this one included")->type_name("N");
}

/// [inject] by flags.
void add_inject(CLI::App* command, arguments& a) {
  const auto add = [&](const std::string& flag, std::vector<std::string>& specs, const std::string& meaning) {
    command->add_option(flag, specs, meaning)->type_name("SPEC")->allow_extra_args(false);
  };
  add("--straggler", a.job.stragglers,
      "emulate slow steps: worker=1,factor=5 or prob=0.125,factor=5 or dist=pareto,alpha=1.5 (may be repeated)");
  add("--link", a.job.links, "emulate every host's link: latency_ms=10,mbit=100");
  add("--fault", a.job.faults, "inject a fault: crash=worker:2,at_s=30 (may be repeated)");
}

/// What `run` and `attach` show and leave behind.
struct result_flags {
  CLI::Option *save, *log, *web;
};

result_flags add_results(CLI::App* c, arguments& a) {
  result_flags out{};
  out.save = c->add_option("--save", a.run.save,
                           "write the final parameters; if interrupted the newest, if failed those of the last evaluation")
                 ->type_name("FILE.safetensors")
                 ->check(a_name());
  add_names(c, a.run.names)->needs(out.save);
  out.log = c->add_option("--log", a.run.log, "write a JSON object for each progress line and each evaluation")
                ->type_name("FILE.jsonl")
                ->check(a_name());
  out.web = c->add_option("--web", a.run.web,
                          "serve a read-only web page about the run, to this machine only: 127.0.0.1:8080, or another port")
                ->type_name("[ADDRESS]")
                ->expected(0, 1);
  a.webs.push_back(out.web);
  c->add_flag("--quiet", a.run.quiet, "no progress and no events; --log has both");
  add_json(c, a.run.json);
  return out;
}

void add_run(CLI::App& app, arguments& a) {
  CLI::App* c = add_command(app, "run", "Run a job on a cluster of processes",
                            "troupe run config/quickstart.toml --nodes 3 --set data.batch=32 --save digits.safetensors");
  add_job(c, a);
  add_nodes(c, a);
  auto* cluster = c->add_option("--cluster", a.run.cluster, "run on the nodes of this cluster file instead")
                      ->type_name("CLUSTER.toml")
                      ->check(a_name());
  add_inject(c, a);
  c->add_option("--resume", a.run.resume,
                "go on from this checkpoint of the same job, or from the newest good one of a folder (checkpoint.dir)")
      ->type_name("DIR[/step-N]")
      ->check(a_folder());
  auto* trace =
      c->add_option("--trace", a.run.trace, "write when every role did what, for trace viewers and simulate --calibrate")
          ->type_name("FILE")
          ->check(a_name());
  auto* rounds =
      c->add_option("--rounds", a.run.rounds, "write what each version of the parameters was made of, for `troupe replay`")
          ->type_name("FILE.jsonl")
          ->check(a_name());
  c->add_option("--listen", a.run.listen, "listen on this port for `troupe console HOST:PORT`, with a single process too")
      ->type_name("PORT")
      ->check(must_be("a port: a whole number to 65535, 0 for any that is free",
                      [](const std::string& text) { return parse_number<std::uint16_t>(text).has_value(); }));
  auto* detach =
      c->add_flag("--detach", a.run.detach,
                  "with --cluster: print the job's number and return; the job goes on, for the console and `troupe attach`");
  const auto [save, log, web] = add_results(c, a);
  for (auto* file : {save, log, trace, rounds, web})
    detach->excludes(file);
  detach->needs(cluster);
}

void add_attach(CLI::App& app, arguments& a) {
  CLI::App* c = add_command(app, "attach", "Follow a job that was submitted with run --detach, and fetch its result",
                            "troupe attach lab.toml 1 config/quickstart.toml --save digits.safetensors");
  c->add_option("cluster", a.run.cluster, "cluster file (TOML)")->type_name("CLUSTER.toml")->required()->check(a_name());
  c->add_option("number", a.run.attach, "the job's number")
      ->type_name("NUMBER")
      ->required()
      ->check(must_be("the number of a job: `jobs` in the console lists them",
                      [](const std::string& text) { return parse_number<std::uint64_t>(text).value_or(0) > 0; }));
  add_job(c, a)->required()->description("the file that it was submitted from, with the same flags");
  add_nodes(c, a);
  add_inject(c, a);
  add_results(c, a);
}

void add_compare(CLI::App& app, arguments& a) {
  CLI::App* c = add_command(app, "compare", "Run a job under several protocols or codecs, one after the other",
                            "troupe compare config/quickstart.toml --protocols sync,sync:fan_in=2 --plot loss.svg");
  add_job(c, a)->required();
  auto* protocols = c->add_option("--protocols", a.compare.protocols,
                                  "protocols to compare, with their parameters after the name: sync,local:steps=5,adacomm");
  c->add_option("--codecs", a.compare.codecs,
                "instead, under the job's protocol, codecs of pushes (codec.push), with other keys of [codec] after the name: "
                "none,int8,onebit:error_feedback=false")
      ->type_name("A,B,C")
      ->excludes(protocols->type_name("A,B,C"));
  add_nodes(c, a);
  add_inject(c, a);
  c->add_flag("--simulate", a.compare.simulate,
              "run in virtual time, without processes; pushes take the bytes of their codec, and their values become its");
  c->add_option("--plot", a.compare.plot, "draw loss and accuracy against time")->type_name("FILE.svg")->check(a_name());
  c->add_flag("--quiet", a.compare.quiet, "no progress and no events");
  add_json(c, a.compare.json);
}

void add_calibrate(CLI::App* c, std::string& trace) {
  c->add_option("--calibrate", trace, "use the times of a real run, from a file of run --trace, instead of emulated ones")
      ->type_name("TRACE");
}

void add_simulate(CLI::App& app, arguments& a) {
  CLI::App* c = add_command(app, "simulate", "Run a job in virtual time: the same protocol, without processes and waiting",
                            "troupe simulate config/quickstart.toml --set inject.step_ms=10 --straggler worker=1,factor=5");
  add_job(c, a)->required();
  add_inject(c, a);
  c->add_option("--workers", a.job.workers, "number of workers, instead of cluster.workers")->type_name("N");
  c->add_option("--seconds", a.simulate.seconds, "stop after this virtual time, instead of at the job's [stop]")
      ->type_name("T")
      ->check(must_be("a number of seconds above 0", [](const std::string& text) {
        const auto seconds = parse_number<double>(text);
        return seconds && *seconds > 0 && std::isfinite(*seconds);
      }));
  c->add_option("--steps", a.simulate.steps, "stop after this many versions of the parameters, instead of at the job's [stop]")
      ->type_name("K")
      ->check(must_be("a whole number above 0",
                      [](const std::string& text) { return parse_number<std::uint64_t>(text).value_or(0) > 0; }));
  add_calibrate(c, a.simulate.calibrate);
  add_json(c, a.simulate.json);
}

void add_replay(CLI::App& app, arguments& a) {
  CLI::App* c = add_command(app, "replay", "Compute the weights of a run anew, in one process, from its file of rounds",
                            "troupe replay config/quickstart.toml rounds.jsonl");
  add_job(c, a)->required();
  c->add_option("rounds", a.replay.rounds, "a file of run --rounds, of the same job and flags")
      ->type_name("FILE.jsonl")
      ->required()
      ->check(a_name());
  c->add_option("--resume", a.replay.resume, "the checkpoint that the run went on from")
      ->type_name("DIR/step-N")
      ->check(a_folder());
  add_json(c, a.replay.json);
}

/// A subcommand whose own source says its flags.
void add_described(CLI::App& app, arguments& a, const job_command& described, bool& json) {
  CLI::App* c = add_command(app, described.name, described.meaning, described.example);
  add_job(c, a)->required();
  for (const flag& each : described.flags) {
    CLI::Option* option = c->add_option_function<std::string>(
        each.name,
        [take = each.take, name = each.name](const std::string& text) {
          if (const auto wrong = take(text); !wrong.empty())
            throw CLI::ValidationError(name, wrong);
        },
        each.meaning);
    option->type_name(each.type)->required(each.value_without.empty())->default_str(each.value_without);
  }
  add_json(c, json);
}

void add_others(CLI::App& app, arguments& a) {
  CLI::App* evaluate = add_command(app, "evaluate", "Test saved weights on a job's test data",
                                   "troupe evaluate config/quickstart.toml --weights digits.safetensors");
  add_job(evaluate, a)->required();
  add_nodes(evaluate, a);
  evaluate->add_option("--weights", a.evaluate.weights, "a file of run --save")->type_name("FILE.safetensors")->required();
  add_json(evaluate, a.evaluate.json);

  add_described(app, a, generate_command(a.generate), a.generate.json);
  add_described(app, a, predict_command(a.predict), a.predict.json);
  add_described(app, a, export_command(a.exported), a.exported.json);

  CLI::App* node = add_command(app, "node", "Start one node of a cluster", "troupe node lab.toml --name a");
  auto* file = node->add_option("cluster", a.node.cluster,
                                "cluster file (TOML); with [cluster] journal = FOLDER in it, jobs outlive their coordinator");
  file->type_name("CLUSTER.toml");
  node->add_option("--name", a.node.name, "which node of the file this is")->type_name("NAME")->needs(file);
  node->add_flag("--once", a.node.once, "end when the coordinator does, instead of waiting for it to come back");
  auto* slurm = node->add_flag("--slurm", a.node.slurm, "a task of a Slurm step: srun -n 4 troupe node --slurm")->excludes(file);
  node->add_option("--run", a.node.run, "with --slurm: run this job, then end")->type_name("JOB.toml")->needs(slurm);
  auto* certs =
      node->add_option("--certs", a.node.certs, "with --slurm: folder with ca.pem and, for each node, NAME.pem and NAME.key");
  certs->type_name("FOLDER")->needs(slurm);
  node->add_flag("--insecure", a.node.insecure, "with --slurm: no certificates; only on a private network")
      ->needs(slurm)
      ->excludes(certs);

  CLI::App* console = add_command(app, "console", "Ask a running cluster what it does and why",
                                  "troupe console --cluster lab.toml -c ps -c 'why worker 2'");
  console->add_option("address", a.console.address, "where a coordinator listens; a run prints its address")
      ->type_name("HOST:PORT");
  console->add_option("--cluster", a.console.cluster, "cluster file, instead of an address")->type_name("CLUSTER.toml");
  console->add_option("-c", a.console.commands, "run this command and end, instead of showing a prompt (may be repeated)")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  console->add_flag("--json", a.console.json, "print one JSON object for each command, on a line of its own");

  CLI::App* check =
      add_command(app, "check", "Check a job file, its data and its model, and the nodes of a cluster; start nothing",
                  "troupe check config/mnist-mlp.toml --set data.path=data/mnist");
  add_job(check, a);
  add_nodes(check, a);
  add_inject(check, a);
  add_calibrate(check, a.check.calibrate);
  check
      ->add_option(
          "--cluster", a.check.cluster,
          "check it against this cluster file and ask the cluster's nodes what they have; exit code 2: a node is missing, "
          "silent or different; 0: all is well, or the files are right and no cluster runs")
      ->type_name("CLUSTER.toml");
  check->add_flag("--keys", a.check.keys, "list the keys of a job file instead, with the values that they accept");
  add_json(check, a.check.json);

  for (const plain_command& each : plain_commands)
    add_json(add_command(app, each.name, each.meaning, each.example), a.plain.json);

  CLI::App* bench =
      add_command(app, "bench", "Measure lanes, collectives, kernels, codecs, training steps or actors, each beside its baseline",
                  "troupe bench step --model mlp --batch 128");
  bench->add_option("benchmark", a.bench.benchmark, "lanes, collectives, kernels, codecs, step or actors")
      ->type_name("BENCHMARK")
      ->required()
      ->check(CLI::IsMember({"lanes", "collectives", "kernels", "codecs", "step", "actors"}));
  bench->add_option("--backend", a.bench.backend, "cpu or cuda:N")->type_name("DEVICE")->capture_default_str();
  bench
      ->add_option("--model", a.bench.model,
                   "for step and actors; default: mlp for step; for actors mlp and mnist-cnn, on a GPU wide too")
      ->type_name("MODEL")
      ->check(CLI::IsMember(bench_models()));
  bench->add_option("--batch", a.bench.batch, "step, actors: samples a step; default: the model's usual ones")
      ->type_name("B")
      ->check(CLI::Range(1, 65536));
  bench->add_option("--precision", a.bench.precision, "step, actors: precision of products on a GPU: fp32, tf32 or bf16")
      ->type_name("P")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}))
      ->capture_default_str();
  bench->add_option("--procs", a.bench.procs, "collectives: processes of this machine that make sums; default: 2")
      ->type_name("P")
      ->check(CLI::Range(2, 16));
  bench
      ->add_option("--algorithm", a.bench.algorithm,
                   "collectives: direct, ring, halving, tree or broadcast; default: the first four")
      ->type_name("A")
      ->check(CLI::IsMember({"direct", "ring", "halving", "tree", "broadcast"}));
  bench->add_flag("--sockets", a.bench.sockets, "collectives: payloads go through sockets, as they do between hosts");
  bench->add_flag("--tiny", a.bench.tiny, "tiny sizes, to try the benchmark itself; the figures mean nothing");
  add_json(bench, a.bench.json);
}

void add_certs(CLI::App& app, arguments& a) {
  CLI::App* certs =
      add_command(app, "certs", "Make certificates with which a cluster's nodes authenticate each other",
                  "troupe certs init lab --name lab\n  troupe certs issue lab --node a --host 10.0.0.1 --out for-a\n"
                  "  troupe certs issue lab --node client --role console --out for-me   (for run, check and console)");
  certs->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& meaning, const std::string& example, int& days) {
    CLI::App* c = add_command(*certs, name, meaning, example);
    c->add_option("folder", a.certs.folder, "the authority's folder, with ca.pem and ca.key")->type_name("FOLDER")->required();
    c->add_option("--days", days, "how many days it is valid")
        ->type_name("N")
        ->check(CLI::Range(1, 36500))
        ->capture_default_str();
    add_json(c, a.certs.json);
    return c;
  };
  CLI::App* init = add("init", "Make a private authority", "troupe certs init lab --name lab", a.certs.init_days);
  init->add_option("--name", a.certs.name, "the authority's name")->type_name("NAME")->capture_default_str();
  CLI::App* issue = add("issue", "Sign a key and a certificate for a node",
                        "troupe certs issue lab --node a --host 10.0.0.1 --host a.lab --out for-a", a.certs.issue_days);
  issue
      ->add_option("--node", a.certs.node,
                   "its name in the cluster file; for users of run, check and console: client, or any other")
      ->type_name("NAME")
      ->required();
  issue
      ->add_option("--role", a.certs.role,
                   "what its owner may do: a node joins a cluster; a console looks and gives orders, for run, check and console")
      ->type_name("node|console")
      ->check(CLI::IsMember({"node", "console"}))
      ->capture_default_str();
  issue->add_option("--host", a.certs.hosts, "name or address that others reach it by (may be repeated)")
      ->type_name("HOST")
      ->allow_extra_args(false);
  issue->add_option("--out", a.certs.out, "folder for its files and a copy of ca.pem, to carry to the node")->type_name("FOLDER");
  issue->callback([&a] { a.certs.action = certs_options::verb::issue; });
  CLI::App* revoke = add_command(*certs, "revoke", "Write the list of certificates that are not accepted any more",
                                 "troupe certs revoke lab --node c\n  troupe certs revoke lab   (a list to begin with)");
  revoke->add_option("folder", a.certs.folder, "the authority's folder, with ca.pem and ca.key")->type_name("FOLDER")->required();
  CLI::Option* node = revoke->add_option("--node", a.certs.node, "all certificates that were issued to this name so far");
  node->type_name("NAME");
  revoke->add_option("--certificate", a.certs.certificate, "the certificate in this PEM file")->type_name("FILE")->excludes(node);
  add_json(revoke, a.certs.json);
  revoke->callback([&a] { a.certs.action = certs_options::verb::revoke; });
}

void add_checkpoint(CLI::App& app, arguments& a) {
  CLI::App* checkpoint = add_command(app, "checkpoint", "List, check and export the checkpoints of a job",
                                     "troupe checkpoint list CHECKPOINTS\n  troupe checkpoint verify CHECKPOINTS/step-400\n"
                                     "  troupe checkpoint export CHECKPOINTS --to digits.safetensors");
  checkpoint->require_subcommand(1);
  using verb = checkpoint_options::verb;
  const auto add = [&](const std::string& name, verb action, const std::string& meaning, const std::string& example) {
    CLI::App* c = add_command(*checkpoint, name, meaning, "troupe checkpoint " + example);
    c->add_option("folder", a.checkpoint.folder,
                  action == verb::list ? "folder of checkpoints" : "folder of checkpoints, or one of its step-N")
        ->type_name("FOLDER")
        ->required()
        ->check(a_folder());
    add_json(c, a.checkpoint.json);
    c->callback([&a, action] { a.checkpoint.action = action; });
    return c;
  };
  add("list", verb::list, "List them, newest last, and read all of each to tell whether it is good", "list CHECKPOINTS");
  add("inspect", verb::inspect, "Show what is in one; of a folder, in the newest good one", "inspect CHECKPOINTS/step-400");
  add("verify", verb::verify, "Read every checksum; exit code 1 and a line for each file that is damaged", "verify CHECKPOINTS");
  add("export", verb::export_parameters, "Write the parameters of one as safetensors; of a folder, of the newest good one",
      "export CHECKPOINTS --to digits.safetensors")
      ->add_option("--to", a.checkpoint.to, "file to write")
      ->type_name("FILE.safetensors")
      ->required()
      ->check(a_name());
}

void add_weights(CLI::App& app, arguments& a) {
  CLI::App* weights =
      add_command(app, "weights", "List, compare and convert files of weights, those of other programs too",
                  "troupe weights list gpt2/model.safetensors\n  troupe weights diff before.safetensors after.safetensors\n"
                  "  troupe weights convert mine.safetensors --to theirs.safetensors --names huggingface");
  weights->require_subcommand(1);
  weights_options& to = a.weights;
  using verb = weights_options::verb;
  const auto add = [&](const std::string& name, verb action, const std::string& meaning, const std::string& example) {
    CLI::App* c = add_command(*weights, name, meaning, "troupe weights " + example);
    c->add_option("file", to.file, "file of weights, or the index of several (model.safetensors.index.json)")
        ->type_name("FILE")
        ->required()
        ->check(a_name());
    add_json(c, to.json);
    c->callback([&to, action] { to.action = action; });
    return c;
  };
  add("list", verb::list, "Show its tensors and its metadata", "list gpt2/model.safetensors");
  add("diff", verb::diff, "Compare two files tensor by tensor; exit code 1: they differ",
      "diff before.safetensors after.safetensors")
      ->add_option("other", to.other, "the file to compare it with")
      ->type_name("FILE")
      ->required()
      ->check(a_name());
  CLI::App* convert = add("convert", verb::convert, "Write it with other names or another type of numbers",
                          "convert gpt2/model.safetensors --to gpt2.safetensors --type bf16");
  convert->add_option("--to", to.to, "file to write")->type_name("FILE.safetensors")->required()->check(a_name());
  add_names(convert, to.names);
  convert->add_option("--type", to.type, "type of its numbers: f32, f16 or bf16")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
}

exit_code refuse_usage(const std::string& message, const std::string& command) {
  fmt::print(stderr, "troupe: {}; see `troupe {}--help`\n", message, command.empty() ? "" : command + " ");
  return exit_usage;
}

std::variant<command_options, exit_code> options_of(const std::string& name, arguments& a) {
  a.run.has_web = std::ranges::any_of(a.webs, [](const CLI::Option* each) { return each->count() > 0; });
  if (name == "run" && a.job.file.empty()
      && !actors::net::parse_web_address(a.run.web)) // run --web JOB.toml: it took the wrong one
    a.job.file = std::exchange(a.run.web, {});
  if (name == "run" && a.job.file.empty())
    return refuse_usage("job is required", name);
  if (const std::string idle = idle_flag(a.bench); !idle.empty())
    return refuse_usage(idle, name);
  const auto job = job_of(a.job, !a.run.resume.empty() || !a.replay.resume.empty(), a.node.added);
  if (!job) {
    fmt::print(stderr, "{}", job.error().text());
    return exit_usage;
  }
  if (name == "compare" && a.compare.simulate && !a.job.nodes.empty())
    fmt::print(stderr,
               "--nodes: note: --simulate starts no process; the number counts only where cluster.workers follows from it\n");
  a.run.job = a.evaluate.job = a.generate.job = a.predict.job = a.exported.job = a.check.job = a.compare.job = a.simulate.job =
      a.replay.job = *job;
  if (name == "compare" && a.compare.protocols.empty() && a.compare.codecs.empty())
    return refuse_usage("--protocols or --codecs is required", name);
  if (name == "node" && !a.node.slurm && (a.node.cluster.empty() || a.node.name.empty()))
    return refuse_usage("cluster and --name are required (or --slurm, under srun)", name);
  if (name == "check" && a.job.file.empty() && !a.check.keys)
    return refuse_usage("job is required", name);
  if (const auto* plain = std::ranges::find(plain_commands, name, &plain_command::name); plain != std::end(plain_commands)) {
    a.plain.carry_out = plain->carry_out;
    return a.plain;
  }
  const std::pair<std::string, command_options> all[] = {{"run", a.run},           {"attach", a.run},
                                                         {"compare", a.compare},   {"simulate", a.simulate},
                                                         {"evaluate", a.evaluate}, {"generate", a.generate},
                                                         {"predict", a.predict},   {"export", a.exported},
                                                         {"node", a.node},         {"check", a.check},
                                                         {"bench", a.bench},       {"certs", a.certs},
                                                         {"console", a.console},   {"checkpoint", a.checkpoint},
                                                         {"replay", a.replay},     {"weights", a.weights}};
  return std::ranges::find(all, name, &std::pair<std::string, command_options>::first)->second;
}

/// What an unexpected argument was likely meant to be: a subcommand or, for a flag, another flag of the subcommand or a key of
/// the job. Empty: unknown.
std::string likely_meant(const CLI::App& app, const std::string& unexpected, const std::string& value,
                         const actors::extensions& added) {
  std::vector<std::string> names;
  if (!unexpected.starts_with("--")) {
    for (const CLI::App* command : app.get_subcommands({}))
      names.push_back(command->get_name());
    return config::nearest(unexpected, names);
  }
  for (const CLI::Option* option : app.get_options())
    names.push_back("--" + option->get_single_name());
  return likely_flag(names, unexpected, value, added);
}

/// The unexpected words of the command line, in their order.
std::vector<std::string> unexpected_words(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> left = app.remaining(true), in_order;
  for (const std::string& word : words)
    if (const auto found = std::ranges::find(left, word); found != left.end()) {
      in_order.push_back(word);
      left.erase(found);
    }
  return in_order;
}

/// A message about unexpected words.
std::string explain_unexpected(const CLI::App& command, const std::vector<std::string>& unexpected,
                               const actors::extensions& added) {
  std::string message = fmt::format("not expected: {}", fmt::join(unexpected, " "));
  for (std::size_t i = 0; i < unexpected.size(); ++i) {
    const auto equals = unexpected[i].find('=');
    const bool with_value = equals == std::string::npos && i + 1 < unexpected.size() && !unexpected[i + 1].starts_with("--");
    const std::string value = equals != std::string::npos ? unexpected[i].substr(equals + 1)
                              : with_value                ? unexpected[i + 1]
                                                          : "";
    message += config::did_you_mean(likely_meant(command, unexpected[i], value, added));
  }
  return message;
}

} // namespace

std::variant<command_options, exit_code> parse_command_line(int argc, const char* const* argv, const actors::extensions& added) {
  CLI::App app("Trains models on a cluster of actors.", "troupe");
  app.footer(
      "Example:\n  troupe run config/quickstart.toml --nodes 3\n\n`troupe COMMAND --help` has an example for each command.");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("troupe {}", TROUPE_VERSION));
  arguments a;
  a.node.added = added;
  a.plain.added = added;
  add_run(app, a);
  add_attach(app, a);
  add_compare(app, a);
  add_simulate(app, a);
  add_replay(app, a);
  add_others(app, a);
  add_certs(app, a);
  add_checkpoint(app, a);
  add_weights(app, a);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") { // as many programs take it
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend())); // CLI11 takes them from the back
  } catch (const CLI::Success& help) {
    app.exit(help, std::cout, std::cerr);
    return exit_done;
  } catch (const CLI::ParseError& e) {
    const CLI::App* named = &app;
    std::string path; // "certs issue"
    for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = named->get_subcommands()) {
      named = chosen.front();
      path += (path.empty() ? "" : " ") + named->get_name();
    }
    const CLI::App& command = *named;
    std::string message = e.what();
    if (const auto unexpected = unexpected_words(app, words); !unexpected.empty()) {
      const bool no_command = path.empty() && !unexpected.front().starts_with('-');
      message = no_command ? fmt::format("there is no command {}{}", unexpected.front(),
                                         config::did_you_mean(likely_meant(command, unexpected.front(), "", added)))
                           : explain_unexpected(command, unexpected, added);
    }
    return refuse_usage(message, path);
  }
  return options_of(app.get_subcommands().front()->get_name(), a);
}

} // namespace troupe::apps
