// SPDX-License-Identifier: BSD-3-Clause
// Cluster files: a table of keys like a job's, read once per [[node]].
#include "apps/config/cluster_file.hpp"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "actors/sockets/socket_options.hpp"
#include "apps/certs/certificate.hpp"
#include "apps/config/read_table.hpp"

namespace troupe::config {

namespace {

constexpr std::int64_t highest_port = 65535;

/// A node's name becomes part of file names and of metrics' labels.
std::string wrong_name(const std::string& name) {
  const bool fits = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  return fits ? "" : "is no node's name; it takes letters, digits, \"-\", \"_\" and \".\", such as \"a\"";
}

/// One colon is a port's, several are an address of IPv6.
std::string wrong_host(const std::string& host) {
  if (const auto port = host.substr(host.find(':') + 1);
      std::ranges::count(host, ':') == 1 && port.find_first_not_of("0123456789") == std::string::npos)
    return "holds a port; write that as port = " + port;
  const bool fits = !host.empty() && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':' || c == '%';
  });
  return fits ? "" : "is no host's name or address; write one such as \"10.0.0.1\"";
}

std::string wrong_path(const std::string& path) {
  return path.empty() ? "is empty; it takes the path of a PEM file" : "";
}

std::string wrong_congestion(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  return plain && !name.empty() && name.size() < 16
             ? ""
             : "is no name of a congestion control; it takes one such as \"cubic\" or \"bbr\"";
}

std::string wrong_journal(const std::string& path) {
  return path.empty() ? "is empty; it takes a folder on the coordinator's host, such as \"journal\"" : "";
}

/// Why no files can be made in a folder, which need not be there yet; empty: they can.
std::string cannot_fill(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code wrong;
  auto there = fs::absolute(folder, wrong).lexically_normal();
  while (!wrong && !fs::exists(there, wrong) && there.has_relative_path())
    there = there.parent_path();
  if (!fs::is_directory(there, wrong))
    return fmt::format("{} is no folder", there.string());
  return access(there.c_str(), W_OK | X_OK) == 0 ? "" : fmt::format("{} is not this user's to write to", there.string());
}

/// One [[node]] while it is read; roles are texts.
struct node_draft {
  cluster_node out;
  std::int64_t port = -1; ///< as given; -1: not, or refused
  std::vector<std::string> roles;
  place at;
  std::map<std::string, place> given;
};

std::vector<key_info<node_draft>> node_keys() {
  const auto key = [](std::string name, domain accepts, auto access, std::string meaning) {
    return key_of<node_draft>("node", std::move(name), std::move(accepts), access, std::move(meaning));
  };
  return {
      key("name", text{{}, {}, wrong_name}, TROUPE_FIELD(out.name), "the name that troupe node --name takes"),
      key("host", text{{}, {}, wrong_host}, TROUPE_FIELD(out.host), "name or address that the others reach it by"),
      key("port", integer{0, highest_port}, TROUPE_FIELD(port), "of messages; 0: any, for a node that only joins"),
      key("lane_port", integer{0, highest_port}, TROUPE_FIELD(out.lane_port),
          "of lanes; 0: any; no node connects to the coordinator's"),
      key("metrics_port", integer{0, highest_port}, TROUPE_FIELD(out.metrics_port), "of metrics for Prometheus; 0: none"),
      key("roles", text_list{{"coordinator", "shard", "worker"}}, TROUPE_FIELD(roles), "what it may hold"),
      key("devices", device_list{}, TROUPE_FIELD(out.devices),
          "devices that jobs may compute on there; default: all of its host's"),
  };
}

std::vector<key_info<cluster>> cluster_keys() {
  const auto security = [](std::string name, domain accepts, auto access, std::string meaning) {
    return key_of<cluster>("security", std::move(name), std::move(accepts), access, std::move(meaning));
  };
  return {
      key_of<cluster>("", "name", text{}, TROUPE_FIELD(name), "the cluster's name"),
      key_of<cluster>("cluster", "journal", text{{}, {}, wrong_journal}, TROUPE_FIELD(journal),
                      "folder on the coordinator's host: its jobs outlive it"),
      key_of<cluster>("cluster", "orphan_s", real{.least = 0}, TROUPE_FIELD(orphan_s),
                      "with a journal: how long a job waits for its client when the coordinator begins again"),
      security("ca", text{{}, {}, wrong_path}, TROUPE_FIELD(security.ca), "PEM file of the authority"),
      security("certificate", text{{}, {}, wrong_path}, TROUPE_FIELD(security.certificate), "PEM file, this node's"),
      security("key", text{{}, {}, wrong_path}, TROUPE_FIELD(security.key), "PEM file, this node's"),
      security("crl", text{{}, {}, wrong_path}, TROUPE_FIELD(security.crl),
               "PEM file of revoked certificates; default: none are"),
      security("insecure", boolean{}, TROUPE_FIELD(security.insecure), "anyone may join"),
      key_of<cluster>("lanes", "window_kib", integer{.least = 16, .most = 1 << 20}, TROUPE_FIELD(lanes.window_kib),
                      "what is not sent yet waits in the lane, where urgent messages overtake it, beyond so much in the kernel"),
      key_of<cluster>("lanes", "shared_memory", boolean{}, TROUPE_FIELD(lanes.shared_memory),
                      "processes of one user on one host read payloads in each other's memory; false: through sockets"),
      key_of<cluster>("lanes", "congestion", text{{}, {}, wrong_congestion}, TROUPE_FIELD(lanes.congestion),
                      "TCP congestion control of lanes, such as \"bbr\"; default: the host's"),
  };
}

class cluster_reader {
public:
  cluster_reader(const std::string& file, std::string reader) : problems_(file), reader_(std::move(reader)) {}

  checked<cluster> read(const toml_table& document) {
    const auto found = [&](const std::string& key) { return std::ranges::find(document, key, &toml_entry::key); };
    for (const char* section : {"model", "stop", "optimizer", "data"})
      if (const auto of_job = found(section); found("node") == document.end() && of_job != document.end()) {
        problems_.add({of_job->key_at, "", 0},
                      fmt::format("this is a job file: it has [{}]; give a cluster file, which has [[node]]", section));
        return problems_.take();
      }
    toml_table top;
    for (const toml_entry& entry : document)
      if (entry.key == "node")
        read_nodes(entry);
      else if (entry.key == "security" && std::holds_alternative<toml_table>(entry.value.held))
        read_security(entry);
      else if (entry.key == "security")
        problems_.add({entry.key_at, "", 0}, "security is a section, not a value; write [security] and its keys below it");
      else if (entry.key == "cluster" && std::holds_alternative<toml_table>(entry.value.held))
        of_cluster_ = read_table(problems_, cluster_keys(), "cluster", std::get<toml_table>(entry.value.held), out_);
      else if (entry.key == "cluster")
        problems_.add({entry.key_at, "", 0}, "cluster is a section, not a value; write [cluster] and its keys below it");
      else if (entry.key == "lanes" && std::holds_alternative<toml_table>(entry.value.held))
        of_lanes_ = read_table(problems_, cluster_keys(), "lanes", std::get<toml_table>(entry.value.held), out_);
      else if (entry.key == "lanes")
        problems_.add({entry.key_at, "", 0}, "lanes is a section, not a value; write [lanes] and its keys below it");
      else if (std::holds_alternative<toml_table>(entry.value.held) || is_list_of_tables(entry.value))
        refuse_section(entry);
      else
        top.push_back(entry);
    read_table(problems_, cluster_keys(), "", top, out_);
    check_nodes();
    check_journal();
    check_congestion();
    check_certificates_of_nodes();
    if (!problems_.empty())
      return problems_.take();
    for (node_draft& node : nodes_)
      out_.nodes.push_back(std::move(node.out));
    return std::move(out_);
  }

private:
  void refuse_section(const toml_entry& entry) {
    const std::string likely = nearest(entry.key, {"node", "cluster", "security", "lanes"});
    problems_.add({entry.key_at, "", 0}, fmt::format("there is no section [{}]; {}", entry.key,
                                                     likely == "node" ? "did you mean [[node]]?"
                                                     : likely.empty() ? "there are [[node]], [cluster], [security] and [lanes]"
                                                                      : fmt::format("did you mean [{}]?", likely)));
  }

  void read_nodes(const toml_entry& entry) {
    const place at{entry.key_at, "", 0};
    const auto* items = std::get_if<toml_array>(&entry.value.held);
    if (items == nullptr) {
      problems_.add(at, "node is a list of tables; write [[node]], in double brackets, once a node");
      return;
    }
    for (const toml_value& item : *items) {
      node_draft node;
      node.at = {item.at, "", 0};
      const auto* entries = std::get_if<toml_table>(&item.held);
      if (entries == nullptr) {
        problems_.add(node.at, "a node is a table; write [[node]] and its keys below it");
        continue;
      }
      node.given = read_table(problems_, node_keys(), "node", *entries, node);
      require(node);
      nodes_.push_back(std::move(node));
    }
  }

  void require(const node_draft& node) {
    for (const auto& [key, example] :
         {std::pair{"name", "name = \"a\""}, {"host", "host = \"10.0.0.1\""}, {"port", "port = 7070"}})
      if (!node.given.contains(key))
        problems_.add(node.at, fmt::format("node.{} is missing; write {}", key, example));
  }

  void read_security(const toml_entry& entry) {
    const place at{entry.key_at, "", 0};
    const auto given = read_table(problems_, cluster_keys(), "security", std::get<toml_table>(entry.value.held), out_);
    certificate_pattern_ = out_.security.certificate;
    for (std::string* file : {&out_.security.ca, &out_.security.certificate, &out_.security.key, &out_.security.crl})
      for (auto hole = file->find("{name}"); hole != std::string::npos; hole = file->find("{name}", hole + reader_.size()))
        file->replace(hole, 6, reader_);
    const auto files = std::count_if(given.begin(), given.end(),
                                     [](const auto& g) { return !g.first.empty() && g.first != "insecure" && g.first != "crl"; });
    if (given.contains("crl") && files == 0)
      problems_.add(given.at("crl"),
                    "crl lists revoked certificates, and no certificates are given; name ca, certificate and key, too");
    if (files != 0 && files != 3)
      problems_.add(at, "[security] names some of its files; it takes ca, certificate and key, or insecure = true");
    if (files != 0 && out_.security.insecure)
      problems_.add(given.at("insecure"), "certificates and insecure = true contradict each other; keep one of them");
    else if (!out_.security.ca.empty() && !out_.security.certificate.empty() && !out_.security.key.empty())
      check_files(given);
    if (const auto named = given.find("certificate"); named != given.end())
      certificate_at_ = named->second;
  }

  /// A node with unusable files would find out only at its first connection, and its peers would see a stranger.
  void check_files(const std::map<std::string, place>& given) {
    using file = apps::file_problem::file;
    const auto& [ca, certificate, key, insecure, crl] = out_.security;
    if (reader_ != client_name) {
      const auto own = apps::read_certificate(certificate);
      if (own && apps::name_of(own->get()) != reader_)
        problems_.add(given.at("certificate"),
                      fmt::format("{0} was issued to \"{1}\" and this is node \"{2}\", whose peers would refuse it; "
                                  "issue one with `troupe certs issue FOLDER --node {2}`",
                                  certificate, apps::name_of(own->get()), reader_));
      else if (own && apps::is_consoles(own->get()))
        problems_.add(given.at("certificate"), console_text(certificate, reader_));
    }
    for (const auto& [which, message] : apps::check_node_files({ca, certificate, key, crl}, std::time(nullptr)))
      problems_.add(given.at(which == file::ca            ? "ca"
                             : which == file::certificate ? "certificate"
                             : which == file::key         ? "key"
                                                          : "crl"),
                    message);
  }

  static std::string console_text(const std::string& certificate, const std::string& node) {
    return fmt::format("{0} is a console's certificate: with it node \"{1}\" may look and give orders, not join; issue one with "
                       "`troupe certs issue FOLDER --node {1}`, without --role console",
                       certificate, node);
  }

  /// For whoever reads the file before the nodes do: those of their certificates that are on this host.
  void check_certificates_of_nodes() {
    if (reader_ != client_name || certificate_pattern_.empty())
      return;
    for (const node_draft& node : nodes_) {
      std::string path = certificate_pattern_;
      for (auto hole = path.find("{name}"); hole != std::string::npos; hole = path.find("{name}", hole + node.out.name.size()))
        path.replace(hole, 6, node.out.name);
      const auto own = apps::read_certificate(path);
      if (own && apps::name_of(own->get()) == node.out.name && apps::is_consoles(own->get()))
        problems_.add(certificate_at_, console_text(path, node.out.name));
    }
  }

  /// The place of a node's key, or of the node.
  static place where(const node_draft& node, const std::string& key) {
    const auto it = node.given.find(key);
    return it == node.given.end() ? node.at : it->second;
  }

  void check_nodes() {
    if (nodes_.empty()) {
      if (problems_.empty())
        problems_.add({}, "a cluster needs nodes; write [[node]] with name, host and port, once a node");
      return;
    }
    std::set<std::string> names, addresses;
    for (node_draft& node : nodes_) {
      assign_roles(node);
      node.out.port = static_cast<std::uint16_t>(std::max<std::int64_t>(node.port, 0));
      if (node.out.coordinator && node.port == 0)
        problems_.add(where(node, "port"), "the coordinator's port is 0, but the others must know it; give one from 1 to 65535");
      if (!node.out.name.empty() && !names.insert(node.out.name).second)
        problems_.add(where(node, "name"),
                      fmt::format("there are two nodes named \"{}\"; a name belongs to one node", node.out.name));
      for (const auto& [key, port] :
           {std::pair{"port", node.out.port}, {"lane_port", node.out.lane_port}, {"metrics_port", node.out.metrics_port}})
        if (port != 0 && !addresses.insert(fmt::format("{}:{}", node.out.host, port)).second)
          problems_.add(where(node, key),
                        fmt::format("{}:{} is taken by another node or port; give each its own", node.out.host, port));
      if (out_.security.loopback_only() && !node.out.host.empty() && !is_loopback(node.out.host))
        problems_.add(where(node, "host"),
                      fmt::format("node.host = \"{}\" is no loopback address and there is no [security]; name ca, "
                                  "certificate and key there, or write insecure = true",
                                  node.out.host));
    }
    if (std::none_of(nodes_.begin(), nodes_.end(),
                     [](const node_draft& n) { return n.given.contains("roles") && n.roles.empty(); }))
      check_roles(); // else a refused role would be reported as missing too
  }

  void assign_roles(node_draft& node) {
    const bool listed = node.given.contains("roles");
    const auto has = [&](const char* role) { return std::find(node.roles.begin(), node.roles.end(), role) != node.roles.end(); };
    node.out.coordinator = listed ? has("coordinator") : &node == &nodes_.front();
    node.out.shard = !listed || has("shard");
    node.out.worker = !listed || has("worker");
  }

  void check_roles() {
    const auto count = [&](bool cluster_node::*role) {
      return std::count_if(nodes_.begin(), nodes_.end(), [&](const node_draft& n) { return n.out.*role; });
    };
    const place at = nodes_.front().at;
    check_coordinators(count(&cluster_node::coordinator), at);
    if (count(&cluster_node::shard) == 0)
      problems_.add(at, "no node has the role shard; at least one holds the parameters: write it into a node's roles");
    if (count(&cluster_node::worker) == 0)
      problems_.add(at, "no node has the role worker; at least one computes: write it into a node's roles");
  }

  void check_coordinators(std::ptrdiff_t coordinators, const place& at) {
    const auto many = [&](const std::string& remedy) {
      problems_.add(at, fmt::format("{} nodes have the role coordinator; {}", coordinators, remedy));
    };
    if (coordinators == 0)
      many("exactly one has it, such as roles = [\"coordinator\", \"shard\"]");
    else if (coordinators % 2 == 0)
      many("an even number survives no more losses than one less; give it to one, three or five nodes");
    else if (coordinators > 1 && out_.journal.empty())
      many(
          "what they decide must be on their disks, and there is no journal; write journal = \"FOLDER\" under [cluster], or give "
          "the role to one node");
    else if (coordinators > 5)
      many("each decision waits for a majority of them; give it to one, three or five nodes");
  }

  void check_journal() {
    const auto given = [&](const char* key) { return of_cluster_.contains(key); };
    if (given("orphan_s") && !given("journal"))
      problems_.add(of_cluster_.at("orphan_s"),
                    "cluster.orphan_s is for clusters with a journal, without which jobs end with their coordinator; write "
                    "cluster.journal, too");
    const auto self = std::ranges::find(nodes_, reader_, [](const node_draft& node) { return node.out.name; });
    if (out_.journal.empty() || self == nodes_.end() || !self->out.coordinator)
      return;
    for (auto hole = out_.journal.find("{name}"); hole != std::string::npos;
         hole = out_.journal.find("{name}", hole + reader_.size()))
      out_.journal.replace(hole, 6, reader_);
    if (const auto why = cannot_fill(out_.journal); !why.empty())
      problems_.add(
          of_cluster_.at("journal"),
          fmt::format("cluster.journal = \"{}\" cannot be written: {}; give a folder on this host that can", out_.journal, why));
  }

  /// A host's own matter: whoever is no node there reads the file, too.
  void check_congestion() {
    const auto self = std::ranges::find(nodes_, reader_, [](const node_draft& node) { return node.out.name; });
    if (self == nodes_.end() || out_.lanes.congestion.empty())
      return;
    if (const auto there = actors::net::congestion_controls(); std::ranges::find(there, out_.lanes.congestion) == there.end())
      problems_.add(
          of_lanes_.at("congestion"),
          fmt::format("lanes.congestion = \"{}\" is not available on the host of node {}, which has {}; load its module "
                      "(modprobe tcp_{}), or leave the key out",
                      out_.lanes.congestion, reader_, fmt::join(there, ", "), out_.lanes.congestion));
  }

  problem_list problems_;
  std::string reader_;
  cluster out_;
  std::vector<node_draft> nodes_;
  std::map<std::string, place> of_cluster_; ///< keys of [cluster]
  std::map<std::string, place> of_lanes_;   ///< of [lanes]
  std::string certificate_pattern_;         ///< as written, with {name}
  place certificate_at_;
};

} // namespace

cluster_security security_of(const std::string& folder, const std::string& node, bool insecure) {
  cluster_security out;
  out.insecure = insecure;
  if (!folder.empty()) {
    out.ca = folder + "/ca.pem";
    out.certificate = fmt::format("{}/{}.pem", folder, node);
    out.key = fmt::format("{}/{}.key", folder, node);
  }
  return out;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

const cluster_node* cluster::find(const std::string& node) const {
  const auto it = std::find_if(nodes.begin(), nodes.end(), [&](const cluster_node& n) { return n.name == node; });
  return it == nodes.end() ? nullptr : &*it;
}

const cluster_node& cluster::coordinator() const {
  return *std::find_if(nodes.begin(), nodes.end(), [](const cluster_node& n) { return n.coordinator; });
}

std::vector<const cluster_node*> cluster::coordinators() const {
  std::vector<const cluster_node*> out;
  for (const auto& node : nodes)
    if (node.coordinator)
      out.push_back(&node);
  return out;
}

checked<cluster> load_cluster(const std::string& path, const std::string& reader) {
  const auto document = parse_config_file(path);
  if (!document)
    return document.error();
  return cluster_reader(path, reader).read(*document);
}

std::string to_toml(const cluster& described) {
  std::string text = fmt::format("name = \"{}\"\n", described.name);
  for (const auto& node : described.nodes) {
    std::string roles;
    for (const auto& [has, role] : {std::pair{node.coordinator, "coordinator"}, {node.shard, "shard"}, {node.worker, "worker"}})
      if (has)
        roles += fmt::format("{}\"{}\"", roles.empty() ? "" : ", ", role);
    text += fmt::format("[[node]]\nname = \"{}\"\nhost = \"{}\"\nport = {}\nlane_port = {}\nroles = [{}]\n", node.name, node.host,
                        node.port, node.lane_port, roles);
  }
  if (described.security.tls())
    text += fmt::format("[security]\nca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n{}", described.security.ca,
                        described.security.certificate, described.security.key,
                        described.security.crl.empty() ? "" : fmt::format("crl = \"{}\"\n", described.security.crl));
  else if (described.security.insecure)
    text += "[security]\ninsecure = true\n";
  if (described.lanes != cluster_lanes{})
    text +=
        fmt::format("[lanes]\nwindow_kib = {}\nshared_memory = {}\n{}", described.lanes.window_kib, described.lanes.shared_memory,
                    described.lanes.congestion.empty() ? "" : fmt::format("congestion = \"{}\"\n", described.lanes.congestion));
  return text;
}

} // namespace troupe::config
