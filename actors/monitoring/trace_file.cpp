// SPDX-License-Identifier: BSD-3-Clause
// Chrome trace events.
#include "actors/monitoring/trace_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/monitoring/trace_flows.hpp"

namespace troupe::actors {

namespace {

namespace json = boost::json;

/// A role on a node.
struct track {
  std::size_t node;
  std::string_view role;
  std::uint32_t number;

  auto order() const {
    // The coordinator comes first, then shards, aggregators, workers with their loaders; then devices.
    static constexpr std::array<std::string_view, 9> roles{
        "coordinator", "evaluator", "shard", "aggregator", "worker", "loader", "kernels", "copies to host", "copies to device"};
    return std::tuple{node, std::find(roles.begin(), roles.end(), role), number};
  }
  friend bool operator<(const track& a, const track& b) { return a.order() < b.order(); }
  bool alone() const { return role == "coordinator" || role == "evaluator"; }
  std::string name() const { return alone() ? std::string{role} : fmt::format("{} {}", role, number); }
};

bool is_device(const trace_event& event) {
  return event.kind >= span_kind::kernel;
}

track track_of(std::size_t node, const trace_event& event) {
  return {node, role_of(event.kind), event.role};
}

/// Viewers treat 0 as the idle process, and equal thread ids as one thread.
std::size_t pid_of(std::size_t node) {
  return node + 1;
}
constexpr int first_tid = 1001;

class trace_text {
public:
  trace_text(const job& job, const std::vector<node_trace>& nodes) : job_(job), nodes_(nodes) {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      for (const auto& event : nodes[node].events) {
        tids_.emplace(track_of(node, event), 0);
        origin_ = std::min(origin_, event.begin_ns);
      }
    auto next = first_tid;
    for (auto& [track, tid] : tids_)
      tid = next++;
  }

  /// False at the first write that fails; errno says why.
  bool write(std::FILE* out) const {
    const auto line = [out](const std::string& text) { return std::fwrite(text.data(), 1, text.size(), out) == text.size(); };
    bool ok = line(fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[", json::serialize(about())));
    auto separator = "\n";
    const auto item = [&](const std::string& text) {
      ok = ok && line(separator + text);
      separator = ",\n";
    };
    for (std::size_t node = 0; node < nodes_.size(); ++node)
      item(metadata("process_name", pid_of(node), 0, nodes_[node].name));
    for (const auto& [track, tid] : tids_)
      item(metadata("thread_name", pid_of(track.node), tid, name_of_track(track)));
    for (std::size_t node = 0; ok && node < nodes_.size(); ++node)
      for (const auto& event : nodes_[node].events)
        item(to_text(node, event));
    for (const auto& arrow : flows_of(job_, nodes_))
      if (ok)
        write_flow(arrow, item);
    return ok && line("\n]}\n");
  }

private:
  /// Two events with one id: viewers draw an arrow between the spans that contain these times.
  template <class Item>
  void write_flow(const flow& arrow, const Item& item) const {
    const auto end_of = [&](const char* phase, const span_place& at) {
      return fmt::format(R"({{"name":"{}","cat":"flow","ph":"{}","id":{},"bp":"e","pid":{},"tid":{},"ts":{}}})", arrow.name,
                         phase, arrow.number, pid_of(at.node), tids_.at(track_of(at.node, *at.event)),
                         microseconds(at.event->begin_ns - origin_));
    };
    item(end_of("s", arrow.from));
    item(end_of("f", arrow.to));
  }

  json::object about() const {
    std::uint64_t dropped = 0;
    for (const auto& node : nodes_)
      dropped += node.dropped;
    return {{"format", trace_format},          {"job", job_.name},
            {"protocol", job_.protocol.name},  {"seed", job_.seed},
            {"workers", job_.cluster.workers}, {"shards", job_.cluster.shards},
            {"fan_in", job_.protocol.fan_in},  {"batch", job_.data.batch},
            {"step_ms", job_.inject.step_ms},  {"latency_ms", job_.inject.link.latency_ms},
            {"mbit", job_.inject.link.mbit},   {"dropped", dropped}};
  }

  static std::string metadata(const char* kind, std::size_t pid, int tid, const std::string& name) {
    return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, pid, tid,
                       json::serialize(name));
  }

  /// "kernels of worker 1" for a device.
  std::string name_of_track(const track& track) const {
    static constexpr std::array<std::string_view, 3> of_devices{"kernels", "copies to host", "copies to device"};
    return std::ranges::find(of_devices, track.role) == of_devices.end()
               ? track.name()
               : fmt::format("{} of {}", track.role, owner(track.number));
  }
  std::string owner(std::uint32_t role) const {
    if (!(role & of_holder))
      return fmt::format("worker {}", role);
    const auto holder = role & ~of_holder;
    return fmt::format("{} {}", holder < job_.cluster.shards ? "shard" : "aggregator", holder);
  }

  /// Nanoseconds as the format's microseconds.
  static std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

  std::string to_text(std::size_t node, const trace_event& event) const {
    const auto own = track_of(node, event);
    const bool device = is_device(event);
    auto args = own.alone() ? std::string{}
                : device    ? fmt::format(R"("of":"{}")", owner(own.number))
                            : fmt::format("\"{}\":{}", own.role, own.number);
    const auto& names = arguments_of(event.kind);
    for (std::size_t i = 0; i < names.size(); ++i)
      args += fmt::format("{}\"{}\":{}", args.empty() ? "" : ",", names[i], event.args[i]);
    return fmt::format(R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                       device ? std::string_view{event.name} : name_of(event.kind), device ? "device" : own.role, pid_of(node),
                       tids_.at(own), microseconds(event.begin_ns - origin_), microseconds(event.end_ns - event.begin_ns), args);
  }

  const actors::job& job_;
  const std::vector<node_trace>& nodes_;
  std::map<track, int> tids_;
  std::int64_t origin_ = std::numeric_limits<std::int64_t>::max();
};

/// The temporary file's contents, flushed and closed; 0, or errno.
int write_contents(int descriptor, const trace_text& text) {
  std::FILE* out = ::fdopen(descriptor, "w");
  if (!out) {
    ::close(descriptor);
    return EMFILE;
  }
  errno = 0;
  const bool written = ::fchmod(descriptor, 0644) == 0 && text.write(out) && std::fflush(out) == 0;
  const int code = written ? 0 : errno != 0 ? errno : EIO;
  return std::fclose(out) == 0 || code != 0 ? code : errno;
}

error io_error(const std::string& path, int code) {
  return {errc::io, fmt::format("{}: cannot write the trace: {}", path, std::strerror(code))};
}

} // namespace

result<void> write_trace(const std::string& path, const job& job, const std::vector<node_trace>& nodes) {
  // A rename would replace a device or a link by a plain file.
  if (struct stat about{}; ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    return error{errc::io, fmt::format("{}: cannot write the trace: it is not a regular file", path)};
  auto temporary = path + ".XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0)
    return io_error(path, errno);
  int code = write_contents(descriptor, trace_text{job, nodes});
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0)
    code = errno;
  if (code == 0)
    return {};
  ::unlink(temporary.c_str());
  return io_error(path, code);
}

} // namespace troupe::actors
