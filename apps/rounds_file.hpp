// SPDX-License-Identifier: BSD-3-Clause
// The file of `run --rounds`: what each version was made of, for `troupe replay`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/run_observer.hpp"
#include "apps/config/job_file.hpp"

namespace troupe::apps {

/// Why the job's versions cannot be computed from its rounds: a protocol whose workers keep something between rounds, or that has
/// no rounds; sums, devices and images of parameters whose bits one process on a CPU does not repeat. Empty: they can.
config::problems cannot_replay(const config::loaded_job& loaded);

/// By job key, as text, what the bits of its versions depend on.
std::map<std::string, std::string> rounds_facts(const config::loaded_job& loaded);

/// Writes the file, line by line. Each line is a JSON object:
///
///   {"troupe_rounds":1,"job":NAME,"version":FROM,"facts":{KEY:TEXT,..}}      the first: the job, and the version it begins with
///   {"epoch":1,"members":[[WORKER,LIFE],..]}                                 a plan, before the first version of its rounds
///   {"version":1,"position":0,"epoch":1,"workers":4,"samples_before":0,
///    "lr_scale":"1","contributions":[[WORKER,LIFE,CLOCK,"WEIGHT"],..]}       a version, in the order of summing
///   {"end":60,"weights_digest":TEXT}                                         the last: the weights of which version
///
/// Weights are decimal texts that give the same double again. Thread-safe.
class rounds_writer {
public:
  /// Throws std::runtime_error where the file cannot be opened.
  rounds_writer(const std::string& path, const config::loaded_job& job, protocols::version from);
  ~rounds_writer();
  rounds_writer(const rounds_writer&) = delete;
  rounds_writer& operator=(const rounds_writer&) = delete;

  /// A file that cannot be written any more is said once on stderr, and then left alone.
  void add(const std::vector<actors::made_round>& rounds);
  void end(protocols::version of, const std::string& weights_digest);

private:
  void write(const std::string& lines);

  std::string path_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  protocols::plan_epoch told_; ///< the newest plan in the file
};

/// The file's content.
struct rounds_file {
  std::string job{};
  protocols::version from{};
  std::map<std::string, std::string> facts{};
  std::map<protocols::plan_epoch, std::vector<protocols::member>> plans{};
  std::vector<protocols::round_record> rounds{}; ///< of versions without a gap; no push is in two of them
  protocols::version end{};                      ///< one of these, or `from`
  std::string weights_digest{};                  ///< of that version, as the run had it
};

/// Refuses, with file and line, what is cut off, or what no lead can have decided.
config::checked<rounds_file> read_rounds(const std::string& path);
/// The same of a file's bytes; `path` is for messages.
config::checked<rounds_file> parse_rounds(const std::string& path, const std::string& text);

/// Facts that the job and the file's do not share.
config::problems other_facts(const config::loaded_job& loaded, const rounds_file& file, const std::string& path);

} // namespace troupe::apps
