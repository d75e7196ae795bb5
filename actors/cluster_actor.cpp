// SPDX-License-Identifier: BSD-3-Clause
// The cluster's handlers.
#include "actors/cluster_actor.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "actors/coordinator_actor.hpp"
#include "actors/errors.hpp"
#include "actors/metrics.hpp"
#include "actors/version.hpp"

namespace troupe::actors {

namespace {

/// A job that lost a node before it began waits so long, until that has been noticed here too.
constexpr std::chrono::seconds rest{1};
/// Longer than the coordinator waits for a node's events.
constexpr std::chrono::seconds record_deadline{30};
/// What fits a message of the control plane, with room to spare (system.cpp).
constexpr std::uint64_t floats_per_piece = 128 * 1024;

/// Of a job that was still waiting.
job_result unstarted(const std::string& reason) {
  job_result out;
  out.interrupted = true;
  out.reason = reason;
  return out;
}

caf::error refusal(std::string why) { return caf::make_error(caf::sec::runtime_error, std::move(why)); }

/// What a coordinator says, on its way to whoever submitted the job.
class forwarder final : public run_observer {
public:
  forwarder(std::uint64_t number, client_actor client, std::vector<std::string> nodes, std::shared_ptr<job_meter> meter, job_metrics metrics,
            cluster_control owner)
      : metrics_(metrics), number_(number), client_(std::move(client)), nodes_(std::move(nodes)), meter_(std::move(meter)), owner_(std::move(owner)) {}

  void on_started(std::int64_t data_size) override {
    meter_->data_size = data_size;
    caf::anon_send(client_, job_begins{nodes_, data_size});
  }
  void on_progress(const progress& p) override {
    meter_->steps = p.step;
    meter_->samples = p.samples;
    metrics_.on_progress(p);
    // A person looks at a few a second, and a message across hosts costs more than a step of a small model.
    if (const auto now = steady_ns(); now - told_ns_ >= 50'000'000) {
      told_ns_ = now;
      caf::anon_send(client_, p);
    }
  }
  void on_evaluation(const evaluation_point& e) override {
    metrics_.on_evaluation(e);
    caf::anon_send(client_, e);
  }
  void on_event(const std::string& text) override { caf::anon_send(client_, job_says{text}); }
  void on_finished(job_result result) override {
    caf::anon_send(owner_, job_finished{number_, std::make_shared<job_result>(std::move(result))});
  }

private:
  job_metrics metrics_;
  std::uint64_t number_;
  client_actor client_;
  std::vector<std::string> nodes_;
  std::shared_ptr<job_meter> meter_;
  cluster_control owner_;
  std::int64_t told_ns_ = 0;
};

} // namespace

cluster_state::cluster_state(cluster_control::stateful_pointer<cluster_state> self, cluster_setup setup)
    : self_(self), setup_(std::move(setup)) {
  end_with_reason(*self);
  for (const auto& what : setup_.nodes)
    seats_.push_back({.what = what});
  self->set_down_handler([this](const caf::down_msg& msg) { on_down(msg); });
  self->set_exit_handler([this](const caf::exit_msg& msg) {
    for (auto& [number, job] : jobs_)
      cancel(number, "the cluster ends");
    for (auto& [number, job] : jobs_)
      if (job.own)
        self_->send_exit(job.own, caf::exit_reason::user_shutdown);
    self_->quit(msg.reason);
  });
}

cluster_control::behavior_type cluster_state::make_behavior() {
  return {
    [this](const node_hello& hello, const node_actor& node) { return join(hello, node); },
    [this](const leave_cluster& msg) { return leave(msg.name); },
    [this](const submit_job& what, const client_actor& client) { return submit(what, client); },
    [this](const cancel_job& msg) { cancel(msg.number, "interrupted"); },
    [this](const actor_order& msg) { return pass_on(msg); },
    [this](const change_order& msg) { return pass_on(msg); },
    [this](const record_order& msg) { return record(msg); },
    [this](const weights_query& msg) -> caf::result<weights_piece> {
      const auto* job = find(msg.number);
      if (job == nullptr || !job->ended)
        return refusal(fmt::format("job {} has no result here", msg.number));
      const auto all = job->result.parameters.span<const float>();
      const auto begin = std::min<std::uint64_t>(msg.offset, all.size());
      const auto piece = all.subspan(begin, std::min(all.size() - begin, floats_per_piece));
      return weights_piece{{piece.begin(), piece.end()}};
    },
    [this](const node_trace_query& msg) -> caf::result<node_trace_piece> {
      const auto* job = find(msg.number);
      if (job == nullptr || !(job->ended || job->recorded))
        return refusal(fmt::format("job {} has no result here", msg.number));
      const auto& traces = job->ended || !job->recorded ? job->result.trace : *job->recorded;
      if (msg.node >= traces.size())
        return node_trace_piece{.nodes = static_cast<std::uint32_t>(traces.size())};
      const auto& of = traces[msg.node];
      const auto begin = of.events.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(msg.offset, of.events.size()));
      const auto end = begin + fitting(begin, of.events.end());
      trace_chunk chunk{{begin, end}, of.dropped, end == of.events.end()};
      return node_trace_piece{of.name, std::move(chunk), static_cast<std::uint32_t>(traces.size())};
    },
    [this](const release_job& msg) { forget(msg.number); },
    [this](cluster_query) { return view(); },
    [this](const inspect_query& query) { return query.page == 0 ? inspect_all() : inspect_page(query); },
    [this](const job_finished& msg) { finished(msg); },
  };
}

caf::result<std::uint32_t> cluster_state::join(const node_hello& hello, const node_actor& node) {
  if (hello.version != version)
    return refusal(fmt::format("this cluster runs Troupe {}, node \"{}\" runs {}", version, hello.name, hello.version));
  const auto at = std::find_if(seats_.begin() + 1, seats_.end(), [&](const seat& s) { return s.what.name == hello.name; });
  if (at == seats_.end())
    return refusal(fmt::format("the cluster's file on {} names no node \"{}\" that may join", seats_.front().what.name, hello.name));
  if (at->actor)
    return refusal(fmt::format("a node \"{}\" has joined already", hello.name));
  const auto number = static_cast<std::uint32_t>(at - seats_.begin());
  at->actor = node;
  at->pid = hello.pid;
  at->leaving = false;
  self_->monitor(node);
  setup_.say(fmt::format("node {} has joined", hello.name));
  for (auto& [id, job] : jobs_)
    if (const auto place = std::ranges::find(job.gang, number); !job.ended && place != job.gang.end()) {
      at->job = id; // it was lost, and what it had is still wanted
      self_->send(job.coordinator, node_back{static_cast<std::uint32_t>(place - job.gang.begin()), caf::actor_cast<caf::actor>(node)});
    }
  start_what_fits();
  return number;
}

caf::result<void> cluster_state::leave(const std::string& node) {
  const auto at = std::find_if(seats_.begin(), seats_.end(), [&](const seat& s) { return s.what.name == node; });
  if (at == seats_.end() || !at->actor)
    return refusal(fmt::format("no node \"{}\" is here", node));
  at->leaving = true;
  at->may_leave = self_->make_response_promise<void>();
  setup_.say(fmt::format("node {} wants to leave", node));
  auto* job = find(at->job);
  if (job == nullptr) {
    let_go(*at);
    return *at->may_leave;
  }
  const auto number = static_cast<std::uint32_t>(at - seats_.begin());
  const auto place = static_cast<std::uint32_t>(std::ranges::find(job->gang, number) - job->gang.begin());
  self_->request(job->coordinator, std::chrono::seconds{10}, node_leaves{place})
    .then(
      [this, number](bool gone) {
        if (gone) {
          seats_[number].job = 0;
          let_go(seats_[number]);
        } // else at the job's end
      },
      [](const caf::error&) {}); // its end comes soon
  return *at->may_leave;
}

void cluster_state::let_go(seat& at) {
  if (at.may_leave && at.may_leave->pending())
    at.may_leave->deliver();
}

caf::result<std::uint64_t> cluster_state::submit(const submit_job& what, const client_actor& client) {
  const auto fits = choose_gang(what.what, members());
  if (const auto* none = std::get_if<no_gang>(&fits); none != nullptr && none->never)
    return refusal(none->reason);
  const auto number = ++last_number_;
  jobs_.emplace(number, entry{.number = number, .what = what, .client = client});
  self_->monitor(client);
  setup_.say(fmt::format("job {} ({}) is submitted", number, what.what.name));
  start_what_fits();
  return number;
}

/// What a person asks of a running job is its coordinator's to do.
template <class Order>
caf::result<std::string> cluster_state::pass_on(const Order& msg) {
  const auto* job = find(msg.number);
  if (job == nullptr || job->ended || !job->coordinator)
    return refusal(fmt::format("there is no job {} that runs", msg.number));
  return self_->delegate(job->coordinator, msg);
}

caf::result<recording> cluster_state::record(const record_order& msg) {
  auto* job = find(msg.number);
  if (job == nullptr || job->ended || !job->coordinator)
    return refusal(fmt::format("there is no job {} that runs", msg.number));
  auto promise = self_->make_response_promise<recording>();
  self_->request(job->coordinator, record_deadline, msg)
    .then(
      [this, promise, msg](const traces_ptr& recorded) mutable {
        auto* of = find(msg.number);
        if (of == nullptr)
          return promise.deliver(refusal("the job has ended"));
        of->recorded = recorded;
        if (msg.on)
          of->record_to = msg.file;
        promise.deliver(recording{of->what.what, of->record_to});
      },
      [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

void cluster_state::cancel(std::uint64_t number, const std::string& reason) {
  auto* job = find(number);
  if (job == nullptr || job->ended)
    return;
  if (job->coordinator)
    self_->send(job->coordinator, stop_job{false, reason});
  else
    finished({number, std::make_shared<job_result>(unstarted(reason))});
}

/// In the order of coming: a large job is not overtaken for ever by small ones.
void cluster_state::start_what_fits() {
  std::string ahead;
  for (auto& [number, job] : jobs_) {
    if (job.ended || job.coordinator)
      continue;
    if (job.rests) {
      ahead = fmt::format("job {} is before it", number);
      continue;
    }
    auto fits = choose_gang(job.what.what, members());
    std::string reason = ahead;
    if (ahead.empty()) {
      if (const auto* gang = std::get_if<std::vector<std::uint32_t>>(&fits)) {
        start(job, *gang);
        continue;
      }
      reason = std::get<no_gang>(fits).reason;
    }
    if (std::exchange(job.waits_for, reason) != reason) {
      self_->send(job.client, job_waits{reason});
      setup_.say(fmt::format("job {} waits: {}", number, reason));
    }
    if (ahead.empty())
      ahead = fmt::format("job {} is before it", number);
  }
}

void cluster_state::start(entry& job, std::vector<std::uint32_t> gang) {
  job.gang = std::move(gang);
  job.own = self_->spawn<node_impl>(setup_.own);
  job.meter = std::make_shared<job_meter>();
  std::vector<member_node> members;
  std::vector<std::string> names;
  for (auto number : job.gang) {
    const auto& at = seats_[number];
    members.push_back({number == 0 ? job.own : at.actor, at.what.name, at.what.host, at.what.shard, at.what.worker});
    names.push_back(at.what.name);
  }
  for (const auto& worker : place_roles(job.what.what, members).workers)
    seats_[job.gang[worker.node]].job = job.number;
  for (std::size_t i = 1; i < job.gang.size(); ++i)
    seats_[job.gang[i]].job = job.number;
  setup_.say(fmt::format("job {} starts on {}", job.number, fmt::join(names, ", ")));
  if (!std::exchange(job.waits_for, {}).empty())
    self_->send(job.client, job_waits{});
  auto observer = std::make_shared<forwarder>(job.number, job.client, names, job.meter,
                                              job_metrics{self_->home_system(), fmt::format("{} {}", job.number, job.what.what.name)},
                                              cluster_control{self_});
  job.coordinator = self_->spawn<coordinator_impl>(coordinator_setup{job.what.what, random_job_key(), std::move(members), observer, job.what.trace});
}

void cluster_state::finished(const job_finished& msg) {
  auto* job = find(msg.number);
  if (job == nullptr)
    return;
  if (msg.result->lost_before_start && job->client) { // nothing is lost but time
    setup_.say(fmt::format("job {} begins anew: {}", msg.number, msg.result->reason));
    self_->send(job->client, job_says{"the job begins anew: " + msg.result->reason});
    free_nodes_of(msg.number);
    job->coordinator = nullptr;
    job->gang.clear();
    job->rests = true;
    self_->run_delayed(rest, [this, number = msg.number] {
      if (auto* waiting = find(number))
        waiting->rests = false;
      start_what_fits();
    });
    return;
  }
  job->ended = true;
  job->result = std::move(*msg.result);
  setup_.say(fmt::format("job {} has ended{}{}", msg.number, job->result.reason.empty() ? "" : ": ", job->result.reason));
  free_nodes_of(msg.number);
  if (job->client)
    report_to_client(*job);
  else
    forget(msg.number);
  start_what_fits();
}

/// Across hosts parameters and trace are fetched piece by piece; a client of this process has the same memory.
void cluster_state::report_to_client(entry& job) {
  if (job.client.node() == self_->node()) {
    self_->send(job.client, std::exchange(job.result, {}));
    return;
  }
  auto report = job.result;
  report.parameters = {};
  report.trace.clear();
  self_->send(job.client, std::move(report));
}

void cluster_state::free_nodes_of(std::uint64_t number) {
  if (auto& own = find(number)->own) {
    self_->send_exit(own, caf::exit_reason::user_shutdown);
    own = nullptr;
  }
  for (auto& at : seats_)
    if (at.job == number) {
      at.job = 0;
      let_go(at);
    }
}

void cluster_state::forget(std::uint64_t number) {
  const auto at = jobs_.find(number);
  if (at == jobs_.end() || !at->second.ended)
    return;
  if (at->second.client)
    self_->demonitor(at->second.client);
  jobs_.erase(at);
}

void cluster_state::on_down(const caf::down_msg& msg) {
  for (auto& at : seats_)
    if (at.actor && at.actor.address() == msg.source) {
      setup_.say(fmt::format("node {} is gone: {}", at.what.name, explain(msg.reason)));
      at = seat{.what = at.what};
    }
  for (auto& [number, job] : jobs_)
    if (job.client && job.client.address() == msg.source) {
      job.client = nullptr;
      if (!job.ended)
        cancel(number, "whoever submitted it is gone");
      else
        forget(number);
      break; // `jobs_` has changed; a client has one job
    }
  start_what_fits();
}

std::vector<member_view> cluster_state::members() const {
  std::vector<member_view> out;
  for (const auto& at : seats_)
    out.push_back({at.what, &at == &seats_.front() || at.actor, at.leaving, at.pid, at.job, at.actor});
  return out;
}

cluster_view cluster_state::view() const {
  cluster_view out{.name = setup_.name, .members = members()};
  for (const bool running : {true, false})
    for (const auto& [number, job] : jobs_) {
      if (job.ended || static_cast<bool>(job.coordinator) != running)
        continue;
      job_view shown{number, job.what.what.name, job.what.what.protocol.name, running ? "runs" : "waits: " + job.waits_for};
      for (auto node : job.gang)
        shown.nodes.push_back(seats_[node].what.name);
      if (job.meter) {
        shown.steps = job.meter->steps;
        shown.epochs = static_cast<double>(job.meter->samples) / static_cast<double>(job.meter->data_size);
      }
      out.jobs.push_back(std::move(shown));
    }
  return out;
}

cluster_state::entry* cluster_state::find(std::uint64_t number) {
  const auto at = jobs_.find(number);
  return at == jobs_.end() ? nullptr : &at->second;
}

} // namespace troupe::actors
