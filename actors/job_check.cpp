// SPDX-License-Identifier: BSD-3-Clause
// Whether a job can be run: every layer validates its part.
#include "actors/job_check.hpp"

#include <fmt/format.h>

#include "protocols/catalog.hpp"
#include "protocols/wire/codec.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

namespace {

/// A layer's sentence begins with its key.
std::string key_of(const std::string& section, const std::string& sentence) {
  return section + "." + sentence.substr(0, sentence.find(' '));
}

} // namespace

std::vector<job_problem> check_job(const job& job, const extensions& added) {
  std::vector<job_problem> wrong;
  if (const auto fits = troupe::validate(job.optimizer); !fits)
    wrong.push_back({key_of("optimizer", fits.error().message), "optimizer." + fits.error().message});
  if (const auto entry = protocols::find_protocol(job.protocol.name, added.protocols))
    for (const std::string& sentence : protocols::validate(*entry, job.protocol, job.cluster.workers))
      wrong.push_back({key_of("protocol", sentence), sentence});
  else
    wrong.push_back({"protocol.name", fmt::format("protocol.name = \"{}\" is not known here; `troupe protocols` lists what is",
                                                  job.protocol.name)});
  return wrong;
}

std::vector<job_problem> check_processes(const job& job) {
  constexpr auto most = protocols::wire::max_listed_workers;
  if (job.cluster.nodes > 1 && job.cluster.workers > most)
    return {{"cluster.workers", fmt::format("cluster.workers = {} is more than the {} that a message between nodes can list; "
                                            "give at most {}, or cluster.nodes = 1",
                                            job.cluster.workers, most, most)}};
  return {};
}

} // namespace troupe::actors
