// SPDX-License-Identifier: BSD-3-Clause
// A job's checkpoints: when the next one is due, which files have come, the manifest that proves them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/typed_response_promise.hpp>

#include "actors/roles/coordinator/coordinator_setup.hpp"

namespace troupe::actors {

/// A checkpoint is ordered for a version; each shard writes its file of that version, and so does each worker that keeps
/// something between rounds; then a manifest is written on a thread of its own, and of this run's checkpoints the oldest beyond
/// `keep` is removed, and what a role wrote of one that was removed before. One is ordered at a time; a hold may add another. One
/// that is whole after a newer one is removed. A failure costs that checkpoint and a line. Where each shard applies pushes alone,
/// an order is for the version that it has. Where all workers take the same steps, the plan's first worker writes the shard's
/// file. Where every worker has parameters of its own, no shard writes, and an order is for what each worker has.
///
/// Part of the coordinator, and used on its thread alone.
class checkpoints {
public:
  /// `machine`: null until the job begins.
  checkpoints(measured_pointer<coordinator_control> self, const coordinator_setup& setup, const job_places& places,
              const std::unique_ptr<protocols::coordinator>& machine)
      : self_(self), setup_(setup), places_(places), spec_(setup.job.checkpoint), machine_(machine) {}

  /// `made`, `now`: the steps and the training time with which the job begins. `loaded`: by the coordinator's node.
  void begin(const protocols::step_count& made, protocols::nanoseconds now, const node_prepared& loaded);
  /// Instead, of a job that another coordinator began: these are its checkpoints. One that was being written when that was lost
  /// is finished if all files of it come.
  void take_over(const std::vector<protocols::version>& kept, const protocols::step_count& made, protocols::nanoseconds now,
                 const node_prepared& loaded);
  /// `samples`: applied so far.
  void round_closed(protocols::version ver, std::uint64_t samples, protocols::nanoseconds now);
  /// The next version, whatever the interval.
  void order_now();
  /// Likewise; answered once it is written, or cannot be.
  caf::result<std::string> asked();
  /// The lead marks the version at which it holds where its newest order says so.
  void hold_ordered(const protocols::hold_order& order) { hold_ = order; }
  void held(protocols::version ver, std::uint64_t samples);
  void on(const file_saved& msg);
  /// Workers that are gone write no file any more.
  void plan_changed();
  void on(const manifest_written& msg);
  /// What it had not written is never written; a lead that takes over does not know what the last one was to mark.
  void shard_lost(std::uint32_t shard);
  /// When the job ends, and no plan comes any more.
  void worker_lost(protocols::worker_id worker);

  /// Calls `then` once that of this version is on the disk and none is on its way there any more; or when that takes too long.
  void when_saved(protocols::version ver, std::chrono::seconds patience, std::function<void()> then);

private:
  /// One that is being written.
  struct unfinished {
    std::map<std::uint32_t, file_saved> shards;
    std::map<protocols::member, file_saved> workers;
    std::vector<protocols::member> asked; ///< workers that keep something
    std::vector<std::uint64_t> decided;   ///< the machine's state when it heard of the version, encoded
    protocols::nanoseconds heard = 0;     ///< when it did
    std::uint64_t samples = 0;            ///< applied then
    bool written = false;                 ///< all but the manifest
  };

  bool awaits(protocols::version ver) const;
  /// The roles that have not written theirs yet.
  std::string awaited() const;
  unfinished& open(protocols::version ver);
  std::uint32_t shards_that_write() const;
  void finish_complete();
  void order(protocols::version at);
  template <class Order>
  void tell_all(const Order& order);
  std::optional<protocols::member> writer() const;
  void order_next();
  void write_manifest_of(protocols::version ver);

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  const job_places& places_;
  const checkpoint_spec& spec_;
  std::uint64_t floats_ = 0;
  std::vector<tensor_place> tensors_;
  std::map<std::string, std::string> data_; ///< SHA-256, by path, of the files that the job reads
  const std::unique_ptr<protocols::coordinator>& machine_;
  bool as_it_is_ = false;        ///< every role saves what it has when it is told, not what it will have at a version
  bool replicas_differ_ = false; ///< workers alone write
  bool reduces_ = false;         ///< the plan's first worker writes what all have alike
  bool workers_write_ = false;   ///< what they keep between rounds
  std::map<protocols::version, unfinished> open_;
  std::optional<protocols::version> ordered_; ///< has not begun to be written
  bool at_once_ = false;                      ///< that is one for the next version
  std::optional<protocols::member> writer_;   ///< when it was ordered
  std::optional<protocols::version> newest_;  ///< with a manifest
  std::optional<protocols::version> ended_;   ///< the newest, with or without one
  struct request {
    protocols::version since; ///< one of a later version answers it
    caf::typed_response_promise<std::string> promise;
  };
  std::vector<request> requests_;
  std::optional<protocols::version> due_;                             ///< by steps, where each shard has versions of its own
  std::pair<protocols::version, std::vector<std::uint64_t>> decided_; ///< the machine's state at a version that may be marked
  std::deque<protocols::version> kept_;                               ///< of this run, the oldest first
  protocols::hold_order hold_;                                        ///< the newest
  protocols::version last_step_{};
  std::function<void()> then_;                ///< when that is saved
  protocols::version step_{}, begun_{};       ///< now, and when the job began
  std::uint64_t samples_ = 0;                 ///< applied
  protocols::nanoseconds now_ = 0, last_ = 0; ///< training time: now, and of the last order
};

} // namespace troupe::actors
