// SPDX-License-Identifier: BSD-3-Clause
// A coordinator among nodes that are scripts. CAF's testing scheduler runs every actor on this thread; its clock moves when a
// test says so.
#pragma once

#include "actors/roles/coordinator/coordinator_actor.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/errors.hpp"
#include "actors/system.hpp"
#include "tests/actors/scheduler_of_two.hpp"

namespace troupe::actors {

using kind = protocols::report::kind;
template <class... Orders>
std::variant<node_place, backup_place, evaluator_place, protocols::hold_order, protocols::fetch_order, stop_job, Orders...>
control_with(const caf::typed_actor<caf::result<void>(Orders)...>*);
using control = decltype(control_with(static_cast<const role_orders*>(nullptr)));

/// What a scripted node does and what it has heard.
struct script {
  std::string cannot_prepare, cannot_start, cannot_obey; ///< empty: it can
  bool silent = false;                                   ///< says that it is prepared when it hears a node_notice
  bool never_obeys = false;                              ///< nor answers an order
  std::vector<file_probe> files;                         ///< that its data are read from
  std::optional<prepare_job> job;
  std::optional<job_places> places;
  std::vector<control> heard;
  std::vector<trace_chunk> trace; ///< what it answers when it is asked for its events, one after the other
  std::size_t chunks_asked = 0;
  std::chrono::seconds chunk_takes{0};
  std::int64_t clock_ahead_ns = 0; ///< its host's
  std::vector<role_order> orders;
  std::vector<bool> recordings;          ///< begun
  awaited late;                          ///< whom the lead says that the round waits for
  std::vector<actor_report> actors;      ///< what they say of themselves
  std::vector<actor_report> more_actors; ///< likewise, on a second page
  std::vector<float> parameters;         ///< that the evaluator has there
  std::optional<adopted_part> part;      ///< what it has of a job whose coordinator was lost
  std::optional<adopt_job> adopted;
  bool thinks = false; ///< about that, until it hears a node_notice

  template <class Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const auto& msg : heard)
      if (const auto* one = std::get_if<Message>(&msg))
        found.push_back(*one);
    return found;
  }
};

class scripted_node_state {
public:
  static inline const char* name = "test.node";

  scripted_node_state(node_actor::stateful_pointer<scripted_node_state> self, std::shared_ptr<script> s)
      : self_(self), script_(std::move(s)) {}

  node_actor::behavior_type make_behavior() { return behavior_with(static_cast<const role_orders*>(nullptr)); }

private:
  template <class... Orders>
  node_actor::behavior_type behavior_with(const caf::typed_actor<caf::result<void>(Orders)...>*) {
    return {
        [this](const prepare_job& msg) -> caf::result<node_prepared> {
          script_->job = msg;
          promise_ = self_->make_response_promise<node_prepared>();
          if (!script_->cannot_prepare.empty())
            promise_.deliver(caf::make_error(caf::sec::runtime_error, script_->cannot_prepare));
          else if (!script_->silent)
            prepared();
          return promise_;
        },
        [this](const job_places& msg) -> caf::result<void> {
          script_->places = msg;
          if (!script_->cannot_start.empty())
            return caf::make_error(caf::sec::runtime_error, script_->cannot_start);
          return caf::unit;
        },
        [this](const node_place& msg) { script_->heard.emplace_back(msg); },
        [this](const backup_place& msg) -> caf::result<void> {
          script_->heard.emplace_back(msg);
          if (!script_->places && !script_->part)
            return caf::make_error(caf::sec::runtime_error, "no job runs here");
          return caf::unit;
        },
        [this](const evaluator_place& msg) { script_->heard.emplace_back(msg); },
        [this](const evaluated_query& query) -> caf::result<parameters_piece> {
          if (script_->parameters.empty())
            return caf::make_error(caf::sec::runtime_error, "the evaluator is not here");
          constexpr std::size_t piece = 3;
          const auto begin = script_->parameters.begin() + static_cast<std::ptrdiff_t>(query.offset);
          const auto count = std::min<std::size_t>(piece, script_->parameters.end() - begin);
          return parameters_piece{
              query.ver, {begin, begin + static_cast<std::ptrdiff_t>(count)}, query.offset + count == script_->parameters.size()};
        },
        [this](standing_query) { return script_->part ? std::optional{script_->part->standing} : std::nullopt; },
        [this](const adopt_job& msg) -> caf::result<adopted_part> {
          script_->adopted = msg;
          if (!script_->part)
            return caf::make_error(caf::sec::runtime_error, "it has no part of that job");
          if (script_->thinks)
            return adopted_ = self_->make_response_promise<adopted_part>();
          return *script_->part;
        },
        [](const led_by&) {},
        [this](const Orders& msg) { script_->heard.emplace_back(msg); }...,
        [this](const protocols::hold_order& msg) { script_->heard.emplace_back(msg); },
        [this](const protocols::fetch_order& msg) { script_->heard.emplace_back(msg); },
        [this](waiting_query) { return script_->late; },
        [](totals_query) { return node_totals{.bytes_sent = 10, .bytes_received = 20, .resident_bytes = 30}; },
        [this](const inspect_query& query) {
          const bool more = !script_->more_actors.empty();
          return node_report{
              .actors = query.page == 0 ? script_->actors : script_->more_actors, .answer_id = 7, .pages = more ? 2U : 1U};
        },
        [](shards_query) { return shards_view{}; },
        [](wall_clock_query) { return clock_reading{}; },
        [](const probe_query&) { return node_probe{}; },
        [this](const node_notice&) { script_->thinks ? adopted_.deliver(*script_->part) : prepared(); },
        [this](const role_order& msg) -> caf::result<void> {
          script_->orders.push_back(msg);
          if (script_->never_obeys)
            return ordered_ = self_->make_response_promise<void>();
          if (!script_->cannot_obey.empty())
            return caf::make_error(caf::sec::runtime_error, script_->cannot_obey);
          return caf::unit;
        },
        [this](const record_order& msg) { script_->recordings.push_back(msg.on); },
        [this](clock_query) { return steady_ns() + script_->clock_ahead_ns; },
        [this](trace_query) -> caf::result<trace_chunk> {
          auto chunk = script_->chunks_asked < script_->trace.size() ? script_->trace[script_->chunks_asked++] : trace_chunk{};
          if (script_->chunk_takes.count() == 0)
            return chunk;
          asked_for_chunk_ = self_->make_response_promise<trace_chunk>();
          self_->run_delayed(script_->chunk_takes, [this, chunk] { asked_for_chunk_.deliver(chunk); });
          return asked_for_chunk_;
        },
        [this](const stop_job& msg) { script_->heard.emplace_back(msg); },
    };
  }

  void prepared() {
    promise_.deliver(node_prepared{.lane_port = static_cast<std::uint16_t>(7000 + script_->job->self),
                                   .data_size = 100,
                                   .files = script_->files,
                                   .floats = static_cast<std::int64_t>(script_->parameters.size())});
  }

  node_actor::stateful_pointer<scripted_node_state> self_;
  std::shared_ptr<script> script_;
  caf::typed_response_promise<node_prepared> promise_;
  caf::typed_response_promise<void> ordered_;
  caf::typed_response_promise<adopted_part> adopted_;
  caf::typed_response_promise<trace_chunk> asked_for_chunk_;
};

/// Remembers what a user would have seen.
class watcher final : public run_observer {
public:
  void on_started(std::int64_t) override { started = true; }
  void on_progress(const progress& p) override {
    if (!fails_with.empty())
      throw std::runtime_error(fails_with);
    steps.push_back(p.step);
  }
  void on_evaluation(const evaluation_point& e) override { evaluations.push_back(e); }
  void on_event(const std::string& text) override { events.push_back(text); }
  void on_finished(job_result how) override {
    ++ends;
    result = std::move(how);
  }

  bool started = false;
  std::string fails_with; ///< empty: it does not
  int ends = 0;
  std::vector<std::uint64_t> steps;
  std::vector<evaluation_point> evaluations;
  std::vector<std::string> events;
  job_result result;
};

class Roles : public testing::Test {
protected:
  testing_config config;
  caf::actor_system system{config};
  scheduler_of_two& schedule = dynamic_cast<scheduler_of_two&>(system.scheduler());

  void run() { schedule.run_all(); }
  template <class Actor>
  void kill(const Actor& actor) {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
    run();
  }
};

/// Two nodes of two workers each beside the coordinator's own, which has the shard. 100 samples, batches of 10.
class Coordinator : public Roles {
protected:
  actors::job job;
  std::vector<protocols::protocol> added; ///< by the program
  std::vector<std::shared_ptr<script>> scripts;
  std::vector<node_actor> nodes;
  bool traced = false;
  decided_job decided;            ///< without a ledger
  std::set<std::size_t> not_back; ///< nodes, where the job is taken over
  std::shared_ptr<watcher> seen = std::make_shared<watcher>();
  coordinator_control coordinator;

  Coordinator() {
    job.cluster = {.nodes = 3, .workers = 4, .shards = 1};
    job.data.batch = 10;
    job.stop.epochs = 1;
    for (int i = 0; i < 3; ++i)
      scripts.push_back(std::make_shared<script>());
  }

  void TearDown() override {
    for (const auto& node : nodes)
      caf::anon_send_exit(node, caf::exit_reason::kill);
    if (coordinator)
      caf::anon_send_exit(coordinator, caf::exit_reason::kill);
    run();
  }

  void begin() {
    coordinator_setup setup{job, 77, {}, seen, traced, added, false, decided};
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(scripts[i]));
      setup.nodes.push_back({not_back.contains(i) ? node_actor{} : nodes[i], "node-" + std::to_string(i)});
    }
    coordinator = system.spawn<coordinator_impl>(std::move(setup));
    run();
  }

  template <class Message>
  void say(Message msg) {
    caf::anon_send(coordinator, std::move(msg));
    run();
  }
  /// Another process of a node is back, the last of `nodes`; returns its script.
  std::shared_ptr<script> comes_back(std::uint32_t node, bool silent = false, std::vector<file_probe> files = {}) {
    const auto again = std::make_shared<script>();
    again->silent = silent;
    again->files = std::move(files);
    nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(again));
    say(node_back{node, caf::actor_cast<caf::actor>(nodes.back())});
    return again;
  }
  /// What the user is told.
  template <class Result = std::string, class Order>
  Result ask(Order order) {
    Result said{};
    caf::scoped_actor person{system};
    auto request = person->request(coordinator, caf::infinite, std::move(order));
    run();
    request.receive([&](Result& answer) { said = std::move(answer); },
                    [&](const caf::error& e) {
                      if constexpr (std::is_same_v<Result, std::string>)
                        said = "no: " + explain(e);
                    });
    return said;
  }
  void close_round(std::uint64_t ver, std::uint64_t samples) {
    say(protocols::report{.event = kind::round_closed, .ver = {ver}, .samples = samples, .contributions = 4});
  }
  void hold(std::uint64_t ver, std::uint64_t samples) {
    say(protocols::report{.event = kind::held, .ver = {ver}, .samples = samples});
  }
  void collect(std::uint64_t ver) { say(collected{{ver}, kernels::buffer{std::make_shared<float>(), nullptr, 8}}); }
  void evaluate(std::uint64_t ver, double accuracy = 0.5) {
    say(evaluation{{ver}, 0.3, 0.4, accuracy, kernels::buffer{std::make_shared<float>(), nullptr, 4}});
  }

  template <class Message>
  std::vector<std::size_t> told() const { ///< how many such messages each node has heard
    std::vector<std::size_t> counts;
    for (const auto& each : scripts)
      counts.push_back(each->all<Message>().size());
    return counts;
  }
  std::vector<std::uint32_t> planned_workers(std::size_t node = 0) const { ///< of the newest plan
    std::vector<std::uint32_t> workers;
    const auto plans = scripts[node]->all<protocols::plan>();
    for (auto member : plans.back().workers)
      workers.push_back(member.worker.value);
    return workers;
  }
};

} // namespace troupe::actors
