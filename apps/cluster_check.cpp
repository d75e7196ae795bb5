// SPDX-License-Identifier: BSD-3-Clause
// Compares the nodes before a job.
#include "apps/cluster_check.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/cluster/gang.hpp"
#include "actors/node/node_devices.hpp"
#include "actors/node/node_job.hpp"
#include "actors/node/place_roles.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

namespace {

using actors::device_probe;
using actors::file_probe;
using actors::node_probe;

/// The difference of clocks that logs, traces and certificates tolerate.
constexpr double clock_tolerance_s = 1;

bool answered(const node_probe& node) {
  return node.here && node.silent.empty();
}

/// The device of that name; "cuda": any that can be used, else the first.
const device_probe* find_device(const node_probe& node, const std::string& name) {
  const device_probe* found = nullptr;
  for (const auto& device : node.devices)
    if (device.name == name || (name == "cuda" && device.name.starts_with(name)))
      if (found == nullptr || (!found->usable && device.usable))
        found = &device;
  return found;
}

/// Why the device cannot be used; empty: it can.
std::string unusable(const device_probe* device) {
  return device == nullptr ? "there is no such device" : device->usable ? "" : device->reason;
}

class comparison {
public:
  comparison(const actors::cluster_probe& probe, const node_needs& needs) : probe_(probe), needs_(needs) {}

  std::vector<std::string> run() {
    check_gang();
    compare_presence();
    for (const auto& node : probe_.nodes) {
      if (!answered(node))
        continue;
      const auto& first = *std::ranges::find_if(probe_.nodes, answered);
      if (node.version != first.version)
        wrong(node, "runs Troupe {}, node {} {}; install the same on both", node.version, first.node, first.version);
      if (node.lane_version != first.lane_version)
        wrong(node, "speaks version {} of the lanes' protocol, node {} version {}; install the same Troupe on both",
              node.lane_version, first.node, first.lane_version);
      if (!node.lane_port_wrong.empty())
        wrong(node, "{}; give it another lane_port, or end what has it", node.lane_port_wrong);
      if (const auto off = std::abs(node.clock_ahead_s) - node.round_trip_s / 2; off > clock_tolerance_s)
        wrong(node, "its clock is {:.1f} s {} the coordinator's; have both follow one time server", std::abs(node.clock_ahead_s),
              node.clock_ahead_s > 0 ? "ahead of" : "behind");
      check_devices(node);
      compare_files(node);
      compare_folders(node);
    }
    return std::move(wrong_);
  }

private:
  template <class... Args>
  void wrong(const node_probe& node, fmt::format_string<Args...> form, Args&&... args) {
    wrong_.push_back(fmt::format("node {}: {}", node.node, fmt::format(form, std::forward<Args>(args)...)));
  }

  /// Whether the nodes of the file would suffice if all were here and free.
  void check_gang() {
    std::vector<actors::member_view> members;
    for (auto& node : node_descriptions(needs_.file))
      members.push_back({.node = std::move(node), .here = true});
    const auto fits = actors::choose_gang(needs_.job, members);
    if (const auto* none = std::get_if<actors::no_gang>(&fits))
      wrong_.push_back(none->reason);
  }

  void compare_presence() {
    const auto here = static_cast<std::uint32_t>(std::ranges::count_if(probe_.nodes, &node_probe::here));
    for (const auto& node : probe_.nodes)
      if (!node.here && here < needs_.job.cluster.nodes)
        wrong(node, "it {}; the job needs {} nodes and {} {} here. Start it: troupe node CLUSTER.toml --name {}", node.silent,
              needs_.job.cluster.nodes, here, here == 1 ? "is" : "are", node.node);
      else if (node.here && !node.silent.empty())
        wrong(node, "does not answer ({}); look whether its process is stopped or its host out of reach", node.silent);
  }

  void check_devices(const node_probe& node) {
    const auto* described = needs_.file.find(node.node);
    if (described == nullptr) {
      wrong(node, "this cluster file does not name it; use the one that its coordinator was started with");
      return;
    }
    std::vector<std::string> asked;
    const auto ask = [&](const std::string& device, const std::string& why) {
      if (std::ranges::find(asked, device) != asked.end())
        return;
      asked.push_back(device);
      if (const auto reason = unusable(find_device(node, device)); !reason.empty())
        wrong(node, "{} cannot be used there: {}; `troupe devices` on its host lists what can", why, reason);
    };
    const auto& compute = needs_.job.compute;
    const bool works = described->worker && !actors::matching_devices(described->devices, compute.device).empty();
    for (const auto& device : described->devices)
      ask(device, fmt::format("its device \"{}\" of the cluster file", device));
    if (works && described->devices.empty())
      ask(compute.device, fmt::format("compute.device = \"{}\"", compute.device));
    if (described->shard && described->devices.empty())
      ask(compute.shard_device, fmt::format("compute.shard_device = \"{}\"", compute.shard_device));
    if (works)
      check_memory(node, *described);
  }

  /// At least one worker has to fit; how many there will be is the coordinator's choice.
  void check_memory(const node_probe& node, const config::cluster_node& described) {
    const auto worker = std::ranges::find(needs_.roles, "worker", &role_memory::role);
    if (worker == needs_.roles.end())
      return;
    const auto fits = [&](const std::string& where, double bytes) {
      const auto* device = find_device(node, where);
      if (device != nullptr && device->free_bytes != 0 && bytes > static_cast<double>(device->free_bytes))
        wrong(node, "its {} has {} free and a worker takes {}; a smaller data.batch or data.micro_batch takes less",
              where == "cpu" ? "host" : where, bytes_text(static_cast<double>(device->free_bytes)), bytes_text(bytes));
    };
    const bool on_host = worker->device == "cpu";
    fits("cpu", worker->host_bytes() + (on_host ? worker->device_bytes() : 0));
    if (!on_host)
      for (const auto& device : actors::matching_devices(described.devices, worker->device))
        fits(device, worker->device_bytes());
  }

  void compare_files(const node_probe& node) {
    for (const auto& file : node.files) {
      if (!file.wrong.empty()) {
        wrong(node, "{}: {}; every node reads the data from the same path", file.path, file.wrong);
        continue;
      }
      if (const auto* other = first_with(file.path); other != nullptr && other != &node)
        if (const auto& same = *find_file(*other, file.path); same.sha256 != file.sha256)
          wrong(node, "{}", actors::difference(file, same, other->node));
    }
  }

  /// Of those that may write checkpoints.
  void compare_folders(const node_probe& node) {
    const auto has_one = [](const node_probe& each) { return !each.checkpoints.path.empty(); };
    if (!has_one(node))
      return;
    const auto& first = *std::ranges::find_if(probe_.nodes, has_one);
    if (const auto why = fault_of(node.checkpoints, first.checkpoints, first.node); !why.empty())
      wrong(node, "{}", why);
  }

  static const file_probe* find_file(const node_probe& node, const std::string& path) {
    const auto found = std::ranges::find(node.files, path, &file_probe::path);
    return found == node.files.end() ? nullptr : &*found;
  }
  const node_probe* first_with(const std::string& path) const {
    for (const auto& node : probe_.nodes)
      if (const auto* file = find_file(node, path); file != nullptr && file->wrong.empty())
        return &node;
    return nullptr;
  }

  const actors::cluster_probe& probe_;
  const node_needs& needs_;
  std::vector<std::string> wrong_;
};

/// The part of a job that goes to one node.
struct share {
  double host_bytes = 0;
  std::map<std::string, double> devices{}; ///< by name, as the job or the node's list has it: bytes
};

struct share_options {
  std::uint32_t workers = 0, shards = 0;
  bool first = false;
};

/// `listed`: the node's devices, over which a role is spread.
share share_of(const node_needs& needs, const share_options& holds, const std::vector<std::string>& listed) {
  share out;
  for (const auto& role : needs.roles) {
    const bool opened = role.device == "cpu" || (holds.workers > 0 && role.device == needs.job.compute.device)
                        || (holds.shards > 0 && role.device == needs.job.compute.shard_device);
    const std::uint32_t count = role.role == "worker"      ? holds.workers
                                : role.role == "shard"     ? holds.shards
                                : role.role == "evaluator" ? std::uint32_t{holds.first}
                                : role.role == "node"      ? std::uint32_t{opened}
                                                           : 0;
    if (count == 0)
      continue;
    out.host_bytes += count * role.host_bytes();
    if (role.device == "cpu") {
      out.host_bytes += count * role.device_bytes();
      continue;
    }
    auto on = actors::matching_devices(listed, role.device);
    if (role.role != "node") // a node's own part is on every device
      on.resize(std::min<std::size_t>(on.size(), count));
    for (const auto& device : on)
      out.devices[device] += static_cast<double>((count + on.size() - 1) / on.size()) * role.device_bytes();
  }
  return out;
}

/// Why the node cannot take its share. `busy`: it has memory that another job will give back.
std::vector<std::string> why_not(const node_probe& node, const share& wants, bool busy) {
  std::vector<std::string> out;
  if (!answered(node))
    return out;
  const auto look = [&](const std::string& name, double bytes) {
    const auto* device = find_device(node, name);
    if (const auto reason = unusable(device); !reason.empty()) {
      out.push_back(fmt::format("node {}: {} cannot be used there: {}", node.node, name, reason));
      return;
    }
    const auto has = static_cast<double>(busy ? device->memory_bytes : device->free_bytes);
    if (has > 0 && bytes > has)
      out.push_back(fmt::format("node {}: its {} has {}{} and the job takes about {} there", node.node,
                                name == "cpu" ? "host" : name, bytes_text(has), busy ? "" : " free", bytes_text(bytes)));
  };
  look("cpu", wants.host_bytes);
  for (const auto& [name, bytes] : wants.devices)
    look(name, bytes);
  return out;
}

std::string state_of(const node_probe& node) {
  return !node.here ? "not here" : !node.silent.empty() ? "silent" : node.job != 0 ? fmt::format("in job {}", node.job) : "here";
}

std::string milliseconds(double s) {
  return fmt::format("{:.3g} ms", s * 1e3);
}

std::string data_text(const node_probe& node) {
  if (node.files.empty())
    return "drawn";
  double bytes = 0;
  for (const auto& file : node.files) {
    if (!file.wrong.empty())
      return "incomplete";
    bytes += static_cast<double>(file.bytes);
  }
  return fmt::format("{}, {}", counted(node.files.size(), "file"), bytes_text(bytes));
}

boost::json::object file_json(const file_probe& file) {
  const bool good = file.wrong.empty();
  return {{"path", file.path},
          {"bytes", value_or_null(good, file.bytes)},
          {"sha256", value_or_null(good, file.sha256)},
          {"error", value_or_null(!good, file.wrong)}};
}

boost::json::object device_json(const device_probe& device) {
  return {{"name", device.name},
          {"usable", device.usable},
          {"reason", value_or_null(!device.usable, device.reason)},
          {"memory_bytes", device.memory_bytes},
          {"free_bytes", device.free_bytes}};
}

} // namespace

actors::node_options lanes_of(const config::cluster& file, const config::cluster_node& self) {
  actors::node_options out;
  out.host = self.host;
  out.security = file.security.files();
  out.window_bytes = file.lanes.window_bytes();
  out.shared_memory = file.lanes.shared_memory;
  out.congestion = file.lanes.congestion;
  return out;
}

std::vector<actors::node_description> node_descriptions(const config::cluster& file, const std::string& leader) {
  const auto& first = leader.empty() ? file.coordinator().name : leader;
  const auto last_resort = [&](const config::cluster_node& node) {
    return file.journal.empty() ? std::uint8_t{0}
           : node.name == first ? actors::leaders_node
           : node.coordinator   ? actors::followers_node
                                : actors::any_node;
  };
  std::vector<actors::node_description> out;
  for (const auto& node : file.nodes)
    out.push_back({node.name, node.host, node.shard, node.worker, node.devices, last_resort(node)});
  const auto rank = [&](const actors::node_description& node) {
    return node.name == first ? 0 : file.find(node.name)->coordinator ? 2 : 1;
  };
  std::ranges::stable_sort(out, {}, rank);
  return out;
}

std::vector<std::string> mismatches(const actors::cluster_probe& probe, const node_needs& needs) {
  return comparison{probe, needs}.run();
}

/// Counts as `choose_gang` and `place_roles` do.
std::vector<std::string> shortages(const actors::cluster_probe& probe, const node_needs& needs) {
  const auto& wants = needs.job.cluster;
  const auto& first = needs.file.coordinator();
  const bool apart = wants.where == actors::placement::separate && wants.nodes > 1;
  const auto may_work = [&](const config::cluster_node& node) {
    return node.worker && !actors::matching_devices(node.devices, needs.job.compute.device).empty();
  };
  const auto others = [&](bool work) {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(needs.file.nodes, [&](const auto& node) { return &node != &first && may_work(node) == work; }));
  };
  const auto beside = std::min({wants.nodes - 1, wants.workers, others(true)});
  const bool first_works = may_work(first) && !(apart && beside > 0);
  const auto working = beside + std::uint32_t{first_works};
  if (working == 0)
    return {}; // the cluster itself reports that
  // Where jobs outlive it, the coordinator's node holds only what no other may.
  const bool clear = !needs.file.journal.empty()
                     && std::ranges::any_of(needs.file.nodes, [&](const auto& node) { return &node != &first && node.shard; });
  const auto apart_from_workers = apart ? std::min(wants.nodes - 1 - beside, others(false)) : 0;
  const bool workers_hold = clear ? apart_from_workers == 0 : !apart;
  const auto holders = apart ? (clear ? std::max(apart_from_workers, 1U) : 1 + apart_from_workers)
                             : wants.nodes - std::uint32_t{clear && wants.nodes > 1};
  const auto each = [](std::uint32_t count, std::uint32_t nodes) { return (count + nodes - 1) / nodes; };
  const auto workers = each(wants.workers, working), backups = each(wants.shards * (wants.replicas - 1), wants.nodes),
             shards = each(wants.shards, holders) + backups;
  const auto of_worker = [&](const config::cluster_node& node, bool evaluates) {
    return share_of(needs, {.workers = workers, .shards = workers_hold ? shards : backups, .first = evaluates}, node.devices);
  };
  auto of_first =
      share_of(needs, {.workers = first_works ? workers : 0, .shards = clear ? 0 : shards, .first = !clear}, first.devices);

  std::vector<std::string> wrong, unfit;
  std::uint32_t fit = 0, elsewhere = 0; // nodes for workers; those on other hosts than the coordinator's
  for (const auto& node : probe.nodes)
    if (const auto* described = needs.file.find(node.node); described != nullptr && described != &first && may_work(*described)) {
      elsewhere += described->host != first.host ? 1 : 0;
      const auto reasons = why_not(node, of_worker(*described, clear && workers_hold), node.job != 0);
      fit += reasons.empty() ? 1 : 0;
      unfit.insert(unfit.end(), reasons.begin(), reasons.end());
    }
  of_first.host_bytes +=
      (beside - std::min(beside, elsewhere)) * of_worker(first, false).host_bytes; // they share the coordinator's memory
  if (const auto own = std::ranges::find(probe.nodes, first.name, &node_probe::node); own != probe.nodes.end())
    wrong = why_not(*own, of_first, false);
  if (fit < beside)
    wrong.insert(wrong.end(), unfit.begin(), unfit.end());
  return wrong;
}

std::string nodes_table(const actors::cluster_probe& probe, const config::cluster& file) {
  std::vector<std::vector<std::string>> rows{
      {"node", "host", "port", "state", "Troupe", "lanes", "devices", "free", "round trip", "clock", "data"}};
  for (const auto& node : probe.nodes) {
    const auto* described = file.find(node.node);
    const auto port = described == nullptr || described->port == 0 ? std::string{"any"} : fmt::format("{}", described->port);
    std::vector<std::string> row{node.node, node.host, port, state_of(node)};
    if (answered(node)) {
      std::vector<std::string> devices;
      for (const auto& device : node.devices)
        devices.push_back(device.name + (device.usable ? "" : " (no)"));
      const auto free = node.devices.empty() ? 0.0 : static_cast<double>(node.devices.front().free_bytes);
      row.insert(row.end(),
                 {node.version, fmt::format("version {}", node.lane_version), fmt::format("{}", fmt::join(devices, " ")),
                  bytes_text(free), milliseconds(node.round_trip_s),
                  fmt::format("{}{}", node.clock_ahead_s < 0 ? "" : "+", milliseconds(node.clock_ahead_s)), data_text(node)});
    } else {
      row.push_back(node.silent);
    }
    rows.push_back(std::move(row));
  }
  return table(rows);
}

boost::json::array nodes_json(const actors::cluster_probe& probe, const config::cluster& file) {
  boost::json::array out;
  for (const auto& node : probe.nodes) {
    const auto* described = file.find(node.node);
    boost::json::object one{{"name", node.node},
                            {"host", node.host},
                            {"state", !node.here       ? "absent"
                                      : answered(node) ? "here"
                                                       : "silent"},
                            {"reason", value_or_null(!answered(node), node.silent)},
                            {"port", described == nullptr ? 0 : described->port}};
    if (!answered(node)) {
      out.push_back(std::move(one));
      continue;
    }
    one["job"] = value_or_null(node.job != 0, node.job);
    one["version"] = node.version;
    one["lane_version"] = node.lane_version;
    one["pid"] = node.pid;
    one["lane_port"] = node.lane_port;
    one["lane_port_error"] = value_or_null(!node.lane_port_wrong.empty(), node.lane_port_wrong);
    one["round_trip_s"] = node.round_trip_s;
    one["clock_offset_s"] = node.clock_ahead_s;
    boost::json::array devices, files;
    for (const auto& device : node.devices)
      devices.push_back(device_json(device));
    for (const auto& each : node.files)
      files.push_back(file_json(each));
    one["free_bytes"] = node.devices.empty() ? 0 : node.devices.front().free_bytes;
    one["devices"] = std::move(devices);
    one["data"] = std::move(files);
    out.push_back(std::move(one));
  }
  return out;
}

} // namespace troupe::apps
