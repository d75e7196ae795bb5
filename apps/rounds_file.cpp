// SPDX-License-Identifier: BSD-3-Clause
// Writing and reading what each version was made of.
#include "apps/rounds_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <ranges>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/checkpoint/job_facts.hpp"
#include "protocols/catalog.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::apps {

namespace {

namespace json = boost::json;
using protocols::contribution;
using protocols::member;
using protocols::plan_epoch;
using protocols::round_record;
using protocols::version;

constexpr std::uint64_t file_format = 1;

/// The shortest that gives the same number again.
std::string exact(double value) {
  return fmt::format("{}", value);
}

std::string line_of(plan_epoch epoch, const std::vector<member>& members) {
  json::array list;
  for (const member& each : members)
    list.push_back(json::array{each.worker.value, each.incarnation.value});
  return json::serialize(json::object{{"epoch", epoch.value}, {"members", std::move(list)}}) + "\n";
}

std::string line_of(const round_record& made, std::size_t workers) {
  json::array list;
  for (const auto& [id, weight] : made.contributions)
    list.push_back(json::array{id.worker.value, id.incarnation.value, id.clock.value, exact(weight)});
  return json::serialize(json::object{{"version", made.ver.value},
                                      {"position", made.position},
                                      {"epoch", made.epoch.value},
                                      {"workers", workers},
                                      {"samples_before", made.samples_before},
                                      {"lr_scale", exact(made.lr_scale)},
                                      {"contributions", std::move(list)}})
         + "\n";
}

/// What a line says that it should not; the reader adds the place.
struct bad_line : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const json::value& field(const json::object& line, const char* name) {
  const auto* found = line.if_contains(name);
  if (found == nullptr)
    throw bad_line(fmt::format("\"{}\" is missing", name));
  return *found;
}

template <class T>
T whole(const json::value& value, const char* name) {
  boost::system::error_code wrong;
  const auto number = value.to_number<T>(wrong);
  if (wrong)
    throw bad_line(fmt::format("\"{}\" is no whole number in range", name));
  return number;
}
template <class T>
T whole(const json::object& line, const char* name) {
  return whole<T>(field(line, name), name);
}

double real(const json::value& value, const char* name) {
  const auto* text = value.if_string();
  const auto number = text == nullptr ? std::nullopt : parse_number<double>(std::string_view{text->data(), text->size()});
  if (!number || !std::isfinite(*number))
    throw bad_line(fmt::format("\"{}\" is no number in quotes", name));
  return *number;
}

std::string words(const json::object& line, const char* name) {
  const auto* text = field(line, name).if_string();
  if (text == nullptr)
    throw bad_line(fmt::format("\"{}\" is no text", name));
  return {text->data(), text->size()};
}

const json::array& list(const json::object& line, const char* name) {
  const auto* all = field(line, name).if_array();
  if (all == nullptr)
    throw bad_line(fmt::format("\"{}\" is no list", name));
  return *all;
}

const json::array& tuple(const json::value& value, std::size_t size, const char* of) {
  const auto* all = value.if_array();
  if (all == nullptr || all->size() != size)
    throw bad_line(fmt::format("one of \"{}\" is no list of {}", of, size));
  return *all;
}

/// One line after the other.
class rounds_reader {
public:
  void on(const json::object& line) {
    if (ended_)
      throw bad_line("it follows the last line");
    if (!begun_)
      begin(line);
    else if (line.contains("members"))
      plan(line);
    else if (line.contains("end"))
      end(line);
    else
      round(line);
  }
  bool ended() const { return ended_; }
  rounds_file take() { return std::move(file_); }

private:
  void begin(const json::object& line) {
    if (!line.contains("troupe_rounds"))
      throw bad_line("it does not begin as a file of `run --rounds`");
    if (const auto format = whole<std::uint64_t>(line, "troupe_rounds"); format != file_format)
      throw bad_line(fmt::format("it is of format {}, and this program reads format {}; use the program that wrote it", format,
                                 file_format));
    file_.job = words(line, "job");
    file_.from = file_.end = {whole<std::uint64_t>(line, "version")};
    const auto* facts = field(line, "facts").if_object();
    if (facts == nullptr)
      throw bad_line("\"facts\" is no object");
    for (const auto& fact : *facts)
      file_.facts.emplace(fact.key(), words(*facts, std::string(fact.key()).c_str()));
    begun_ = true;
  }

  void plan(const json::object& line) {
    const plan_epoch epoch{whole<std::uint32_t>(line, "epoch")};
    if (!file_.plans.empty() && epoch <= file_.plans.rbegin()->first)
      throw bad_line(fmt::format("plan {} comes after plan {}", epoch.value, file_.plans.rbegin()->first.value));
    std::vector<member> members;
    for (const json::value& each : list(line, "members")) {
      const json::array& pair = tuple(each, 2, "members");
      members.push_back({{whole<std::uint32_t>(pair[0], "members")}, {whole<std::uint32_t>(pair[1], "members")}});
    }
    if (std::ranges::adjacent_find(members, std::greater_equal{}, &member::worker) != members.end())
      throw bad_line("the members are not in the order of their workers");
    file_.plans.emplace(epoch, std::move(members));
  }

  void round(const json::object& line) {
    round_record made{.ver = {whole<std::uint64_t>(line, "version")},
                      .epoch = {whole<std::uint32_t>(line, "epoch")},
                      .position = whole<std::uint64_t>(line, "position"),
                      .samples_before = whole<std::uint64_t>(line, "samples_before"),
                      .lr_scale = real(field(line, "lr_scale"), "lr_scale")};
    const version due = next(file_.rounds.empty() ? file_.from : file_.rounds.back().ver);
    if (made.ver != due)
      throw bad_line(fmt::format("version {} stands where {} is due", made.ver.value, due.value));
    if (!file_.rounds.empty() && made.epoch < file_.rounds.back().epoch)
      throw bad_line(fmt::format("version {} is of plan {}, and the one before it of plan {}", due.value, made.epoch.value,
                                 file_.rounds.back().epoch.value));
    const auto known = file_.plans.find(made.epoch);
    if (known == file_.plans.end())
      throw bad_line(fmt::format("no line above tells the members of plan {}", made.epoch.value));
    const std::vector<member>& members = known->second;
    if (whole<std::uint64_t>(line, "workers") != members.size())
      throw bad_line(fmt::format("\"workers\" is not {}, the number of members of plan {}", members.size(), made.epoch.value));
    for (const json::value& each : list(line, "contributions"))
      made.contributions.push_back(counted(tuple(each, 4, "contributions"), members, made.epoch));
    file_.rounds.push_back(std::move(made));
  }

  /// A push of a member of the round's plan, that no version before has.
  contribution counted(const json::array& tuple, const std::vector<member>& members, plan_epoch epoch) {
    contribution out{.id = {{whole<std::uint32_t>(tuple[0], "contributions")},
                            {whole<std::uint32_t>(tuple[1], "contributions")},
                            {whole<std::uint64_t>(tuple[2], "contributions")}},
                     .weight = real(tuple[3], "contributions")};
    const auto& [worker, life, clock] = out.id;
    if (std::ranges::find(members, member{worker, life}) == members.end())
      throw bad_line(fmt::format("worker {} of life {} is no member of plan {}", worker.value, life.value, epoch.value));
    const auto [last, first] = newest_.try_emplace(worker, out.id);
    if (!first && out.id <= last->second)
      throw bad_line(fmt::format("push {} of worker {}, life {}, is not newer than its last: it counts twice, or out of order",
                                 clock.value, worker.value, life.value));
    last->second = out.id;
    return out;
  }

  void end(const json::object& line) {
    file_.end = {whole<std::uint64_t>(line, "end")};
    file_.weights_digest = words(line, "weights_digest");
    const version last = file_.rounds.empty() ? file_.from : file_.rounds.back().ver;
    if (file_.end < file_.from || file_.end > last)
      throw bad_line(fmt::format("the weights are of version {}, and the lines are of versions {} to {}", file_.end.value,
                                 file_.from.value, last.value));
    ended_ = true;
  }

  rounds_file file_;
  std::map<protocols::worker_id, protocols::push_id> newest_; ///< that is in a version
  bool begun_ = false, ended_ = false;
};

/// Whether gradients are taken at what workers have of the parameters. What is changed is exact.
bool rounds_parameters(const actors::codec_spec& codec) {
  return codec.encodes_params() && !kernels::is_sparse(codec.params_form());
}

/// Whether its versions are sums of gradients at versions before, round by round.
bool sums_gradients(const protocols::protocol& each) {
  return each.policy && !each.period && !each.candidates;
}

} // namespace

config::problems cannot_replay(const config::loaded_job& loaded) {
  const actors::job& job = loaded.job;
  const auto& added = loaded.added.protocols;
  const auto at = [&loaded](const std::string& key) { return config::where_of(loaded, key); };
  config::problems wrong;
  const auto chosen = protocols::find_protocol(job.protocol.name, added);
  if (chosen && !sums_gradients(*chosen)) {
    std::vector<std::string> others;
    for (const auto& each : protocols::catalog(added))
      if (sums_gradients(each))
        others.push_back(each.name);
    const char* why = chosen->candidates      ? "changes its protocol while it runs"
                      : chosen->reduces       ? "has no shard that would record its rounds"
                      : chosen->decentralized ? "has no rounds: every worker has parameters of its own"
                      : chosen->per_push      ? "has no rounds: every shard applies each push alone"
                                              : "has workers that keep parameters of their own between rounds";
    wrong.push_back(
        {at("protocol.name"), fmt::format("{} {}, so its versions do not follow from lists of gradients; those of {} do",
                                          chosen->name, why, fmt::join(others, ", "))});
  }
  if (rounds_parameters(job.codec) && job.cluster.replicas > 1)
    wrong.push_back({at("codec.params"),
                     "a copy of a shard that comes later, and takes its place, begins with the version itself, "
                     "which no list of gradients tells; leave it out, or write cluster.replicas = 1"});
  if (job.protocol.fan_in != 0)
    wrong.push_back({at("protocol.fan_in"), "aggregators sum in another order than one process does; leave it out"});
  for (const auto& [key, device] :
       {std::pair{"compute.device", &job.compute.device}, {"compute.shard_device", &job.compute.shard_device}})
    if (*device != "cpu")
      wrong.push_back(
          {at(key), fmt::format("the bits of {} are not those of a CPU, on which a replay computes; give cpu", *device)});
  return wrong;
}

std::map<std::string, std::string> rounds_facts(const config::loaded_job& loaded) {
  static const std::set<std::string> alone{"cluster.workers",      "data.batch",       "data.micro_batch", "data.partition",
                                           "data.sorted_fraction", "data.label_noise", "data.augment",     "model.init"};
  const bool encoded = loaded.job.codec.encodes_pushes() || rounds_parameters(loaded.job.codec);
  auto facts = actors::checkpoint_facts(loaded.job);
  for (const config::resolved_value& each : loaded.values) {
    const std::string section = each.key.substr(0, each.key.find('.'));
    if (section == "optimizer" || section == "protocol" || (section == "codec" && encoded)
        || (section == "compute" && each.key != "compute.recompute") || alone.contains(each.key))
      facts.emplace(each.key, config::to_text(each.resolved));
  }
  return facts;
}

rounds_writer::rounds_writer(const std::string& path, const config::loaded_job& job, version from)
    : path_(path), file_(std::fopen(path.c_str(), "we")) {
  if (file_ == nullptr)
    throw std::runtime_error(fmt::format("--rounds {}: {}", path, std::strerror(errno)));
  json::object facts;
  for (const auto& [key, text] : rounds_facts(job))
    facts[key] = text;
  write(json::serialize(json::object{
            {"troupe_rounds", file_format}, {"job", job.job.name}, {"version", from.value}, {"facts", std::move(facts)}})
        + "\n");
}

rounds_writer::~rounds_writer() {
  if (file_ != nullptr)
    std::fclose(file_);
}

void rounds_writer::add(const std::vector<actors::made_round>& rounds) {
  const std::lock_guard guard{mutex_};
  std::string lines;
  for (const auto& [made, members] : rounds) {
    if (made.epoch > told_) {
      told_ = made.epoch;
      lines += line_of(made.epoch, members);
    }
    lines += line_of(made, members.size());
  }
  write(lines);
}

void rounds_writer::end(version of, const std::string& weights_digest) {
  const std::lock_guard guard{mutex_};
  write(json::serialize(json::object{{"end", of.value}, {"weights_digest", weights_digest}}) + "\n");
}

void rounds_writer::write(const std::string& lines) {
  if (file_ == nullptr || lines.empty())
    return;
  if (std::fwrite(lines.data(), 1, lines.size(), file_) == lines.size() && std::fflush(file_) == 0)
    return;
  fmt::print(stderr, "troupe: {} cannot be written any more ({}); the run goes on without it\n", path_, std::strerror(errno));
  std::fclose(std::exchange(file_, nullptr));
}

config::checked<rounds_file> read_rounds(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    return config::refusal{{{path, "cannot be read; name a file of `run --rounds`"}}};
  return parse_rounds(path, text.str());
}

config::checked<rounds_file> parse_rounds(const std::string& path, const std::string& text) {
  rounds_reader reader;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const auto refuse_it = [&](const std::string& why) { return config::refusal{{{fmt::format("{}:{}", path, number), why}}}; };
    ++number;
    if (end == std::string::npos)
      return refuse_it("the line is cut off: so is the file, or the run that wrote it");
    boost::system::error_code wrong;
    const json::value line = json::parse(json::string_view(text.data() + begin, end - begin), wrong);
    if (wrong || !line.is_object())
      return refuse_it("the line is no JSON object");
    try {
      reader.on(line.get_object());
    } catch (const bad_line& e) {
      return refuse_it(e.what());
    }
    begin = end + 1;
  }
  if (!reader.ended())
    return config::refusal{
        {{path, "the last line, with the digest of the weights, is missing: the file is cut off, or the run was"}}};
  return reader.take();
}

config::problems other_facts(const config::loaded_job& loaded, const rounds_file& file, const std::string& path) {
  const auto ours = rounds_facts(loaded);
  auto both = ours;
  both.insert(file.facts.begin(), file.facts.end());
  config::problems wrong;
  for (const auto& key : both | std::views::keys) {
    const auto text_in = [&key](const std::map<std::string, std::string>& facts) {
      const auto found = facts.find(key);
      return found == facts.end() ? std::string{"not given"} : found->second;
    };
    if (const auto mine = text_in(ours), its = text_in(file.facts); mine != its)
      wrong.push_back({config::where_of(loaded, key),
                       fmt::format("{} is {}, and {} was written by a job with {}; give that", key, mine, path, its)});
  }
  return wrong;
}

} // namespace troupe::apps
