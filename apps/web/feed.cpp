// SPDX-License-Identifier: BSD-3-Clause
// Collects the data and puts it into one object.
#include "apps/web/feed.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "apps/report.hpp"
#include "apps/run_progress.hpp"
#include "apps/web/folding.hpp"

namespace troupe::apps::web {

namespace {

constexpr std::size_t most_evaluations = 1000, most_events = 200, most_lanes = 64;
/// A round that takes longer than this is shown with its cause.
constexpr double long_round_s = 2;

/// Enough digits for a curve, in a short text.
boost::json::value five_digits(double value) {
  if (value == 0 || !std::isfinite(value))
    return finite_or_null(value);
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 4);
  return std::round(value / unit) * unit;
}

boost::json::object json_of(const actors::job& job) {
  return {{"name", job.name},
          {"protocol", job.protocol.name},
          {"device", job.compute.device},
          {"workers", job.cluster.workers},
          {"shards", job.cluster.shards},
          {"nodes", job.cluster.nodes},
          {"seed", job.seed},
          {"target_accuracy", value_or_null(job.stop.target_accuracy > 0, job.stop.target_accuracy)}};
}

/// The causes of a long round: the coordinator knows how long there has been no step.
boost::json::array causes_of(const console::snapshot& seen) {
  for (const auto& actor : seen.actors())
    if (actor.role == "coordinator")
      if (const auto since = actor.fields.find("no_step_for_s");
          since != actor.fields.end() && std::strtod(since->second.c_str(), nullptr) >= long_round_s)
        if (const auto out = console::why(seen, console::name_of(actor, seen)); !out.wrong)
          return out.json.at("causes").as_array();
  return {};
}

/// Keeps only roles: on the page a worker's helper actors are part of it, and a node is a place.
void keep_roles(console::snapshot& seen) {
  const auto is_part = [](const std::string& id) {
    return id.starts_with("compute ") || id.starts_with("loader ") || id.starts_with("node ");
  };
  for (auto& node : seen.reports.nodes) {
    std::erase_if(node.actors, [&](const auto& actor) { return is_part(actor.id); });
    for (auto& actor : node.actors)
      std::erase_if(actor.waits_for, is_part);
  }
}

boost::json::array nodes_of(const console::snapshot& seen) {
  auto nodes = seen.reports.nodes; // in the order in which they answered
  std::ranges::sort(nodes, {}, &actors::node_report::node);
  boost::json::array out;
  for (const auto& node : nodes)
    if (node.pid != 0 || !node.silent.empty()) // else it is the coordinator's own report
      out.push_back({{"name", node.node}, {"pid", node.pid}, {"resident_bytes", node.resident_bytes}, {"silent", node.silent}});
  return out;
}

} // namespace

feed::feed(const actors::job& job, std::shared_ptr<actors::run_observer> next, std::function<void(std::string)> publish)
    : job_(job), next_(std::move(next)), publish_(std::move(publish)) {
  const std::lock_guard guard{mutex_};
  this->publish();
}

void feed::on_started(std::int64_t data_size) {
  {
    const std::lock_guard guard{mutex_};
    state_ = "runs";
    reason_.clear();
  }
  if (next_)
    next_->on_started(data_size);
}

void feed::on_progress(const actors::progress& p) {
  {
    const std::lock_guard guard{mutex_};
    progress_ = p;
    losses_.add(p.seconds, p.train_loss);
  }
  if (next_)
    next_->on_progress(p);
}

void feed::on_evaluation(const actors::evaluation_point& e) {
  {
    const std::lock_guard guard{mutex_};
    if (evaluations_.size() == most_evaluations) // every other point still shows the curve
      std::erase_if(evaluations_, [first = evaluations_.data()](const auto& each) { return (&each - first) % 2 == 1; });
    evaluations_.push_back(e);
  }
  if (next_)
    next_->on_evaluation(e);
}

void feed::on_event(const std::string& text) {
  {
    const std::lock_guard guard{mutex_};
    events_.emplace_back(now_s(), text);
    if (events_.size() > most_events)
      events_.pop_front();
  }
  if (next_)
    next_->on_event(text);
}

void feed::on_finished(actors::job_result result) {
  {
    const std::lock_guard guard{mutex_};
    state_ = result.interrupted ? "interrupted" : result.failed ? "failed" : "done"; // an interrupted job also counts as failed
    reason_ = result.reason;
    result_ = {{"steps", result.steps},
               {"samples", result.samples},
               {"epochs", result.epochs},
               {"seconds", result.seconds},
               {"train_loss", result.last ? finite_or_null(result.last->train_loss) : nullptr},
               {"test_loss", result.last ? finite_or_null(result.last->test_loss) : nullptr},
               {"test_accuracy", result.last ? finite_or_null(result.last->test_accuracy) : nullptr},
               {"staleness_mean", result.staleness_mean()},
               {"discarded", result.discarded},
               {"bytes_sent", result.bytes_sent}};
    publish();
  }
  if (next_)
    next_->on_finished(std::move(result));
}

void feed::follow(std::uint64_t number) {
  const std::lock_guard guard{mutex_};
  number_ = number;
}

void feed::on_snapshot(console::snapshot seen) {
  const std::lock_guard guard{mutex_};
  if (!result_.empty()) // the page keeps the last picture before the end
    return;
  if (number_ != 0)
    std::erase_if(seen.reports.nodes, [this](const actors::node_report& node) { return node.job != number_; });
  for (const auto& job : seen.cluster.jobs)
    if (job.number == number_ && state_ != "runs" && job.state.starts_with("waits: ")) {
      state_ = "waits";
      reason_ = job.state.substr(std::string_view{"waits: "}.size());
    }
  auto causes = causes_of(seen);
  keep_roles(seen);
  bring_back_the_silent(seen);
  activity_.see(seen, now_s());
  const auto shown = folded(activity_.actors(seen));
  cluster_ = {{"nodes", nodes_of(seen)},
              {"actors", json_of(shown.boxes)},
              {"waits", json_of(shown.arrows)},
              {"causes", std::move(causes)},
              {"stragglers", activity_.stragglers(seen)},
              {"lanes", activity_.lanes(most_lanes)},
              {"other_lanes", activity_.other_lanes(most_lanes)}};
  publish();
}

void feed::on_silence(const std::string& why) {
  const std::lock_guard guard{mutex_};
  if (!result_.empty())
    return;
  cluster_["silent"] = why;
  publish();
}

/// The actors of a node that does not answer are shown as they were last seen, and stuck.
void feed::bring_back_the_silent(console::snapshot& seen) {
  for (auto& node : seen.reports.nodes)
    if (!node.silent.empty()) {
      node.actors = seen_[node.node];
      for (auto& actor : node.actors) {
        actor.stuck = true;
        actor.state = node.silent;
        actor.waits_for.clear();
      }
    } else if (node.pid != 0) {
      seen_[node.node] = node.actors;
    }
}

double feed::now_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

boost::json::object feed::progress_json() const {
  const auto& p = *progress_;
  const auto done = fraction_done(job_, p);
  return {{"step", p.step},
          {"samples", p.samples},
          {"epoch", p.epoch},
          {"seconds", p.seconds},
          {"train_loss", finite_or_null(p.train_loss)},
          {"samples_per_s", p.seconds > 0 ? finite_or_null(static_cast<double>(p.samples) / p.seconds) : nullptr},
          {"slowest", value_or_null(p.slowest_worker.has_value(), p.slowest_worker.value_or(0))},
          {"slowest_ms", p.slowest_ms},
          {"done", done},
          {"left_s", done > 0 ? finite_or_null(p.seconds * (1 - done) / done) : nullptr}};
}

boost::json::object feed::curves_json() const {
  boost::json::array losses, evaluations;
  for (const auto& point : losses_.points())
    losses.push_back(
        boost::json::array{five_digits(point.at), five_digits(point.mean), five_digits(point.low), five_digits(point.high)});
  for (const auto& e : evaluations_)
    evaluations.push_back(to_json(e));
  return {{"losses", std::move(losses)}, {"evaluations", std::move(evaluations)}};
}

/// Called with `mutex_` held, so that later publications are newer.
void feed::publish() const {
  boost::json::array events;
  for (const auto& [at, text] : events_)
    events.push_back(boost::json::array{std::round(at * 10) / 10, text});
  publish_(boost::json::serialize(boost::json::object{{"version", 1},
                                                      {"job", json_of(job_)},
                                                      {"state", state_},
                                                      {"reason", reason_},
                                                      {"at_s", std::round(now_s() * 10) / 10},
                                                      {"progress", progress_ ? boost::json::value(progress_json()) : nullptr},
                                                      {"curves", curves_json()},
                                                      {"events", std::move(events)},
                                                      {"cluster", cluster_},
                                                      {"result", value_or_null(!result_.empty(), result_)}}));
}

std::shared_ptr<feed> feed_for(actors::net::web_server& page, const actors::job& job,
                               std::shared_ptr<actors::run_observer> next) {
  return std::make_shared<feed>(job, std::move(next), [&page](std::string json) { page.publish(std::move(json)); });
}

} // namespace troupe::apps::web
