// SPDX-License-Identifier: BSD-3-Clause
// Writing decisions down, and reading them again.
#include "actors/cluster/decisions/job_decisions.hpp"

#include <stdexcept>
#include <utility>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/byte_buffer.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/cluster/decisions/client_return.hpp"
#include "actors/cluster/decisions/going_on.hpp"
#include "actors/errors.hpp"
#include "actors/messages/dialect.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {
namespace {

namespace ledger = protocols::ledger;

/// Of a reason in the ledger.
constexpr std::size_t most_of_reason = 300;

/// Waits for the disk on a thread of its own. What fails once is final.
class ledger_keeper {
public:
  static inline const char* name = "troupe.ledger";

  ledger_keeper(ledger_actor::stateful_pointer<ledger_keeper>, std::shared_ptr<kept_jobs> kept) : kept_(std::move(kept)) {}

  ledger_actor::behavior_type make_behavior() {
    return {[this](const decide_entry& msg) -> caf::result<decided_entry> {
      try {
        return decided_entry{kept_->ledger->decide(msg.entry), {}};
      } catch (const std::exception& e) {
        return decided_entry{{}, e.what()};
      }
    }};
  }

private:
  std::shared_ptr<kept_jobs> kept_;
};

template <class... Parts>
ledger::bytes bytes_of(const Parts&... parts) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  if (!(sink.apply(parts) && ...))
    throw std::runtime_error("a job cannot be written into the journal: " + caf::to_string(sink.get_error()));
  const auto whole = std::as_bytes(std::span(out));
  return {whole.begin(), whole.end()};
}

/// Of another build nothing more is read: what follows may differ.
template <class Part>
bool read_bytes(const ledger::bytes& from, std::string& written_by, Part& to) {
  caf::binary_deserializer source{nullptr, reinterpret_cast<const caf::byte*>(from.data()), from.size()};
  return source.apply(written_by) && written_by == message_dialect() && source.apply(to) && source.remaining() == 0;
}

std::string cut_to(std::string text, std::size_t most) {
  while (text.size() > most && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most;
  text.resize(std::min(text.size(), most));
  return text;
}

/// That a ledger keeps room for. Nodes that a job grows onto bring a worker each at least.
std::uint32_t roles_of(const job& job) {
  const auto& wants = job.cluster;
  const auto holders = protocols::holder_tree(job.shape()).size();
  return 2 * wants.seats() + static_cast<std::uint32_t>(holders) + wants.nodes;
}

/// Without what is lost with this process, and no longer than the ledger takes.
ledger::ended entry_of(std::uint64_t number, const job_result& how) {
  auto kept = how;
  kept.parameters = {};
  kept.trace.clear();
  kept.weights_step.reset();
  kept.scaling = {};
  kept.reason = cut_to(how.reason, most_of_reason);
  ledger::ended out{.number = number,
                    .how = how.interrupted ? ledger::ending::interrupted
                           : how.failed    ? ledger::ending::failed
                                           : ledger::ending::done,
                    .reason = kept.reason};
  out.outcome = bytes_of(message_dialect(), kept);
  if (out.outcome.size() + out.reason.size() > ledger::most_of_end) {
    kept.staleness.clear();
    out.outcome = bytes_of(message_dialect(), kept);
  }
  return out;
}

/// Of a job that has ended; what the ledger has at the least.
job_result result_of(const ledger::job_end& end) {
  job_result out;
  if (std::string written_by; read_bytes(end.outcome, written_by, out))
    return out;
  out = {};
  out.interrupted = end.how == ledger::ending::interrupted;
  out.failed = out.interrupted || end.how == ledger::ending::failed;
  out.reason = end.reason;
  return out;
}

} // namespace

std::shared_ptr<kept_jobs> open_kept_jobs(const std::string& folder, std::chrono::milliseconds orphan) {
  auto ledger = std::make_unique<durable_ledger>(folder);
  auto out = kept_jobs_of(ledger->state(), folder, orphan);
  out->term = ledger->member().stored.term.value;
  out->ledger = std::move(ledger);
  return out;
}

std::shared_ptr<kept_jobs> kept_jobs_of(const ledger::state& decided, const std::string& folder,
                                        std::chrono::milliseconds orphan) {
  auto out = std::make_shared<kept_jobs>();
  out->orphan = orphan;
  out->last_number = decided.last;
  for (const auto& [number, known] : decided.jobs) {
    cluster_job back{.number = number, .submission = {}, .client = {}};
    std::string written_by;
    const bool read = read_bytes(known.submission, written_by, back.submission);
    if (!read && known.end)
      continue; // of another build: it is over, and nobody can have its result
    if (!read)
      throw std::runtime_error(
          written_by == message_dialect()
              ? fmt::format("{}: job {} cannot be read; remove the folder, and submit its jobs again", folder, number)
              : fmt::format(
                  "{}: job {} was submitted to Troupe {}, and this is {}; have that one end its jobs first, or remove the "
                  "folder and submit them again",
                  folder, number, written_by, message_dialect()));
    back.life = known.life;
    back.orphan = !known.detached;
    if (known.end) {
      back.ending = back.ended = true;
      back.result = result_of(*known.end);
      back.what_now = "had ended when the coordinator was lost, and its parameters and its trace were lost with it";
    } else if (known.life == 0) {
      back.what_now = "was in the queue when the coordinator was lost, and still is";
    } else {
      out->nodes.insert(known.nodes.begin(), known.nodes.end());
      if (known.course.plan.epoch != protocols::plan_epoch{}) // its roles may run still
        back.returning.emplace(known.course, known.nodes);
      else
        back.what_now = begin_where_it_can(back.submission.job);
    }
    out->jobs.push_back(std::move(back));
  }
  return out;
}

job_decisions::job_decisions(cluster_control::pointer self, std::shared_ptr<kept_jobs> kept,
                             std::function<void(const std::string&)> say)
    : self_(self), kept_(std::move(kept)), say_(std::move(say)) {
  if (!kept_)
    return;
  awaited_ = kept_->nodes;
  keeper_ = kept_->council;
  if (!keeper_)
    keeper_ = self_->spawn<ledger_actor::stateful_impl<ledger_keeper>, caf::detached + caf::linked>(kept_);
}

double job_decisions::orphan_s() const {
  return kept_ ? std::chrono::duration<double>(kept_->orphan).count() : 0;
}

std::chrono::duration<double> job_decisions::client_wait() const {
  return orphan_s() > 0 ? std::chrono::duration<double>(orphan_s()) : client_return;
}

void job_decisions::submitted(std::uint64_t number, const submit_job& submission, afterwards then) {
  if (!durable())
    return then({});
  decide(ledger::submitted{number, submission.detached, bytes_of(message_dialect(), submission), roles_of(submission.job)},
         std::move(then));
}

void job_decisions::started(const cluster_job& job, std::uint64_t key, const std::vector<std::string>& nodes,
                            std::function<void()> then) {
  if (!durable())
    return then();
  ledger::started start{.number = job.number, .life = job.life, .nodes = {}, .key = key};
  std::size_t room = ledger::most_of_nodes;
  for (const auto& each : nodes)
    if (const auto needs = each.size() + 16; needs <= room) {
      start.nodes.push_back(each);
      room -= needs;
    }
  decide(std::move(start), unless_another_leads(std::move(then)));
}

decided_job job_decisions::of(const cluster_job& job) const {
  if (!durable())
    return {};
  return {.ledger = keeper_,
          .alone = !kept_->council,
          .number = job.number,
          .life = job.life,
          .term = kept_->term,
          .orphan_s = orphan_s()};
}

/// Of several coordinators another one decides, if this one cannot. A single one goes on without its journal.
job_decisions::afterwards job_decisions::unless_another_leads(std::function<void()> then) const {
  return [another = static_cast<bool>(kept_->council), then = std::move(then)](const std::string& why_not) {
    if (why_not.empty() || !another)
      then();
  };
}

void job_decisions::ended(std::uint64_t number, const job_result& how, afterwards then) {
  if (!durable())
    return then({});
  decide(entry_of(number, how), unless_another_leads([then = std::move(then)] { then({}); }));
}

void job_decisions::forgotten(std::uint64_t number) {
  decide(ledger::forgotten{number}, [](const std::string&) {});
}

std::string job_decisions::holds_back(const cluster_job& job) const {
  if (job.rests)
    return "it starts again";
  if (job.returning)
    return fmt::format("it runs, and the coordinator that leads now waits for its nodes{}{}",
                       job.returning->awaited().empty() ? "" : ": ", fmt::join(job.returning->awaited(), ", "));
  if (job.orphan)
    return fmt::format("its client is away; without it the job ends after {:g} s", client_wait().count());
  return awaited_.empty() ? "" : fmt::format("the coordinator has come back, and waits for {}", fmt::join(awaited_, ", "));
}

void job_decisions::decide(ledger::entry entry, afterwards then) {
  if (!durable() || !failed_.empty())
    return then(failed_);
  const auto fail = [this, then](const std::string& why) {
    if (failed_.empty() && kept_->council)
      failed_ = why; // whoever leads now goes on
    else if (failed_.empty()) {
      failed_ =
          fmt::format("the coordinator's journal failed, and it takes no further jobs: {}; mend that (is the disk full?), and "
                      "start its node again",
                      why);
      say_(failed_ + "; jobs that are here go on, and what becomes of them is not kept");
    }
    then(failed_);
  };
  self_->request(keeper_, caf::infinite, decide_entry{std::move(entry)})
      .then(
          [fail, then](const decided_entry& said) {
            if (said.failed.empty())
              then(said.why_not);
            else
              fail(said.failed);
          },
          [fail](const caf::error& e) { fail(explain(e)); });
}

} // namespace troupe::actors
