// SPDX-License-Identifier: BSD-3-Clause
// Job files: from TOML and --set to a job with every value resolved, or to all its errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <boost/json/fwd.hpp>

#include "actors/extensions.hpp"
#include "actors/job.hpp"
#include "apps/config/problem.hpp"
#include "apps/config/value.hpp"

namespace troupe::config {

/// A value from the command line, which wins over the file's.
struct setting {
  std::string key;   ///< "data.batch"
  std::string value; ///< TOML; what is not TOML is a string; empty: the key is unset
  std::string flag;  ///< the flag that gave it, for messages: "--set data.batch", "--nodes"; empty: "--set KEY"
  bool adds = false; ///< adds to the values of the file and earlier flags instead of replacing them: --straggler, --link, --fault
};

/// Splits the argument of `--set`; an argument without `=` or without a key is a problem.
checked<setting> parse_setting(const std::string& argument);

/// One value of a loaded job, for `check` and for the `config` object of results.
struct resolved_value {
  std::string key;   ///< "data.batch"
  value resolved;    ///< none where it was not given or does not apply
  std::string from;  ///< "job file line 12", "default", "--set", "--nodes", or what it was derived from
  std::string where; ///< "job.toml:12:9", or "--set data.batch"; where it was not given, its section or the top of the file
};

/// One straggler or fault of `[inject]`.
struct injected {
  std::string spec;  ///< as the command line would spell it: "worker=1,factor=5"
  std::string where; ///< "job.toml:12:1", "--straggler worker=1,factor=5"
};

/// A job file, checked.
struct loaded_job {
  actors::job job;
  std::string file;
  actors::extensions added;                 ///< the program's extensions that it was read with
  std::string model_kind;                   ///< "mlp", an extension's kind, or empty where the file lists layers
  std::vector<std::int64_t> hidden;         ///< of kind = "mlp"
  std::vector<injected> stragglers, faults; ///< those of job.inject, in its order
  std::string numerics = "model";           ///< of `simulate`: "model" | "quadratic"
  bool respawn = true;                      ///< of `run` without --cluster: a process of its own that dies is started anew
  /// `[protocol.NAME]` tables of protocols other than the job's own, for `compare`.
  std::map<std::string, protocols::protocol_spec> further_protocols;
  std::vector<resolved_value> values; ///< every key, in the order of the documentation
  problems left_out;                  ///< keys of the file that the command line made meaningless, each with the reason
};

/// Reads and checks a job file: its keys one by one, the rules between them, and finally the checks of the layers that will run
/// it
/// (`actors::check_job`). A key of the file that a choice of the command line (`optimizer.name`) makes meaningless is left out,
/// with a note; any other key without a meaning is refused. All problems at once, in the order of the file, then of the command
/// line. Does not look at data, weights or devices. Relative paths in a job stand as they are: relative to the current
/// directory. `protocol` replaces the job's protocol by one as `compare --protocols` names it, "local:steps=5": parameters follow
/// the name and win over those of the file's [protocol.NAME]; empty: the job's own. `added`: models, data sources and protocols
/// that a job may name besides Troupe's own.
checked<loaded_job> load_job(const std::string& path, const std::vector<setting>& sets = {}, const std::string& protocol = {},
                             const actors::extensions& added = {});

/// What is wrong with what a program wants to add: names that are taken or no names, parameters that are keys already, functions
/// that are missing; a sentence each. Empty: nothing.
std::vector<std::string> check_extensions(const actors::extensions& added);

/// What of a job only the simulator can play: faults other than a crash for good. Empty: a real run plays all of it.
problems only_simulated(const loaded_job& loaded);

/// What keeps a job from processes, though not from virtual time: more workers than a message between nodes can list.
problems process_limits(const loaded_job& loaded);

/// The keys of a job file, for people: a line each with what it accepts, its default and its meaning.
std::string describe_keys(const actors::extensions& added = {});

/// What a key means, and where it is one of several texts, those.
struct key_facts {
  std::string meaning;
  std::vector<std::string> choices;
};
key_facts facts_of_key(const std::string& key);

/// Fills in what only the data knows: the layers of kind = "mlp" end in `classes` outputs. load_job already assumes ten
/// classes for digits, idx and cifar10; call this once the data is loaded, and always for other sources. Does nothing for a job
/// that lists its layers.
void complete_model(loaded_job& loaded, int classes);

/// Where the value of `key` stands, for what turns out wrong with it later: "job.toml:12:9".
std::string where_of(const loaded_job& loaded, const std::string& key);

/// Every value as resolved, one object per section: the `config` of `run --json`.
boost::json::object to_json(const loaded_job& loaded);

} // namespace troupe::config
