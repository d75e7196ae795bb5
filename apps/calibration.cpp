// SPDX-License-Identifier: BSD-3-Clause
// Reading traces.
#include "apps/calibration.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/monitoring/trace_file.hpp"

namespace troupe::apps {

namespace {

namespace json = boost::json;
using protocols::nanoseconds;

constexpr std::size_t most_bytes = std::size_t{256} << 20U;
constexpr std::int64_t most_workers = 100'000;
constexpr std::int64_t most_samples = std::int64_t{1} << 31U;
constexpr std::int64_t most_ns = 1'000'000'000'000'000; ///< eleven days

struct interval {
  nanoseconds begin = 0, end = 0;
};

/// A computed step of a worker.
struct step {
  interval when;
  nanoseconds whole_batch = 0; ///< how long a whole batch takes at this step's pace
  std::int64_t version = 0;    ///< of the parameters that it began with
};

struct worker_times {
  std::vector<step> steps;
  std::vector<nanoseconds> pushes; ///< when each began
};

nanoseconds mean(const std::vector<nanoseconds>& durations) {
  double sum = 0;
  for (const nanoseconds each : durations)
    sum += static_cast<double>(each);
  return std::llround(sum / static_cast<double>(durations.size()));
}

/// The intervals in which the job was held: training time did not advance.
class held_times {
public:
  void add(interval when) { all_.push_back(when); }
  /// Call once all are added. False if two overlap.
  bool order() {
    std::ranges::sort(all_, {}, &interval::begin);
    nanoseconds sum = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (i > 0 && all_[i].begin < all_[i - 1].end)
        return false;
      before_.push_back(sum);
      sum += all_[i].end - all_[i].begin;
    }
    return true;
  }
  /// Training time at a wall-clock time.
  nanoseconds training(nanoseconds wall) const {
    const auto begun = static_cast<std::size_t>(std::ranges::upper_bound(all_, wall, {}, &interval::begin) - all_.begin());
    if (begun == 0)
      return wall;
    const interval& last = all_[begun - 1];
    return wall - before_[begun - 1] - (std::min(wall, last.end) - last.begin);
  }

private:
  std::vector<interval> all_;
  std::vector<nanoseconds> before_; ///< for each: the total length of those before it
};

/// Round trips of the workers that waited for one version.
struct round_trip {
  nanoseconds last_left = 0;
  double back = 0; ///< sum of the times at which they went on
  int workers = 0;
};

/// Remembers the first error; a value that cannot be read is 0.
class trace_reader {
public:
  void read(const json::value& trace) {
    const json::object* whole = trace.if_object();
    const json::object* about = whole ? object_in(*whole, "otherData") : nullptr;
    const json::value* format = about ? about->if_contains("format") : nullptr;
    if (!format || *format != json::string_view{actors::trace_format})
      return refuse("is not a trace of `troupe run`; record one with --trace");
    read_about(*about);
    const json::value* events = whole->if_contains("traceEvents");
    if (!events || !events->is_array())
      return refuse("has no list \"traceEvents\"");
    for (const json::value& event : events->get_array()) {
      if (!wrong_.empty())
        return;
      read_event(event);
      ++number_;
    }
  }

  protocols::sim::calibration times() {
    if (!holds_.order())
      refuse("holds the job twice at once; is it the trace of one run?");
    for (worker_times& own : workers_)
      order(own);
    if (applies_.empty())
      refuse("has no \"apply\" of a shard; record a longer run");
    const std::vector<nanoseconds> trips = wrong_.empty() ? round_trips() : std::vector<nanoseconds>{};
    if (trips.empty())
      refuse("has no push that was answered; record a longer run");
    if (!wrong_.empty())
      return {};
    protocols::sim::calibration out;
    for (const worker_times& own : workers_) {
      auto& durations = out.compute.emplace_back();
      for (const step& each : own.steps)
        durations.push_back(each.whole_batch);
    }
    out.apply = mean(applies_);
    out.message = std::max<nanoseconds>(0, mean(trips) - out.apply) / 2;
    return out;
  }

  const std::string& wrong() const { return wrong_; }

private:
  void refuse(const std::string& message) {
    if (wrong_.empty())
      wrong_ = message;
  }

  static const json::object* object_in(const json::object& fields, std::string_view key) {
    const json::value* found = fields.if_contains(key);
    return found ? found->if_object() : nullptr;
  }
  std::string here() const { return number_ < 0 ? "otherData" : fmt::format("event {}", number_); }

  /// The limits are whole numbers for both kinds.
  template <class Number>
  Number read_number(const json::object& fields, std::string_view key, std::int64_t least, std::int64_t most) {
    const json::value* found = fields.if_contains(key);
    boost::system::error_code failed;
    const auto value = found ? found->to_number<Number>(failed) : Number{};
    if (found && !failed && value >= static_cast<Number>(least) && value <= static_cast<Number>(most))
      return value;
    refuse(fmt::format("{}: \"{}\" is not a {} from {} to {}", here(), key,
                       std::is_integral_v<Number> ? "whole number" : "number", least, most));
    return 0;
  }
  std::int64_t integer(const json::object& fields, std::string_view key, std::int64_t least, std::int64_t most) {
    return read_number<std::int64_t>(fields, key, least, most);
  }
  double number(const json::object& fields, std::string_view key) { return read_number<double>(fields, key, 0, most_ns); }

  void read_about(const json::object& about) {
    workers_.resize(static_cast<std::size_t>(integer(about, "workers", 1, most_workers)));
    batch_ = integer(about, "batch", 1, most_samples);
    if (number(about, "latency_ms") > 0 || number(about, "mbit") > 0)
      refuse(
          "was recorded over an emulated link, whose delays cannot be told from this machine's; record it without [inject.link]");
    if (integer(about, "fan_in", 0, protocols::fan_in_of_nodes) > 0)
      refuse("was recorded with a tree of aggregators, where a push takes several messages; record it without protocol.fan_in");
    number_ = 0;
  }

  void read_event(const json::value& event) {
    const json::object* e = event.if_object();
    const json::value* phase = e ? e->if_contains("ph") : nullptr;
    const json::value* name = e ? e->if_contains("name") : nullptr;
    if (!phase || !phase->is_string() || !name || !name->is_string())
      return refuse(fmt::format("{}: is no trace event: it lacks \"ph\" or \"name\"", here()));
    if (phase->get_string() != "X")
      return;
    if (const json::value* category = e->if_contains("cat"); category && *category == "device")
      return; // details of a step's time
    // Microseconds; a sum of two is as exact as its parts.
    const auto begin = std::llround(number(*e, "ts") * 1e3), length = std::llround(number(*e, "dur") * 1e3);
    const interval when{begin, begin + length};
    const json::object* args = object_in(*e, "args");
    if (!args)
      return refuse(fmt::format("{}: has no \"args\"", here()));
    const json::string& kind = name->get_string();
    if (kind == "compute")
      read_step(*args, when);
    else if (kind == "push")
      worker_of(*args).pushes.push_back(when.begin);
    else if (kind == "apply")
      read_apply(*args, when);
    else if (kind == "hold")
      holds_.add(when);
  }

  worker_times& worker_of(const json::object& args) {
    return workers_[static_cast<std::size_t>(integer(args, "worker", 0, static_cast<std::int64_t>(workers_.size()) - 1))];
  }

  void read_step(const json::object& args, interval when) {
    const auto samples = integer(args, "samples", 1, most_samples);
    const auto took = integer(args, "training_ns", 0, most_ns);
    const auto version = integer(args, "version", 0, std::numeric_limits<std::int64_t>::max());
    if (samples > 0)
      worker_of(args).steps.push_back(
          {when, std::llround(static_cast<double>(took) * static_cast<double>(batch_) / static_cast<double>(samples)), version});
  }

  void read_apply(const json::object& args, interval when) {
    const auto version = integer(args, "version", 0, std::numeric_limits<std::int64_t>::max());
    if (integer(args, "shard", 0, most_workers) == 0)
      made_[version] = when.begin;
    if (integer(args, "contributions", 0, most_workers) > 0)
      applies_.push_back(when.end - when.begin);
  }

  void order(worker_times& worker) {
    const auto who = &worker - workers_.data();
    if (worker.steps.empty())
      refuse(fmt::format("worker {} computed nothing; record a longer run", who));
    std::ranges::sort(worker.steps, {}, [](const step& each) { return each.when.begin; });
    std::ranges::sort(worker.pushes);
    for (std::size_t i = 1; i < worker.steps.size(); ++i)
      if (worker.steps[i].when.begin < worker.steps[i - 1].when.end)
        refuse(fmt::format("worker {} computes two steps at once; is it the trace of one run?", who));
  }

  /// One for each version that a worker waited for.
  std::vector<nanoseconds> round_trips() {
    std::map<std::int64_t, round_trip> by_version;
    for (const worker_times& own : workers_)
      for (std::size_t i = 1; i < own.steps.size(); ++i) {
        const step &before = own.steps[i - 1], &next = own.steps[i];
        const auto push = std::ranges::lower_bound(own.pushes, before.when.end);
        const auto made = made_.find(next.version);
        if (push == own.pushes.end() || *push > next.when.begin || made == made_.end() || made->second < before.when.end)
          continue; // a local step, or it came late and did not wait
        round_trip& trip = by_version[next.version];
        trip.last_left = std::max(trip.last_left, holds_.training(before.when.end));
        trip.back += static_cast<double>(holds_.training(next.when.begin));
        ++trip.workers;
      }
    std::vector<nanoseconds> out;
    for (const auto& [version, trip] : by_version)
      out.push_back(std::llround(trip.back / trip.workers) - trip.last_left);
    return out;
  }

  std::string wrong_;
  std::int64_t number_ = -1; ///< of the event that is read
  std::int64_t batch_ = 1;
  std::vector<worker_times> workers_;
  std::vector<nanoseconds> applies_;         ///< how long each took
  std::map<std::int64_t, nanoseconds> made_; ///< by version: when shard 0 began to
  held_times holds_;
};

/// The file's text, or why it cannot be read.
config::checked<std::string> read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> piece(std::size_t{1} << 20U);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > most_bytes)
      return config::refusal{{{path, fmt::format("is larger than {} MiB; record a shorter run", most_bytes >> 20U)}}};
  }
  if (!file.eof())
    return config::refusal{{{path, fmt::format("cannot be read: {}; give a file that run --trace wrote", std::strerror(errno))}}};
  return text;
}

} // namespace

config::checked<protocols::sim::calibration> read_calibration(const std::string& path) {
  const auto text = read_text(path);
  if (!text)
    return text.error();
  boost::system::error_code failed;
  json::monotonic_resource memory; // freed at once: a trace has millions of small values
  const json::value trace = json::parse(*text, failed, &memory);
  if (failed)
    return config::refusal{{{path, fmt::format("is not JSON: {}; was it cut off?", failed.message())}}};
  trace_reader reader;
  reader.read(trace);
  auto times = reader.wrong().empty() ? reader.times() : protocols::sim::calibration{};
  if (!reader.wrong().empty())
    return config::refusal{{{path, reader.wrong()}}};
  return times;
}

} // namespace troupe::apps
