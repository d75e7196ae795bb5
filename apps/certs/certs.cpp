// SPDX-License-Identifier: BSD-3-Clause
// `troupe certs`: a private authority and a certificate for each node.
#include <cstdio>
#include <ctime>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/certs/authority.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

namespace {

/// A path as a TOML text.
std::string quoted(const std::string& path) {
  return boost::json::serialize(boost::json::value(path)); // TOML's basic strings take JSON's escapes
}

void print_authority(const issued& made, const certs_options& options) {
  fmt::print("authority \"{}\", good until {}\n", made.name, date_text(made.until));
  fmt::print("{}", table({{"  " + made.ca, "every node needs a copy"}, {"  " + made.key, "signs nodes; keep it off them"}}));
  fmt::print("\nNext, once a node: troupe certs issue {} --node NAME --host HOST\n", options.folder);
}

void print_node(const issued& made, const std::string& role) {
  fmt::print("{} \"{}\", good until {}; in its cluster file:\n\n", role, made.name, date_text(made.until));
  fmt::print("[security]\nca = {}\ncertificate = {}\nkey = {}\n", quoted(made.ca), quoted(made.certificate), quoted(made.key));
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings)
    fmt::print(stderr, "troupe: warning: {}\n", warning);
}

int revoke_as_asked(const certs_options& options, std::time_t now) {
  const auto made = revoke_certificates({options.folder, options.node, options.certificate}, now);
  if (!made)
    return refuse({{{"troupe certs revoke", made.error().message}}});
  print_warnings(made->warnings);
  if (options.json)
    print_json({{"crl", made->crl},
                {"added", made->added},
                {"revoked", made->all},
                {"warnings", boost::json::value_from(made->warnings)}});
  else
    fmt::print(
        "{} lists {}, {} of them new; copy it to every node, to the path that its cluster file names:\n\n[security]\ncrl = {}\n",
        made->crl, counted(made->all, "revoked certificate"), made->added, quoted(made->crl));
  return exit_done;
}

} // namespace

int execute(const certs_options& options) {
  using actors::net::certified_role;
  const std::time_t now = std::time(nullptr);
  if (options.action == certs_options::verb::revoke)
    return revoke_as_asked(options, now);
  const bool issues = options.action == certs_options::verb::issue;
  const auto role = options.role == "console" ? certified_role::console : certified_role::node;
  const auto made =
      issues ? issue_certificate({options.folder, options.node, options.hosts, options.out, options.issue_days, role}, now)
             : make_authority({options.folder, options.name, options.init_days}, now);
  if (!made)
    return refuse({{{issues ? "troupe certs issue" : "troupe certs init", made.error().message}}});
  print_warnings(made->warnings);
  if (options.json)
    print_json({{"name", made->name},
                {"ca", made->ca},
                {"certificate", made->certificate},
                {"key", made->key},
                {"until", date_text(made->until)},
                {"warnings", boost::json::value_from(made->warnings)}});
  else if (issues)
    print_node(*made, options.role);
  else
    print_authority(*made, options);
  return exit_done;
}

} // namespace troupe::apps
