// SPDX-License-Identifier: BSD-3-Clause
// `troupe replay`: a run's weights anew, in one process, from what each of its versions was made of.
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/job_setup.hpp"
#include "apps/model_numerics.hpp"
#include "apps/report.hpp"
#include "apps/resume.hpp"
#include "apps/rounds_file.hpp"
#include "protocols/catalog.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

namespace sim = protocols::sim;

/// The first effect of this kind.
template <class Effect>
const Effect* first_effect(const protocols::worker_effects& effects) {
  for (const auto& effect : effects)
    if (const auto* found = std::get_if<Effect>(&effect))
      return found;
  return nullptr;
}

/// One life of a worker: its machine says what a gradient is over, as it did in the run.
class replayed_worker {
public:
  replayed_worker(const protocols::protocol& chosen, const actors::job& job, protocols::member self, sim::numerics& maths)
      : machine_(chosen.make_worker(job.protocol, self, job.seed)), maths_(maths.make_worker(self)),
        feeds_back_(job.codec.error_feedback) {}

  /// As it was pushed under this name.
  sim::tensor gradient(const protocols::push_id& as, const protocols::plan& current, const protocols::round_record& round,
                       const sim::tensor& parameters) {
    if (heard_ != current.epoch)
      machine_->on(current);
    heard_ = current.epoch;
    if (feeds_back_ && as.clock.value != ++pushes_)
      throw std::runtime_error(
          fmt::format("push {} of worker {}, life {}, is in no version, and what its code lost is in its next "
                      "push; a run that leaves pushes out replays with codec.error_feedback = false only",
                      pushes_, as.worker.value, as.incarnation.value));
    const protocols::version base{round.ver.value - 1};
    const auto effects = machine_->on(protocols::params{.epoch = current.epoch,
                                                        .ver = base,
                                                        .key = round.ver.value,
                                                        .position = round.position,
                                                        .period = current.period,
                                                        .parameters = protocols::ticket{1}});
    const auto* order = first_effect<protocols::compute>(effects);
    if (order == nullptr)
      throw std::runtime_error("its worker computes no gradient in this round");
    const auto found = maths_->gradient_at(parameters, sim::batch_of(*order, current));
    const auto answer = machine_->on(
        protocols::computed{.step = order->step, .gradient = protocols::ticket{2}, .samples = 1, .finite = found.finite});
    const auto* push = first_effect<protocols::send_push>(answer);
    if (push == nullptr || !push->sum.empty() || !found.value)
      throw std::runtime_error("its worker pushes no gradient in this round");
    if (!found.finite)
      throw std::runtime_error("its gradient is not finite");
    return maths_->encoded({.id = as, .base = base}, found.value, {}).value; // only rounds are replayed, and they have no budget
  }

private:
  std::unique_ptr<protocols::worker> machine_;
  std::unique_ptr<sim::worker_numerics> maths_;
  bool feeds_back_; ///< what the code of a push lost is in the next
  std::uint64_t pushes_ = 0;
  protocols::plan_epoch heard_;
};

/// The parameters, version by version.
class replayed_run {
public:
  replayed_run(const prepared_job& prepared, const actors::job& job)
      : job_(job), data_size_(prepared.data.train->size()),
        chosen_(*protocols::find_protocol(job.protocol.name, prepared.config.added.protocols)),
        maths_(make_model_numerics(job_, prepared.network, prepared.data)), shard_(maths_->make_shard(0, 1)) {}

  void make(const protocols::round_record& round, const std::vector<protocols::member>& members) {
    const protocols::plan current{
        .epoch = round.epoch, .workers = members, .protocol = job_.protocol, .batch = job_.data.batch, .data_size = data_size_};
    if (position_ && round.position != *position_)
      throw std::runtime_error(
          fmt::format("it begins at sample {}, and the one before it ends at {}", round.position, *position_));
    position_ = current.after(round.position);
    protocols::close how{.epoch = round.epoch,
                         .ver = round.ver,
                         .contributions = round.contributions,
                         .step = {.lr_scale = round.lr_scale},
                         .samples_before = round.samples_before,
                         .workers = static_cast<std::uint32_t>(members.size())};
    const sim::tensor parameters = shard_->move_image({round.ver.value - 1});
    std::vector<sim::operand> sum;
    for (const auto& [id, weight] : round.contributions)
      sum.push_back({.tensor = gradient_of(id, current, round, parameters), .weight = weight});
    contributions += sum.size();
    if (job_.optimizer.clip_norm > 0 && !sum.empty()) {
      sum = {{.tensor = maths_->sum(sum)}};
      how.step.squares = shard_->squares_of(sum.front().tensor);
    }
    shard_->step(sum, how, nullptr);
  }
  const float* parameters() const { return values_of(shard_->parameters()); }

  std::uint64_t contributions = 0;

private:
  sim::tensor gradient_of(const protocols::push_id& as, const protocols::plan& current, const protocols::round_record& round,
                          const sim::tensor& parameters) {
    const protocols::member who{as.worker, as.incarnation};
    auto& [life, worker] = workers_[who.worker];
    if (!worker || life != who.incarnation) {
      life = who.incarnation;
      worker = std::make_unique<replayed_worker>(chosen_, job_, who, *maths_);
    }
    return worker->gradient(as, current, round, parameters);
  }

  const actors::job& job_;
  std::int64_t data_size_;
  protocols::protocol chosen_;
  std::unique_ptr<sim::numerics> maths_;
  std::unique_ptr<sim::shard_numerics> shard_;
  std::map<protocols::worker_id, std::pair<protocols::incarnation, std::unique_ptr<replayed_worker>>> workers_;
  std::optional<std::uint64_t> position_; ///< of the next round
};

/// The job as the run began it. Refuses one that is not the file's.
config::checked<actors::job> job_as_begun(const replay_options& options, const prepared_job& prepared, const rounds_file& file) {
  const config::loaded_job& loaded = prepared.config;
  if (auto wrong = cannot_replay(loaded); !wrong.empty())
    return config::refusal{std::move(wrong)};
  if (auto wrong = other_facts(loaded, file, options.rounds); !wrong.empty())
    return config::refusal{std::move(wrong)};
  actors::job job = loaded.job;
  job.cluster.shards = 1; // any number makes the same bits
  if (file.from.value == 0 && !options.resume.empty())
    return config::refusal{{{"--resume", fmt::format("{} is of a run that began at step 0; leave it out", options.rounds)}}};
  if (file.from.value == 0)
    return job;
  if (options.resume.empty())
    return config::refusal{
        {{options.rounds,
          fmt::format("is of a run that went on from step {}; name that checkpoint with --resume", file.from.value)}}};
  const auto from = find_checkpoint(options.resume);
  if (!from)
    return from.error();
  if (from->manifest.ver != file.from)
    return config::refusal{{{"--resume", fmt::format("{} is of step {}, and {} is of a run that went on from step {}; name that",
                                                     from->folder, from->manifest.ver.value, options.rounds, file.from.value)}}};
  const auto floats = static_cast<std::uint64_t>(prepared.network.layout().floats());
  job.stop = {}; // the run's end may be behind the checkpoint's
  auto unlimited = loaded;
  unlimited.job = job;
  if (auto wrong = cannot_resume(unlimited, *from, floats, prepared.data.train->size()); !wrong.empty())
    return config::refusal{std::move(wrong)};
  job.checkpoint.resume = from->folder;
  return job;
}

int report_replay(const replay_options& options, const rounds_file& file, std::uint64_t contributions,
                  const std::string& digest) {
  const bool same = digest == file.weights_digest;
  const auto versions = file.end.value - file.from.value;
  if (options.json)
    print_json({{"job", file.job},
                {"from", file.from.value},
                {"version", file.end.value},
                {"contributions", contributions},
                {"weights_digest", digest},
                {"run_digest", file.weights_digest},
                {"same", same}});
  else
    fmt::print("{} of {}\nweights {}{}\n", counted(versions, "version"), counted(contributions, "gradient"), digest,
               same ? ", as the run's" : "");
  if (same)
    return exit_done;
  fmt::print(stderr, "troupe: {} ends with weights {}, and its rounds make {}: the run did not do what the file says\n",
             options.rounds, file.weights_digest, digest);
  return exit_failed;
}

} // namespace

int execute(const replay_options& options) {
  const auto file = read_rounds(options.rounds);
  if (!file)
    return refuse(file.error());
  const auto prepared = prepare_job(options.job);
  if (!prepared)
    return refuse(prepared.error());
  const auto job = job_as_begun(options, *prepared, *file);
  if (!job)
    return refuse(job.error());
  try {
    replayed_run run(*prepared, *job);
    for (const protocols::round_record& round : file->rounds) {
      if (round.ver > file->end)
        break;
      try {
        run.make(round, file->plans.at(round.epoch));
      } catch (const std::runtime_error& e) {
        return refuse({{{options.rounds, fmt::format("version {}: {}", round.ver.value, e.what())}}});
      }
    }
    return report_replay(options, *file, run.contributions, weights_digest(prepared->network.layout(), run.parameters()));
  } catch (const std::exception& e) {
    fmt::print(stderr, "troupe: {}\n", e.what());
    return exit_failed;
  }
}

} // namespace troupe::apps
