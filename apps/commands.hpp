// SPDX-License-Identifier: BSD-3-Clause
// The subcommands of `troupe`: the options of each, as plain structs, and the function that carries it out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "apps/config/cluster_file.hpp"
#include "apps/config/job_file.hpp"
#include "apps/flags.hpp"

namespace troupe::apps {

/// The program's exit codes.
enum exit_code : int {
  exit_done = 0,
  exit_failed = 1,        ///< the job failed; the reason is on stderr
  exit_usage = 2,         ///< wrong usage or configuration, found before anything starts
  exit_interrupted = 130, ///< Ctrl-C
};

/// A job and the command line's changes to it: --set, --nodes, --seed, --straggler and similar flags all become settings.
struct job_options {
  std::string file;
  std::vector<config::setting> sets;
  actors::extensions added; ///< models, data sources and protocols that this program adds to Troupe's
};

struct run_options {
  job_options job;
  std::string cluster;                 ///< cluster file; empty: an embedded cluster on loopback
  std::string resume;                  ///< a checkpoint, or a folder of them: the newest good one; empty: begin at step 0
  std::string save, log, trace;        ///< files to write; empty: none
  std::string names = "troupe";        ///< of the tensors in `save`: "troupe" or "huggingface"
  std::string rounds;                  ///< likewise, what each version was made of
  bool detach = false;                 ///< with a cluster: print the job's number and return, while the job goes on
  std::uint64_t attach = 0;            ///< `attach`: follow this job of the cluster, which was detached; 0: submit one
  std::optional<std::uint16_t> listen; ///< port of an embedded cluster for consoles
  bool has_web = false;
  std::string web; ///< where the web page is served; empty: the default address
  bool json = false, quiet = false;
};

struct evaluate_options {
  job_options job;
  std::string weights;
  bool json = false;
};

struct generate_options {
  job_options job;
  std::string weights, start;
  std::uint64_t tokens = 200; ///< how many ids are added
  double temperature = 0.8;   ///< 0: the likeliest id each time
  std::uint64_t top_k = 0;    ///< 0: all ids may be drawn
  bool json = false;
};

struct predict_options {
  job_options job;
  std::string weights, input, output;
  bool json = false;
};

struct export_options {
  job_options job;
  std::string weights, onnx;
  bool json = false;
};

struct node_options {
  std::string cluster, name;
  bool once = false;        ///< ends when the coordinator does
  bool slurm = false;       ///< a task of a Slurm step: no cluster file
  std::string run;          ///< with slurm: job file that the first task submits; all end with it
  std::string certs;        ///< with slurm: folder of ca.pem, NAME.pem, NAME.key
  bool insecure = false;    ///< with slurm: no certificates
  actors::extensions added; ///< by this program
};

class signal_waiter;
/// A node of another program than this, whose coordinator is another process.
struct member_part {
  config::cluster cluster;
  std::string self; ///< a name in it
  actors::extensions added;
  std::chrono::seconds patience{20}; ///< how long it waits for its coordinator
  bool quiet = false;
  std::function<std::string()> parting{}; ///< see membership_options
};
/// Until its cluster ends; returns why it is not well: it could not join, its cluster is gone, or the reason with which that has
/// ended. In a library too: see signal_waiter.
std::string run_member(const member_part& part, signal_waiter& signals);

struct check_options {
  job_options job;
  std::string cluster;
  std::string calibrate; ///< as in simulate_options
  bool keys = false;     ///< list the keys of a job file instead
  bool json = false;
};

/// Of a subcommand that takes no flag but --json.
struct plain_options {
  int (*carry_out)(const plain_options&) = nullptr;
  actors::extensions added; ///< by this program
  bool json = false;
};

struct bench_options {
  std::string benchmark; ///< "lanes" | "kernels" | "step" | "actors" | "codecs" | "collectives"
  std::string backend = "cpu";
  std::string model;      ///< a model of direct_step_bench; empty: mlp, or for `actors` all that a release is judged by
  std::int64_t batch = 0; ///< 0: the model's usual one
  std::string precision = "fp32";
  std::uint32_t procs = 0; ///< of collectives; 0: 2
  std::string algorithm;   ///< of collectives; empty: each
  bool sockets = false;    ///< of collectives: no process reads another's memory
  bool tiny = false;       ///< tiny sizes, to try the benchmark itself; the figures mean nothing
  bool json = false;
};

struct compare_options {
  job_options job;
  std::string protocols; ///< "sync,local:steps=5"; or
  std::string codecs;    ///< "none,onebit:error_feedback=false", one of both
  std::string plot;      ///< SVG file to write; empty: none
  bool simulate = false; ///< in virtual time
  bool json = false, quiet = false;
};

struct simulate_options {
  job_options job;
  double seconds = 0;      ///< of virtual time; with `steps` instead of the job's [stop]; 0: none
  std::uint64_t steps = 0; ///< 0: none
  std::string calibrate;   ///< trace of a real run; empty: none
  bool json = false;
};

/// Computes the weights of a run anew, from its file of rounds.
struct replay_options {
  job_options job;
  std::string rounds; ///< a file of run --rounds
  std::string resume; ///< the checkpoint with which that run began; empty: it began at step 0
  bool json = false;
};

/// Makes an authority, or has it issue a node's certificate.
struct certs_options {
  enum class verb : std::uint8_t { init, issue, revoke } action = verb::init;
  std::string folder;             ///< the authority's
  std::string name = "troupe";    ///< init: the authority's
  std::string node;               ///< issue: the node that gets the certificate; revoke: whose are revoked
  std::string certificate;        ///< revoke: the file of one
  std::vector<std::string> hosts; ///< issue: names and addresses of the node
  std::string out;                ///< issue: where the files go; empty: `folder`
  std::string role = "node";      ///< issue: "node" or "console"
  int init_days = 3650, issue_days = 365;
  bool json = false;
};

/// Looks at checkpoints, and exports the parameters of one.
struct checkpoint_options {
  enum class verb : std::uint8_t { list, inspect, verify, export_parameters } action = verb::list;
  std::string folder; ///< of checkpoints, or of one
  std::string to;     ///< export: safetensors file to write
  bool json = false;
};

/// Looks at files of weights, and writes one with other names or numbers.
struct weights_options {
  enum class verb : std::uint8_t { list, diff, convert } action = verb::list;
  std::string file;
  std::string other;            ///< diff: the second
  std::string to;               ///< convert: the file to write
  std::string names = "troupe"; ///< convert: "troupe" or "huggingface"
  std::string type = "f32";     ///< convert: "f32", "f16" or "bf16"
  bool json = false;
};

struct console_options {
  std::string address;               ///< HOST:PORT of a coordinator, instead of a cluster file
  std::string cluster;               ///< cluster file
  std::vector<std::string> commands; ///< to run instead of showing a prompt
  bool json = false;
};

using command_options = std::variant<run_options, evaluate_options, generate_options, predict_options, export_options,
                                     node_options, check_options, plain_options, bench_options, compare_options, simulate_options,
                                     replay_options, certs_options, checkpoint_options, weights_options, console_options>;

/// Carries out a subcommand and returns an exit_code. Results go to stdout, progress and reasons to stderr.
int execute(const run_options& options);
int execute(const evaluate_options& options);
int execute(const generate_options& options);
int execute(const predict_options& options);
int execute(const export_options& options);
int execute(const node_options& options);
int execute(const check_options& options);
inline int execute(const plain_options& options) {
  return options.carry_out(options);
}
int execute(const bench_options& options);
/// What is wrong with its flags: one that has no meaning for this benchmark; empty: nothing.
std::string idle_flag(const bench_options& options);
int execute(const compare_options& options);
int execute(const simulate_options& options);
int execute(const replay_options& options);
int execute(const certs_options& options);
int execute(const checkpoint_options& options);
int execute(const weights_options& options);
int execute(const console_options& options);

/// The flags of subcommands whose own sources say them.
job_command generate_command(generate_options& into);
job_command predict_command(predict_options& into);
job_command export_command(export_options& into);

int print_devices(const plain_options& options);
int print_protocols(const plain_options& options);
int print_version(const plain_options& options);

/// A subcommand that takes no flag but --json.
struct plain_command {
  const char *name, *meaning, *example;
  int (*carry_out)(const plain_options&);
};

/// In the order of the help.
inline constexpr plain_command plain_commands[]{
    {"devices", "List the devices that can compute", "troupe devices", print_devices},
    {"protocols", "List the protocols and their parameters", "troupe protocols", print_protocols},
    {"version", "Print the version and what it is built with", "troupe version --json", print_version}};

} // namespace troupe::apps
