// SPDX-License-Identifier: BSD-3-Clause
// `[inject]`: stragglers, the link and faults, from tables of the file and from SPECs of the command line by the same keys.
#include "apps/config/job_draft.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "apps/config/read_table.hpp"
#include "apps/config/spec_text.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::config {

namespace {

using protocols::fault_spec;
using protocols::straggler_spec;
using protocols::worker_id;

struct straggler_draft {
  straggler_spec out;
  std::int64_t worker = -1;
  std::string dist, trace;
};

struct fault_draft {
  fault_spec out;
  std::string crash, pause, partition; ///< "worker:2"
  double back_after_s = 0, reorder = 0, repeat = 0, loss = 0;
};

const std::string straggler_section = "inject.straggler", link_section = "inject.link", fault_section = "inject.fault";

const real from_zero{.least = 0};
const real above_zero{.least = 0, .open_least = true};

template <class Target, class Access>
key_info<Target> optional_key(const std::string& section, std::string name, domain accepts, Access access, std::string meaning) {
  return key_of<Target>(section, std::move(name), std::move(accepts), access, std::move(meaning), true);
}

std::vector<key_info<straggler_draft>> straggler_keys() {
  const auto key = [](std::string name, domain accepts, auto access, std::string meaning) {
    return optional_key<straggler_draft>(straggler_section, std::move(name), std::move(accepts), access, std::move(meaning));
  };
  return {
      key("worker", integer{0, most_workers - 1}, TROUPE_FIELD(worker), "which worker; default: all, each drawn separately"),
      key("factor", real{.least = 1}, TROUPE_FIELD(out.factor), "how many times longer a step takes"),
      key("prob", real{.least = 0, .most = 1, .open_least = true}, TROUPE_FIELD(out.prob),
          "factor: probability that a step is slowed; default 1"),
      key("dist", text{{"jitter", "exponential", "pareto"}, {}}, TROUPE_FIELD(dist),
          "a factor drawn for each step: 1 - spread to 1 + spread; 1 + exponential of mean spread; Pareto from 1 of shape alpha"),
      key("spread", above_zero, TROUPE_FIELD(out.spread), "jitter, exponential; default 0.1"),
      key("alpha", above_zero, TROUPE_FIELD(out.alpha), "pareto; default 1.5"),
      key("trace", text{}, TROUPE_FIELD(trace),
          "file of factors, one a line, one for each step, repeated from the start; worker w begins at line w"),
  };
}

std::vector<key_info<protocols::link_spec>> link_keys() {
  using link = protocols::link_spec;
  return {
      optional_key<link>(link_section, "latency_ms", from_zero, TROUPE_FIELD(latency_ms), "latency of every message, one way"),
      optional_key<link>(link_section, "mbit", from_zero, TROUPE_FIELD(mbit),
                         "megabits per second of a host, each way; 0: no limit"),
  };
}

std::vector<key_info<fault_draft>> fault_keys() {
  const real probability{.least = 0, .most = 1, .open_least = true, .open_most = true};
  const auto key = [](std::string name, domain accepts, auto access, std::string meaning) {
    return optional_key<fault_draft>(fault_section, std::move(name), std::move(accepts), access, std::move(meaning));
  };
  return {
      key("crash", text{}, TROUPE_FIELD(crash), "the worker that is lost, as \"worker:2\""),
      key("pause", text{}, TROUPE_FIELD(pause), "the worker that stops for a while"),
      key("partition", text{}, TROUPE_FIELD(partition), "the worker that is cut off for a while"),
      key("at_s", from_zero, TROUPE_FIELD(out.at_s), "crash, pause, partition: when, in training time"),
      key("back_after_s", above_zero, TROUPE_FIELD(back_after_s), "crash: when it comes back; default: never"),
      key("for_s", above_zero, TROUPE_FIELD(out.for_s), "pause, partition: for how long"),
      key("reorder", probability, TROUPE_FIELD(reorder), "probability that a message overtakes another"),
      key("repeat", probability, TROUPE_FIELD(repeat), "probability that a message comes twice"),
      key("loss", probability, TROUPE_FIELD(loss), "probability that a message is lost"),
  };
}

/// One table on its way into the job.
struct table_reader {
  job_draft& draft;
  const std::string& section;
  const toml_table& entries;
  place origin; ///< of the table
  std::map<std::string, place> given{};

  bool has(const std::string& key) const { return given.contains(key); }
  void refuse(const std::string& key, std::string message) {
    draft.problems.add(has(key) ? given.at(key) : origin, fmt::format("{}{}", section, message));
  }
  /// Complains about keys that have no meaning here.
  void refuse_idle(std::initializer_list<const char*> keys, const std::string& belongs_to) {
    for (const char* key : keys)
      if (has(key))
        refuse(key, fmt::format(".{} belongs to {}; leave it out", key, belongs_to));
  }
  /// Complains about a worker that the job does not have.
  void check_worker(const std::string& key, std::int64_t worker) {
    const std::uint32_t workers = draft.out.job.cluster.workers;
    if (worker >= workers && !draft.unclear("cluster.workers") && !draft.unclear("cluster.nodes"))
      refuse(key, fmt::format(".{} names worker {} and there {}, counted from 0; name one of them or give cluster.workers = {}",
                              key, worker, workers == 1 ? "is 1" : fmt::format("are {}", workers), worker + 1));
  }
};

/// Reads a file of factors; complains where it is not one.
std::vector<double> read_trace(table_reader& r, const std::string& path) {
  constexpr std::size_t most_factors = 1'000'000; // a job travels in one message
  errno = 0;
  std::ifstream file(path);
  std::vector<double> factors;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line) && factors.size() <= most_factors;) {
    ++number;
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty())
      continue;
    const double factor = parse_number<double>(line).value_or(0);
    if (!(factor > 0) || std::isinf(factor)) {
      r.refuse("trace", fmt::format(".trace: line {} of {} is no factor above 0; a trace is one number a line, such as 1.5",
                                    number, path));
      return {};
    }
    factors.push_back(factor);
  }
  if (factors.size() > most_factors)
    r.refuse("trace", fmt::format(".trace: {} holds more than {} factors; give a shorter file", path, most_factors));
  else if (factors.empty())
    r.refuse("trace", fmt::format(".trace: {} {}; give a file with one factor a line, such as 1.5", path,
                                  errno != 0 ? fmt::format("cannot be read: {}", std::strerror(errno)) : "holds no factor"));
  return factors;
}

void read_straggler(table_reader& r) {
  straggler_draft s;
  r.given = read_table(r.draft.problems, straggler_keys(), r.section, r.entries, s, r.origin);
  using law = straggler_spec::law;
  if (r.has("trace") && r.has("dist"))
    r.refuse("dist", ".dist and .trace are both given; keep one of them");
  if (r.has("trace") || r.has("dist"))
    r.refuse_idle({"factor", "prob"}, "a straggler without dist and trace");
  else if (!r.has("factor"))
    r.refuse("", " says nothing about how slow; give factor = 5, dist = \"pareto\" or trace = \"FILE\"");
  if (!r.has("dist") || s.dist == "pareto")
    r.refuse_idle({"spread"}, "dist = \"jitter\" or \"exponential\"");
  if (!r.has("dist") || (!s.dist.empty() && s.dist != "pareto"))
    r.refuse_idle({"alpha"}, "dist = \"pareto\"");
  if (s.dist == "jitter" && s.out.spread >= 1)
    r.refuse("spread",
             fmt::format(".spread = {} would let a step take no time; with dist = \"jitter\" it is below 1", s.out.spread));
  s.out.distribution = r.has("trace")            ? law::trace
                       : s.dist == "jitter"      ? law::jitter
                       : s.dist == "exponential" ? law::exponential
                       : s.dist == "pareto"      ? law::pareto
                                                 : law::constant;
  if (!s.trace.empty())
    s.out.factors = read_trace(r, s.trace);
  if (s.worker >= 0) {
    r.check_worker("worker", s.worker);
    s.out.worker = worker_id{static_cast<std::uint32_t>(s.worker)};
  }
  r.draft.out.job.inject.stragglers.push_back(std::move(s.out));
}

void read_link(table_reader& r) {
  r.given = read_table(r.draft.problems, link_keys(), r.section, r.entries, r.draft.out.job.inject.link, r.origin);
}

/// The N of "worker:N"; complains where `name` is not of that form.
worker_id read_worker(table_reader& r, const std::string& key, const std::string& name) {
  constexpr std::string_view prefix = "worker:";
  const auto number = name.starts_with(prefix) ? parse_number<std::uint32_t>(name.substr(prefix.size())) : std::nullopt;
  if (!number || *number >= most_workers)
    r.refuse(key, fmt::format(".{} = \"{}\" names no worker; write {} = \"worker:2\"", key, name, key));
  else
    r.check_worker(key, *number);
  return worker_id{number.value_or(0)};
}

void read_fault(table_reader& r) {
  fault_draft f;
  r.given = read_table(r.draft.problems, fault_keys(), r.section, r.entries, f, r.origin);
  using kind = fault_spec::kind;
  struct choice {
    const char* key;
    kind fault;
    const std::string* worker;
    double prob;
  };
  const choice choices[] = {{"crash", kind::crash, &f.crash, 0},
                            {"pause", kind::pause, &f.pause, 0},
                            {"partition", kind::partition, &f.partition, 0},
                            {"reorder", kind::reorder, nullptr, f.reorder},
                            {"repeat", kind::repeat, nullptr, f.repeat},
                            {"loss", kind::loss, nullptr, f.loss}};
  const choice* chosen = nullptr;
  for (const choice& c : choices)
    if (r.has(c.key) && chosen != nullptr)
      return r.refuse(c.key, fmt::format(" is {} and {}; write one [[inject.fault]] for each", chosen->key, c.key));
    else if (r.has(c.key))
      chosen = &c;
  if (chosen == nullptr)
    return r.refuse("", " says nothing about what goes wrong; give crash, pause, partition, reorder, repeat or loss");
  f.out.type = chosen->fault;
  f.out.prob = chosen->prob;
  const bool timed = chosen->worker != nullptr, passes = timed && chosen->fault != kind::crash;
  if (timed && !chosen->worker->empty())
    f.out.worker = read_worker(r, chosen->key, *chosen->worker);
  if (!timed)
    r.refuse_idle({"at_s"}, "crash, pause and partition");
  else if (!r.has("at_s"))
    r.refuse(chosen->key, ".at_s is missing; say when it happens, such as at_s = 30");
  if (!passes)
    r.refuse_idle({"for_s"}, "pause and partition");
  else if (!r.has("for_s"))
    r.refuse(chosen->key, ".for_s is missing; say how long it lasts, such as for_s = 5");
  if (chosen->fault != kind::crash)
    r.refuse_idle({"back_after_s"}, "crash");
  else if (r.has("back_after_s"))
    f.out.back_after_s = f.back_after_s;
  r.draft.out.job.inject.faults.push_back(f.out);
}

/// A straggler, link or fault that stands as a table in the file, or as a SPEC.
void read_one(job_draft& draft, const assignment& a, const toml_value& entry_value) {
  const std::string section = a.full_name();
  const place at = place_in(a.value_at, entry_value.at);
  const auto* table = std::get_if<toml_table>(&entry_value.held);
  std::optional<toml_table> spec;
  if (const auto* text = std::get_if<std::string>(&entry_value.held); text != nullptr && (spec = parse_spec(*text))) {
    for (toml_entry& entry : *spec)
      entry.key_at = entry.value.at = entry_value.at;
    table = &*spec;
  }
  if (table == nullptr) {
    const char* example = a.name == "straggler" ? "worker=1,factor=5"
                          : a.name == "link"    ? "latency_ms=10,mbit=100"
                                                : "crash=worker:2,at_s=30";
    draft.problems.add(at, fmt::format("{} = {} is no table; write key=value[,key=value], each key once, such as {}", section,
                                       to_text(entry_value), example));
    return;
  }
  table_reader reader{draft, section, *table, at};
  const injected item{to_spec(*table), draft.problems.where(at)};
  if (a.name == "straggler") {
    read_straggler(reader);
    draft.out.stragglers.push_back(item);
  } else if (a.name == "link") {
    read_link(reader);
  } else {
    read_fault(reader);
    draft.out.faults.push_back(item);
  }
}

std::vector<std::string> specs(const std::vector<injected>& items) {
  std::vector<std::string> texts;
  for (const injected& item : items)
    texts.push_back(item.spec);
  return texts;
}

template <class Target>
std::vector<table_key> listed(const std::vector<key_info<Target>>& keys) {
  std::vector<table_key> list;
  for (const auto& key : keys)
    list.push_back({key.name, key.accepts, key.meaning});
  return list;
}

} // namespace

void add_inject_keys(std::vector<key_info<loaded_job>>& keys) {
  const std::string s = "inject";
  const auto add = [&](const std::string& name, auto own_keys, std::string meaning, auto get) {
    keys.push_back({s, name, tables{listed(own_keys)}, std::move(meaning), true, {}, get});
  };
  keys.push_back(key_of<loaded_job>(s, "step_ms", from_zero, TROUPE_FIELD(job.inject.step_ms),
                                    "emulated time of one worker's whole batch; 0: its real time"));
  add("straggler", straggler_keys(), "[[inject.straggler]] or --straggler SPEC, each: factors of several multiply",
      [](const loaded_job& j) -> value { return specs(j.stragglers); });
  add("link", link_keys(), "[inject.link] or --link SPEC: of every host", [](const loaded_job& j) -> value {
    return fmt::format("latency_ms={},mbit={}", j.job.inject.link.latency_ms, j.job.inject.link.mbit);
  });
  add("fault", fault_keys(), "[[inject.fault]] or --fault SPEC, each",
      [](const loaded_job& j) -> value { return specs(j.faults); });
}

void read_inject(job_draft& draft) {
  for (const assignment& a : draft.injected) {
    draft.given[a.full_name()] = a.value_at;
    const auto* list = std::get_if<toml_array>(&a.given.held);
    if (list == nullptr)
      read_one(draft, a, a.given);
    else if (a.name == "link")
      draft.problems.add(a.value_at, "inject.link is one table; write [inject.link], in single brackets, and its keys below it");
    else
      for (const toml_value& item : *list)
        read_one(draft, a, item);
  }
}

problems only_simulated(const loaded_job& loaded) {
  problems wrong;
  for (std::size_t i = 0; i < loaded.faults.size(); ++i) {
    const fault_spec& fault = loaded.job.inject.faults[i];
    if (fault.type != fault_spec::kind::crash || fault.back_after_s)
      wrong.push_back({loaded.faults[i].where,
                       fmt::format("inject.fault {} cannot happen in a real run, which plays a crash without back_after_s; only "
                                   "`troupe simulate` plays this",
                                   loaded.faults[i].spec)});
  }
  return wrong;
}

} // namespace troupe::config
