// SPDX-License-Identifier: BSD-3-Clause
// A run of the C library.
#include "apps/library/library_run.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include "apps/commands.hpp"
#include "apps/embedded_cluster.hpp"
#include "apps/report.hpp"
#include "apps/run_cluster.hpp"
#include "kernels/backend.hpp"
#include "protocols/catalog.hpp"

namespace troupe::apps {

namespace {

/// A caller that does not follow loses the oldest.
constexpr std::size_t most_lines = 10'000;
[[noreturn]] void refuse_with(const config::problems& wrong) {
  throw std::runtime_error(config::refusal{wrong}.text());
}

/// The threads that this one starts block what it blocks: signals stay those of the caller's threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

struct child_words {
  std::string file, name;
};

/// "node\nFILE\n--name\nNAME\n--once", as embedded_cluster has it.
child_words child_words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.size() != 5 || words[0] != "node" || words[2] != "--name" || words[4] != "--once")
    throw std::runtime_error("TROUPE_NODE is not what a run of Troupe has put there; start the script without it");
  return {words[1], words[3]};
}

/// Whether the settings let other processes than the first one hold parameters.
bool spreads_shards(const std::vector<std::string>& sets) {
  return std::ranges::any_of(sets, [](const std::string& each) {
    return (each.starts_with("cluster.shards=") || each.starts_with("cluster.replicas=")) && !each.ends_with("=1");
  });
}

config::problems cannot_be_sent(const config::loaded_job& loaded) {
  auto wrong = config::only_simulated(loaded);
  return wrong.empty() ? config::process_limits(loaded) : wrong;
}

std::vector<role_memory> roles_of(const prepared_job& prepared) {
  const auto facts = memory_facts_of(prepared.config, prepared.network, prepared.data);
  if (!facts)
    refuse_with(facts.error().all);
  return estimate_memory(prepared.config.job, *facts, prepared.config.added.protocols);
}

/// Why workers of this job cannot take steps that the caller computes; empty: they can.
std::string no_own_steps(const config::loaded_job& loaded) {
  const auto& job = loaded.job;
  auto expected = optimizer_spec{};
  expected.name = "sgd";
  expected.lr = 1;
  expected.freeze = job.optimizer.freeze;
  if (job.optimizer != expected)
    return "the caller's optimizer takes the steps, and this job sets optimizer keys; leave those out";
  for (const auto& planned : protocols::planned_protocols(job.protocol, loaded.added.protocols)) {
    const auto keeps = planned.keeps ? planned.keeps(job.protocol) : protocols::footprint{};
    if (!keeps.replica || keeps.dual || keeps.velocity)
      return fmt::format("under {} {}; the caller's optimizer can take the workers' own steps of local, adacomm, easgd without "
                         "momentum, and gossip",
                         planned.name,
                         keeps.replica     ? "workers take steps of the protocol's own"
                         : planned.reduces ? "all workers take the same steps"
                                           : "workers take no steps");
  }
  return {};
}

} // namespace

library_run::library_run(library_options options) : process_(getpid()) {
  if (options.model && !options.cluster.of.empty()) {
    cluster_ = find_script_cluster(options.cluster, options.node);
  } else if (!options.node.empty()) {
    const auto words = child_words_of(options.node);
    auto read = config::load_cluster(words.file, words.name);
    if (!read)
      throw std::runtime_error(read.error().text());
    cluster_ = script_cluster{std::move(*read), words.name};
    last_words_ = last_words_file(words.file, words.name);
    is_child_ = true;
  }
  const bool first = !cluster_ || cluster_->coordinates();
  if (options.model) {
    auto& its = options.model->facts;
    its.same_start = first && (cluster_ || spreads_shards(options.sets));
    layout_ = its.layout;
    tasks_ = std::make_shared<foreign_queue>(std::move(options.model->initial));
    added_ = foreign_extensions(its, tasks_);
  }
  if (first)
    prepare(options);
  thread_ = std::thread{[this, options = std::move(options)] { run(options); }};
}

library_run::~library_run() {
  for (int times = 0; times < 2 && !over(); ++times) {
    stop();
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, std::chrono::seconds{times == 0 ? 2 : 0}, [this] { return over_; });
  }
  thread_.join();
}

void library_run::prepare(const library_options& options) {
  std::vector<config::setting> sets;
  const auto set = [&](const char* key, const std::string& value, const char* by) { sets.push_back({key, value, by, false}); };
  if (options.model) {
    set("data.source", foreign_name, "the module");
    set("model.kind", foreign_name, "the module");
  }
  if (options.model && options.model->own_optimizer) {
    set("optimizer.name", "sgd", "own_optimizer");
    set("optimizer.lr", "1", "own_optimizer");
  }
  if (cluster_ && cluster_->nodes.coordinator().worker)
    set("cluster.placement", "colocated", "cluster");
  for (const auto& text : options.sets) {
    auto parsed = config::parse_setting(text);
    if (!parsed)
      throw std::runtime_error(parsed.error().text());
    sets.push_back(std::move(*parsed));
  }
  const job_options job{options.job.empty() ? "/dev/null" : options.job, std::move(sets), added_};
  std::optional<config::cluster> where;
  if (cluster_)
    where = cluster_->nodes;
  else if (!options.cluster.of.empty())
    where = find_cluster_of_nodes(options.cluster.of);
  auto loaded = load_job(job, where);
  if (!loaded)
    throw std::runtime_error(loaded.error().text());
  if (auto why = options.model && options.model->own_optimizer ? no_own_steps(*loaded) : ""; !why.empty())
    throw std::runtime_error("own_optimizer: " + why);
  print_notes(loaded->left_out);
  auto prepared = prepare_job(std::move(*loaded), std::move(where), true);
  if (!prepared)
    throw std::runtime_error(prepared.error().text());
  if (auto wrong = prepared->cluster ? cannot_be_sent(prepared->config) : cannot_run_here(*prepared); !wrong.empty())
    refuse_with(wrong); // on a cluster the memory of other hosts counts
  if (prepared->cluster && !options.model)
    roles_ = roles_of(*prepared);
  prepared->data = {};
  layout_ = prepared->network.layout();
  job_ = std::move(*prepared);
}

void library_run::run(const library_options& options) {
  block_signals();
  kernels::open_backend({}); // ends the threads of OpenBLAS, which block nothing
  if (job_)
    run_here(options);
  else
    run_joined(options);
}

void library_run::run_joined(const library_options& options) {
  std::string why;
  try {
    why = run_member({.cluster = cluster_->nodes,
                      .self = cluster_->self,
                      .added = added_,
                      .patience = is_child_ ? std::chrono::seconds{20} : options.patience,
                      .quiet = !options.loud,
                      .parting = [this] { return parting(); }},
                     signals_);
  } catch (const std::exception& e) {
    why = e.what();
  }
  if (is_child_ && !why.empty())
    fmt::print(stderr, "troupe: {}\n", why);
  else if (!is_child_ && !signals_.interrupted())
    cut_short_ = why;
  end(std::nullopt);
}

void library_run::run_here(const library_options& options) {
  job_outcome outcome;
  try {
    run_view view{.quiet = !options.loud, .lines = [this](const std::string& line) { add_line(line); }};
    view.children.words = options.program;
    if (job_->network.computed_by()) {
      view.children.variable = "TROUPE_NODE";
      view.join_timeout = options.patience;
      view.hosts = cluster_ ? &cluster_->nodes : nullptr;
    }
    outcome = job_->cluster && !cluster_ ? run_on_cluster(*job_->cluster, job_->config, roles_, job_->network, view, signals_)
                                         : run_job(job_->config, job_->network, view, signals_);
  } catch (const std::exception& e) {
    outcome = failed_outcome(e.what());
  }
  end(std::move(outcome));
}

void library_run::end(std::optional<job_outcome> outcome) {
  {
    const std::lock_guard guard{mutex_};
    if (outcome) {
      auto object = to_json(job_->config, *outcome);
      object["history"] = boost::json::parse(fmt::format("[{}]", fmt::join(history_, ",")));
      result_ = boost::json::serialize(object);
    }
    outcome_ = std::move(outcome);
    over_ = true;
  }
  changed_.notify_all();
  tasks_->close();
}

void library_run::add_line(const std::string& line) {
  {
    const std::lock_guard guard{mutex_};
    if (line.starts_with(R"({"kind":"evaluation")"))
      history_.push_back(line);
    if (lines_.size() == most_lines)
      lines_.pop_front();
    lines_.push_back(line);
  }
  changed_.notify_all();
}

bool library_run::over() {
  const std::lock_guard guard{mutex_};
  return over_;
}

std::optional<std::string> library_run::next_line(std::chrono::milliseconds patience) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, patience, [this] { return over_ || !lines_.empty(); });
  if (lines_.empty())
    return std::nullopt;
  auto line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

void library_run::leave(const std::string& why) {
  if (!last_words_.empty()) {
    std::ofstream{last_words_} << why;
  } else if (job_) {
    fmt::print(stderr, "troupe: this process leaves the job: {}\n", why);
  } else {
    const std::lock_guard guard{mutex_};
    parting_ = why;
  }
  stop();
}

std::string library_run::parting() {
  const std::lock_guard guard{mutex_};
  return parting_;
}

std::string library_run::cut_short() {
  const std::lock_guard guard{mutex_};
  return over_ ? cut_short_ : std::string{};
}

const std::string& library_run::result() {
  const std::lock_guard guard{mutex_};
  return result_;
}

const float* library_run::parameters() {
  const std::lock_guard guard{mutex_};
  return outcome_ && outcome_->result.parameters ? outcome_->result.parameters.as<const float>() : nullptr;
}

bool library_run::is_ours() const {
  return process_ == getpid();
}

} // namespace troupe::apps
