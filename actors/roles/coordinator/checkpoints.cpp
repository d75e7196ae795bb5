// SPDX-License-Identifier: BSD-3-Clause
// Gathering the files of a checkpoint.
#include "actors/roles/coordinator/checkpoints.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/checkpoint/job_facts.hpp"
#include "actors/checkpoint/names.hpp"
#include "actors/errors.hpp"
#include "protocols/catalog.hpp"
#include "protocols/duration.hpp"
#include "protocols/wire/state.hpp"

namespace troupe::actors {

void checkpoints::begin(const protocols::step_count& made, protocols::nanoseconds now, const node_prepared& loaded) {
  const auto protocol = protocols::find_protocol(setup_.job.protocol.name, setup_.added);
  replicas_differ_ = protocol->replicas_differ();
  as_it_is_ = protocol->per_push || replicas_differ_;
  reduces_ = static_cast<bool>(protocol->reduces);
  workers_write_ = workers_keep_state(setup_.job, *protocol);
  floats_ = static_cast<std::uint64_t>(loaded.floats);
  for (const auto& each : loaded.parameters)
    tensors_.push_back({each.name, shape{each.dims}, static_cast<std::int64_t>(each.begin)});
  data_ = digests_of(loaded.files);
  if (!spec_.resume.empty())
    setup_.observer->on_event(fmt::format("the job goes on from {}", spec_.resume));
  step_ = begun_ = {made.steps};
  samples_ = made.samples;
  now_ = last_ = now;
  order_next();
}

void checkpoints::take_over(const std::vector<protocols::version>& kept, const protocols::step_count& made,
                            protocols::nanoseconds now, const node_prepared& loaded) {
  kept_.assign(kept.begin(), kept.end());
  while (kept_.size() > spec_.keep)
    kept_.pop_front();
  if (!kept_.empty())
    newest_ = ended_ = kept_.back();
  begin(made, now, loaded);
}

/// By steps, the next is ordered beforehand, so that it is exactly that one; where every role has versions of its own, it is the
/// one that each has then.
void checkpoints::order_next() {
  if (!spec_.enabled() || ordered_ || !open_.empty() || spec_.every_steps == 0)
    return;
  const protocols::version next{(std::max(step_, newest_.value_or(step_)).value / spec_.every_steps + 1) * spec_.every_steps};
  as_it_is_ ? void(due_ = next) : order(next);
}

void checkpoints::round_closed(protocols::version ver, std::uint64_t samples, protocols::nanoseconds now) {
  step_ = ver;
  samples_ = samples;
  now_ = now;
  if (!spec_.enabled())
    return;
  if (ordered_ && ver >= *ordered_ && !as_it_is_)
    decided_ = {ver, wire::encode_state(machine_->state())};
  if (due_ && ver >= *due_) {
    due_.reset();
    order(ver);
  }
  if (spec_.every_s <= 0 || now_ - last_ < protocols::duration_of_s(spec_.every_s) || ordered_)
    return;
  last_ = now_;
  if (open_.empty())
    return order(as_it_is_ ? ver : protocols::version{1});
  setup_.observer->on_event(
      fmt::format("no checkpoint at step {}: {} still writes that of step {}", ver.value, awaited(), open_.begin()->first.value));
}

void checkpoints::order_now() {
  if (!spec_.enabled() || (as_it_is_ && (step_ == protocols::version{} || awaits(step_))))
    return;
  at_once_ = true;
  order(as_it_is_ ? step_ : protocols::version{1});
}

caf::result<std::string> checkpoints::asked() {
  if (!spec_.enabled())
    return failure("this job writes no checkpoints; its file needs [checkpoint] dir = \"...\"");
  if (as_it_is_ && newest_ == step_)
    return spec_.dir + "/" + checkpoint_name(step_);
  order_now();
  const bool of_this = as_it_is_ && step_ > protocols::version{};
  requests_.push_back({of_this ? protocols::version{step_.value - 1} : step_, self_->make_response_promise<std::string>()});
  return requests_.back().promise;
}

/// Where all workers take the same steps: of the newest plan.
std::optional<protocols::member> checkpoints::writer() const {
  const auto& workers = machine_->current().workers;
  return reduces_ && !workers.empty() ? std::optional{workers.front()} : std::nullopt;
}

void checkpoints::order(protocols::version at) {
  if (reduces_) // who has saved this version, or a later one, has heard of it
    at = std::max(at, next(std::max(step_, newest_.value_or(step_))));
  if (as_it_is_) { // the workers are told now, too, and not when a shard has written its file: another may be ordered by then
    at_once_ = false;
    if (newest_ && *newest_ >= at)
      return;
    open(at);
    return replicas_differ_ ? void() : tell_all(protocols::checkpoint_order{at});
  }
  ordered_ = at;
  writer_ = writer();
  reduces_ ? tell_all(protocols::checkpoint_order{at})
           : self_->send(setup_.nodes[places_.holders[0].node].actor, protocols::checkpoint_order{at});
}

template <class Order>
void checkpoints::tell_all(const Order& order) {
  for (const auto& node : setup_.nodes)
    self_->send(node.actor, order);
}

checkpoints::unfinished& checkpoints::open(protocols::version ver) {
  const auto [known, fresh] = open_.try_emplace(ver);
  if (!fresh)
    return known->second;
  known->second.decided = decided_.first == ver ? std::move(decided_.second) : wire::encode_state(machine_->state());
  known->second.heard = now_;
  known->second.samples = samples_;
  if (workers_write_) {
    known->second.asked = machine_->current().workers;
    tell_all(protocols::keep_order{ver});
  }
  return known->second;
}

void checkpoints::on(const file_saved& msg) {
  if (!msg.of_worker && ordered_ && msg.ver >= *ordered_) {
    ordered_.reset();
    at_once_ = false;
  }
  if (!open_.contains(msg.ver) && msg.ver <= ended_)
    return;
  unfinished& its = open(msg.ver);
  if (msg.of_worker)
    its.workers.insert_or_assign({protocols::worker_id{msg.index}, protocols::incarnation{msg.incarnation}}, msg);
  else if (msg.error.empty())
    its.shards.insert_or_assign(msg.index, msg);
  else // perhaps from who has its place now, and the file is there
    its.shards.try_emplace(msg.index, msg);
  finish_complete();
}

void checkpoints::shard_lost(std::uint32_t shard) {
  for (auto& [ver, its] : open_)
    if (!its.written && !its.shards.contains(shard)) {
      file_saved& none = its.shards[shard];
      none.index = shard;
      none.ver = ver;
      none.error = lost_unwritten;
    }
  finish_complete();
  if (shard == 0 && ordered_)
    order(*ordered_);
}

void checkpoints::plan_changed() {
  for (auto& [ver, its] : open_)
    std::erase_if(its.asked, [this](protocols::member who) { return !machine_->current().has(who); });
  if (const auto now = writer(); now && writer_ && now != writer_) {
    writer_ = now;
    shard_lost(0);
  }
  finish_complete();
}

void checkpoints::worker_lost(protocols::worker_id worker) {
  for (auto& [ver, its] : open_)
    std::erase_if(its.asked, [worker](protocols::member who) { return who.worker == worker; });
  if (writer_ && writer_->worker == worker)
    shard_lost(0);
  finish_complete();
}

std::uint32_t checkpoints::shards_that_write() const {
  return replicas_differ_ ? 0 : setup_.job.cluster.shards;
}

/// One manifest at a time: the next one must know which are kept.
void checkpoints::finish_complete() {
  if (std::ranges::any_of(open_, [](const auto& each) { return each.second.written; }))
    return;
  for (auto& [ver, its] : open_) {
    const auto wrote = [&its = its](protocols::member who) { return its.workers.contains(who); };
    if (its.shards.size() == shards_that_write() && std::ranges::all_of(its.asked, wrote)) {
      its.written = true;
      return write_manifest_of(ver);
    }
  }
}

/// Syncing a disk may take long.
void checkpoints::write_manifest_of(protocols::version ver) {
  checkpoint_manifest manifest{.job = setup_.job.name,
                               .facts = checkpoint_facts(setup_.job),
                               .ver = ver,
                               .floats = floats_,
                               .tensors = tensors_,
                               .data = data_};
  std::string error;
  const auto add = [&](const file_saved& saved) {
    if (!saved.error.empty())
      error = fmt::format("{} {}: {}", saved.of_worker ? "worker" : "shard", saved.index, saved.error);
    manifest.files.push_back(saved.file);
  };
  unfinished& its = open_.at(ver);
  manifest.coordinator = std::move(its.decided);
  for (auto& [shard, saved] : its.shards) {
    add(saved);
    if (!saved.lead.empty()) {
      manifest.lead = std::move(saved.lead);
      manifest.samples = saved.samples;
      manifest.training_ns = reduces_ ? its.heard : saved.trained;
    }
  }
  for (const protocols::member& who : its.asked)
    add(its.workers.at(who));
  if (replicas_differ_) {
    manifest.lead = wire::encode_state(protocols::at_rest(machine_->current(), protocols::step_count{ver.value, its.samples}));
    manifest.samples = its.samples;
    manifest.training_ns = its.heard;
  }
  if (newest_ && ver < *newest_) // no file of it is written any more, so nothing of it stays
    error = fmt::format("that of step {} was whole before", newest_->value);
  else if (error.empty() && manifest.lead.empty())
    error = "the lead's shard has not told how the job goes on";
  std::optional<protocols::version> oldest;
  if (kept_.size() >= spec_.keep)
    oldest = kept_.front();
  const auto oldest_left = std::min(kept_.empty() ? ver : kept_.front(), open_.begin()->first);
  self_->home_system().spawn<caf::detached>([me = coordinator_control{self_}, manifest = std::move(manifest), error,
                                             dir = spec_.dir, oldest, begun = begun_, oldest_left](caf::event_based_actor*) {
    manifest_written out{.ver = manifest.ver, .error = error};
    try {
      if (out.error.empty())
        write_manifest(dir + "/" + checkpoint_name(manifest.ver), manifest);
    } catch (const std::exception& e) {
      out.error = e.what();
    }
    try {
      if (!out.error.empty())
        remove_checkpoint(dir, manifest.ver);
      else if (oldest)
        remove_checkpoint(dir, *oldest);
      remove_strays(dir, begun, oldest_left);
    } catch (const std::exception& e) {
      out.left = e.what();
    }
    caf::anon_send(me, out);
  });
}

void checkpoints::on(const manifest_written& msg) {
  open_.erase(msg.ver);
  ended_ = std::max(ended_, std::optional{msg.ver});
  if (!msg.left.empty())
    setup_.observer->on_event("an old checkpoint was not removed: " + msg.left);
  if (msg.error.empty()) {
    newest_ = msg.ver;
    if (kept_.size() >= spec_.keep)
      kept_.pop_front();
    kept_.push_back(msg.ver);
    setup_.observer->on_event(fmt::format("checkpoint {}/{}", spec_.dir, checkpoint_name(msg.ver)));
  } else {
    setup_.observer->on_event(fmt::format("no checkpoint of step {}: {}{}", msg.ver.value, msg.error,
                                          newest_ ? fmt::format("; the newest is that of step {}", newest_->value) : ""));
  }
  std::erase_if(requests_, [&](request& asked) {
    if (msg.ver <= asked.since)
      return false;
    msg.error.empty() ? asked.promise.deliver(spec_.dir + "/" + checkpoint_name(msg.ver))
                      : asked.promise.deliver(failure(msg.error));
    return true;
  });
  const auto due = spec_.every_steps == 0 ? 0 : step_.value / spec_.every_steps * spec_.every_steps;
  if (due > std::max(msg.ver, newest_.value_or(msg.ver)).value && !ordered_)
    setup_.observer->on_event(fmt::format("no checkpoint of step {}: that of step {} took too long", due, msg.ver.value));
  if (then_ && !awaits(last_step_) && open_.empty())
    return std::exchange(then_, {})();
  finish_complete();
  order_next();
}

bool checkpoints::awaits(protocols::version ver) const {
  return (!newest_ || *newest_ < ver) && (at_once_ || open_.lower_bound(ver) != open_.end());
}

std::string checkpoints::awaited() const {
  std::vector<std::string> names;
  if (!open_.empty()) {
    const unfinished& first = open_.begin()->second;
    for (std::uint32_t shard = 0; shard < shards_that_write(); ++shard)
      if (!first.shards.contains(shard))
        names.push_back(fmt::format("shard {}", shard));
    for (const protocols::member& who : first.asked)
      if (!first.workers.contains(who))
        names.push_back(fmt::format("worker {}", who.worker.value));
  }
  return names.empty() ? "the coordinator" : fmt::format("{}", fmt::join(names, ", "));
}

void checkpoints::held(protocols::version ver, std::uint64_t samples) {
  samples_ = samples;
  if (!hold_.saves_at(ver) || (newest_ && *newest_ >= ver))
    return;
  if (as_it_is_ && !open_.contains(ver)) // a file that is written twice is not what the manifest proves
    order(ver);
  open(ver);
}

void checkpoints::when_saved(protocols::version ver, std::chrono::seconds patience, std::function<void()> then) {
  if (!awaits(ver) && open_.empty())
    return then();
  last_step_ = ver;
  then_ = std::move(then);
  self_->run_delayed(patience, [this, patience] {
    if (!then_)
      return;
    setup_.observer->on_event(
        fmt::format("no checkpoint at the end: {} has not written it after {} s", awaited(), patience.count()));
    std::exchange(then_, {})();
  });
}

} // namespace troupe::actors
