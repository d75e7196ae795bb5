// SPDX-License-Identifier: BSD-3-Clause
// Files that people write, and those that other programs of ours read again.
#include <string>

#include <boost/json.hpp>

#include "apps/calibration.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/config/job_file.hpp"
#include "apps/rounds_file.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

namespace {

/// Every problem says where it is, and what is wrong.
template <class T>
void is_explained(const config::checked<T>& read) {
  if (read)
    return;
  const config::refusal why = read.error();
  must(!why.all.empty(), "what is refused has a problem");
  for (const config::problem& each : why.all)
    must(!each.where.empty() && !each.message.empty(), "a problem has a place and a sentence");
}

} // namespace

int fuzz_job(const std::uint8_t* data, std::size_t size) {
  const auto job = config::load_job(written("job.toml", data, size));
  is_explained(job);
  if (job)
    boost::json::serialize(config::to_json(*job));
  return 0;
}

std::vector<input> job_corpus() {
  std::vector<input> out;
  for (const char* name : {"quickstart", "mnist-cnn", "slow-link", "stragglers", "protocols/auto", "protocols/coded"})
    out.push_back(source_file(std::string("config/") + name + ".toml"));
  out.push_back(bytes_of("[data]\nsource = \"csv\"\npath = \"x\"\n[model]\nkind = \"mlp\"\nhidden = [3]\n[inject]\nstep_ms = 2\n"
                         "[[inject.straggler]]\nworker = 0\nfactor = 2\n[[inject.fault]]\ncrash = \"worker:1\"\nat_s = 3\n"
                         "[stop]\nsteps = 3\n[checkpoint]\ndir = \"kept\"\nevery_s = 2.5\n"));
  return out;
}

int fuzz_cluster(const std::uint8_t* data, std::size_t size) {
  const auto cluster = config::load_cluster(written("cluster.toml", data, size));
  is_explained(cluster);
  if (!cluster)
    return 0;
  const std::string text = config::to_toml(*cluster);
  const auto again = config::load_cluster(written("again.toml", reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  must(again && again->nodes.size() == cluster->nodes.size(), "a cluster as text is the same cluster");
  return 0;
}

std::vector<input> cluster_corpus() {
  return {source_file("config/cluster.toml"), bytes_of("[cluster]\nname = \"lab\"\n[[node]]\nname = \"a\"\nhost = \"127.0.0.1\"\n"
                                                       "port = 7000\n[[node]]\nname = \"b\"\nhost = \"localhost\"\nport = 7001\n"
                                                       "roles = [\"worker\"]\ndevices = [\"cpu\"]\n")};
}

int fuzz_rounds(const std::uint8_t* data, std::size_t size) {
  const auto read = apps::parse_rounds("rounds.jsonl", {reinterpret_cast<const char*>(data), size});
  is_explained(read);
  if (read)
    for (const auto& round : read->rounds)
      must(read->plans.contains(round.epoch) && round.ver > read->from, "a version of the file has its plan there");
  return 0;
}

std::vector<input> rounds_corpus() {
  return {bytes_of(R"({"troupe_rounds":1,"job":"small","version":0,"facts":{"seed":"7","data.batch":"16"}}
{"epoch":1,"members":[[0,0],[1,0]]}
{"version":1,"position":0,"epoch":1,"workers":2,"samples_before":0,"lr_scale":"1","contributions":[[0,0,1,"0.5"],[1,0,1,"0.5"]]}
{"epoch":2,"members":[[1,0]]}
{"version":2,"position":32,"epoch":2,"workers":1,"samples_before":32,"lr_scale":"0.5","contributions":[[1,0,2,"1"]]}
{"version":3,"position":48,"epoch":2,"workers":1,"samples_before":48,"lr_scale":"0.5","contributions":[]}
{"end":3,"weights_digest":"a291772e9936c2dde9c93e2181f3aea8"}
)")};
}

int fuzz_calibration(const std::uint8_t* data, std::size_t size) {
  is_explained(apps::read_calibration(written("trace.json", data, size)));
  return 0;
}

std::vector<input> calibration_corpus() {
  std::string events;
  const auto add = [&events](const char* name, int begin, int end, const std::string& args) {
    events += std::string(events.empty() ? "" : ",") + R"({"name":")" + name + R"(","ph":"X","ts":)" + std::to_string(begin)
              + R"(,"dur":)" + std::to_string(end - begin) + R"(,"args":{)" + args + "}}";
  };
  for (int version = 0; version < 3; ++version)
    for (int worker = 0; worker < 2; ++worker) {
      const int begin = 200 * version, end = begin + 100 + 20 * worker;
      const std::string who = R"("worker":)" + std::to_string(worker);
      add("compute", begin, end,
          who + R"(,"step":1,"version":)" + std::to_string(version) + R"(,"samples":10,"training_ns":)"
              + std::to_string((end - begin) * 1000));
      add("push", end, end + 1, who + R"(,"bytes":8)");
      if (worker == 1)
        add("apply", end + 10, end + 20, R"("shard":0,"version":)" + std::to_string(version + 1) + R"(,"contributions":2)");
    }
  const std::string about =
      R"({"format":"troupe trace 1","workers":2,"shards":1,"fan_in":0,"batch":10,"latency_ms":0,"mbit":0,"dropped":0})";
  return {bytes_of(R"({"otherData":)" + about + R"(,"traceEvents":[)" + events + "]}")};
}

} // namespace troupe::fuzz
