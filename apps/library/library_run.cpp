// SPDX-License-Identifier: BSD-3-Clause
// A run of the C library.
#include "apps/library/library_run.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
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
#include "apps/library/foreign_kind.hpp"
#include "kernels/backend.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

library_run::temporary_file::~temporary_file() {
  if (!path.empty())
    std::remove(path.c_str());
}

namespace {

/// A caller that does not follow loses the oldest.
constexpr std::size_t most_lines = 10'000;
/// A script may load data for long before it joins.
constexpr std::chrono::minutes scripts_join_within{10};

[[noreturn]] void refuse_with(const config::problems& wrong) {
  throw std::runtime_error(config::refusal{wrong}.text());
}

/// The threads that this one starts block what it blocks: signals stay those of the caller's threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

/// "node\nFILE\n--name\nNAME\n--once", as embedded_cluster has it.
node_options node_of(const std::string& text, const actors::extensions& added) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.size() != 5 || words[0] != "node" || words[2] != "--name" || words[4] != "--once")
    throw std::runtime_error("TROUPE_NODE is not what a run of Troupe has put there; start the script without it");
  node_options out;
  out.cluster = words[1];
  out.name = words[3];
  out.once = true;
  out.added = added;
  return out;
}

std::string last_words_of(const node_options& node) {
  return last_words_file(node.cluster, node.name);
}

} // namespace

library_run::library_run(library_options options) : process_(getpid()) {
  if (options.model) {
    layout_ = options.model->layout;
    added_ = foreign_extensions(layout_, options.model->samples, options.model->tests, tasks_);
  }
  if (options.node.empty())
    prepare(options);
  else
    last_words_ = last_words_of(node_of(options.node, added_));
  options.model.reset(); // its values are in the file
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
  if (options.model)
    start_from(*options.model, sets);
  for (const auto& text : options.sets) {
    auto parsed = config::parse_setting(text);
    if (!parsed)
      throw std::runtime_error(parsed.error().text());
    sets.push_back(std::move(*parsed));
  }
  auto prepared = prepare_job(job_options{options.job.empty() ? "/dev/null" : options.job, std::move(sets), added_});
  if (!prepared)
    throw std::runtime_error(prepared.error().text());
  if (auto wrong = cannot_run_here(*prepared); !wrong.empty())
    refuse_with(wrong);
  prepared->data = {};
  layout_ = prepared->network.layout();
  job_ = std::move(*prepared);
}

/// The job begins with the values that the model has here.
void library_run::start_from(const foreign_shape& model, std::vector<config::setting>& sets) {
  std::error_code missing;
  auto name = (std::filesystem::temp_directory_path(missing) / "troupe-XXXXXX").string();
  const int file = missing ? -1 : mkstemp(name.data());
  if (file < 0)
    throw std::runtime_error(
        "cannot make a temporary file for the initial parameters; set TMPDIR to a folder that can be written");
  close(file);
  initial_.path = name;
  if (const auto saved = save_safetensors(name, model.layout, model.initial.data()); !saved)
    throw std::runtime_error(saved.error().message);
  for (const auto& [key, value] :
       {std::pair<const char*, std::string>{"data.source", foreign_name}, {"model.kind", foreign_name}, {"model.init", name}})
    sets.push_back({key, value, "the module", false});
}

void library_run::run(const library_options& options) {
  block_signals();
  kernels::open_backend({}); // ends the threads of OpenBLAS, which block nothing
  if (!options.node.empty()) {
    try {
      run_member(node_of(options.node, added_), signals_);
    } catch (const std::exception& e) {
      fmt::print(stderr, "troupe: {}\n", e.what());
    }
    return end(std::nullopt);
  }
  job_outcome outcome;
  try {
    run_view view{.quiet = !options.loud, .lines = [this](const std::string& line) { add_line(line); }};
    view.children.words = options.program;
    if (job_->network.computed_by()) {
      view.children.variable = "TROUPE_NODE";
      view.join_timeout = scripts_join_within;
    }
    outcome = run_job(job_->config, job_->network, view, signals_);
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
  if (last_words_.empty())
    fmt::print(stderr, "troupe: this process leaves the job: {}\n", why);
  else
    std::ofstream{last_words_} << why;
  stop();
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
