// SPDX-License-Identifier: BSD-3-Clause
// How a node collects the reports of its actors.
#include "actors/node/node_actor.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/errors.hpp"
#include "actors/monitoring/process.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

/// How long an actor may take to report.
constexpr std::chrono::milliseconds deadline{500};
/// Actors per gatherer: with each answer an actor searches all its pending requests.
constexpr std::size_t actors_per_gatherer = 128;
/// Kept answers that did not fit a message.
constexpr std::size_t answers_kept = 4;

using gatherer_actor = caf::typed_actor<caf::result<std::vector<actor_report>>(inspect_query)>;

/// Asks once and ends. An actor that has not answered by the deadline is stuck, and is shown as seen from outside.
class gatherer_state {
public:
  static inline const char* name = "troupe.gatherer";

  gatherer_state(gatherer_actor::stateful_pointer<gatherer_state> self, std::vector<shown_actor> whom)
      : self_(self), whom_(std::move(whom)), said_(whom_.size()), missing_(whom_.size()) {}

  gatherer_actor::behavior_type make_behavior() {
    return {[this](const inspect_query& query) -> caf::result<std::vector<actor_report>> {
      promise_ = self_->make_response_promise<std::vector<actor_report>>();
      self_->run_delayed(deadline, [this] { finish(); });
      for (std::size_t i = 0; i < whom_.size(); ++i)
        if (whom_[i].ended.empty())
          self_->request(whom_[i].actor, caf::infinite, query)
              .then([this, i](actor_report& said) { answer(i, std::move(said)); },
                    [this, i](const caf::error& e) { gone(i, explain(e)); });
        else
          gone(i, whom_[i].ended);
      return promise_;
    }};
  }

private:
  void answer(std::size_t i, actor_report said) {
    said_[i] = std::move(said);
    if (--missing_ == 0)
      finish();
  }
  void gone(std::size_t i, std::string why) { answer(i, {.state = "has ended", .last_error = std::move(why), .ended = true}); }

  void finish() {
    if (!promise_.pending())
      return;
    for (std::size_t i = 0; i < whom_.size(); ++i) {
      auto& said = said_[i];
      if (said.state.empty()) {
        peek(whom_[i].actor, said);
        said.stuck = true;
      }
      said.id = std::move(whom_[i].id);
      said.role = std::move(whom_[i].role);
      said.watched_by = std::move(whom_[i].watched_by);
    }
    promise_.deliver(std::move(said_));
    self_->quit();
  }

  gatherer_actor::stateful_pointer<gatherer_state> self_;
  std::vector<shown_actor> whom_;
  std::vector<actor_report> said_;
  std::size_t missing_;
  caf::typed_response_promise<std::vector<actor_report>> promise_;
};

} // namespace

actor_report node_state::report() const {
  auto out = self_->report();
  out.role = "node";
  if (job_)
    job_->describe(out);
  return out;
}

/// A stuck actor does not delay the reports of others.
caf::result<node_report> node_state::inspect_roles(const inspect_query& query) {
  if (query.page > 0) {
    for (const auto& pages : answers_)
      if (pages.front().answer_id == query.answer_id && query.page < pages.size())
        return pages[query.page];
    return failure("that answer is not kept any more");
  }
  auto promise = self_->make_response_promise<node_report>();
  const join_counter<std::vector<actor_report>> all(
      [this, promise](std::vector<actor_report> reports) { gathered(promise, std::move(reports)); });
  all->push_back(report());
  auto ask = [&](const std::vector<shown_actor>& whom) {
    for (std::size_t i = 0; i < whom.size(); i += actors_per_gatherer) {
      const auto begin = whom.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(actors_per_gatherer, whom.size() - i));
      all.one_more();
      self_
          ->request(self_->spawn<gatherer_actor::stateful_impl<gatherer_state>>(std::vector(begin, begin + count)), caf::infinite,
                    query)
          .then(
              [all](std::vector<actor_report>& said) {
                all->insert(all->end(), std::make_move_iterator(said.begin()), std::make_move_iterator(said.end()));
                all.one_less();
              },
              [all](const caf::error&) { all.one_less(); });
    }
  };
  if (job_)
    ask(job_->shown());
  ask(guests_);
  all.one_less();
  return promise;
}

void node_state::gathered(caf::typed_response_promise<node_report> promise, std::vector<actor_report> all) {
  std::vector<node_report> pages((all.size() + actors_per_page - 1) / actors_per_page);
  ++last_answer_;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto begin = std::make_move_iterator(all.begin() + static_cast<std::ptrdiff_t>(i * actors_per_page));
    const auto count = std::min(actors_per_page, all.size() - i * actors_per_page);
    pages[i].actors.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    pages[i].answer_id = last_answer_;
    pages[i].pages = static_cast<std::uint32_t>(pages.size());
  }
  auto& first = pages.front();
  first.pid = static_cast<std::int32_t>(getpid());
  first.resident_bytes = resident_bytes();
  if (job_)
    for (const auto& lane : job_->lanes())
      first.links.push_back({job_->name_of(lane.peer.value), lane.bytes_sent, lane.bytes_received, lane.waiting_bytes,
                             lane.credit_bytes, lane.stalled_s, lane.round_trip_s, lane.away_s, lane.resumed, lane.silent_s,
                             lane.lent_bytes});
  if (pages.size() == 1) {
    promise.deliver(std::move(first));
    return;
  }
  promise.deliver(first);
  answers_.push_back(std::move(pages));
  if (answers_.size() > answers_kept)
    answers_.pop_front();
}

} // namespace troupe::actors
