// SPDX-License-Identifier: BSD-3-Clause
// Forwards progress a few times a second, everything else at once.
#include "actors/node/job_forwarder.hpp"

#include <utility>

#include <caf/send.hpp>

#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

namespace {

/// Displays need only a few updates a second, and a message across hosts costs more than a step of a small model.
constexpr std::int64_t between_progress_ns = 50'000'000;
/// More would be a large message for the control plane.
constexpr std::size_t most_contributions = 4096;

} // namespace

job_forwarder::job_forwarder(std::uint64_t number, client_actor client, std::vector<std::string> nodes,
                             std::shared_ptr<job_meter> meter, job_metrics metrics, cluster_control owner, bool goes_on)
    : metrics_(metrics), number_(number), client_(std::move(client)), nodes_(std::move(nodes)), meter_(std::move(meter)),
      owner_(std::move(owner)), goes_on_(goes_on) {}

void job_forwarder::on_started(std::int64_t data_size) {
  meter_->data_size = data_size;
  const job_begins begins{nodes_, data_size, goes_on_};
  caf::anon_send(client_, begins);
  caf::anon_send(owner_, job_news{number_, begins});
}

void job_forwarder::on_progress(const progress& p) {
  meter_->steps = p.step;
  meter_->samples = p.samples;
  metrics_.on_progress(p);
  auto rounds = untold_ ? std::move(untold_->rounds) : std::vector<made_round>{};
  rounds.insert(rounds.end(), p.rounds.begin(), p.rounds.end());
  untold_ = p;
  untold_->rounds = std::move(rounds);
  if (steady_ns() - told_ns_ >= between_progress_ns || has_many_rounds())
    tell_progress();
}

void job_forwarder::on_evaluation(const evaluation_point& e) {
  metrics_.on_evaluation(e);
  caf::anon_send(client_, e);
  caf::anon_send(owner_, job_news{number_, e});
}

void job_forwarder::on_event(const std::string& text) {
  caf::anon_send(client_, job_says{text});
  caf::anon_send(owner_, job_news{number_, job_says{text}});
}

void job_forwarder::on_finished(job_result result) {
  if (untold_)
    tell_progress(); // the last progress
  caf::anon_send(owner_, job_finished{number_, std::make_shared<job_result>(std::move(result))});
}

bool job_forwarder::has_many_rounds() const {
  std::size_t contributions = 0;
  for (const made_round& round : untold_->rounds)
    contributions += round.made.contributions.size() + round.members.size();
  return contributions >= most_contributions;
}

void job_forwarder::tell_progress() {
  told_ns_ = steady_ns();
  caf::anon_send(client_, *untold_);
  untold_->rounds.clear();
  caf::anon_send(owner_, job_news{number_, *untold_});
  untold_.reset();
}

} // namespace troupe::actors
