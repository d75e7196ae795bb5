// SPDX-License-Identifier: BSD-3-Clause
// CAF's settings.
#include "actors/system.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/init_global_meta_objects.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/manager.hpp>

#include "actors/messages/cluster.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/sockets/socket_owner.hpp"
#include "actors/sockets/strangers.hpp"
#include "actors/sockets/tls.hpp"

namespace troupe::actors {

void init_message_types() {
  using namespace caf::id_block;
  caf::init_global_meta_objects<troupe_inspection>();
  caf::init_global_meta_objects<troupe_compute>();
  caf::init_global_meta_objects<troupe_role>();
  caf::init_global_meta_objects<troupe_node>();
  caf::init_global_meta_objects<troupe_cluster>();
  caf::io::middleman::init_global_meta_objects();
  caf::core::init_global_meta_objects();
}

system_config::system_config(const system_options& options) {
  set("caf.scheduler.policy", "sharing");
  set("caf.scheduler.max-threads", 4);
  set("caf.logger.console.verbosity", "quiet");
  set("caf.logger.file.verbosity", "quiet");
  if (options.metrics)
    set("caf.metrics-filters.actors.includes", std::vector<std::string>{"troupe.*"});
  if (!options.networked)
    return;
  load<caf::io::middleman>();
  // Detects a stopped process or an unreachable host within seconds, without mistaking a busy one for it.
  set("caf.middleman.heartbeat-interval", caf::timespan{std::chrono::milliseconds{500}});
  set("caf.middleman.connection-timeout", caf::timespan{std::chrono::seconds{10}});
  set("caf.middleman.max-payload-size", 1U << 20U);
  // The connecting side compares: one common word is enough.
  const auto word = [](const std::string& key) { return "troupe-" + message_dialect() + "-" + key; };
  std::vector<std::string> words;
  if (!options.cluster_key.empty())
    words.push_back(word("of-" + options.cluster_key));
  if (options.cluster_key.empty() || options.listens)
    words.push_back(word("console"));
  set("caf.middleman.app-identifiers", std::move(words));
  if (options.security.own_user && !options.security.enabled())
    connection_hooks.admits = [refused = options.refused](int descriptor) {
      const auto foreign = net::foreign_user(descriptor);
      if (foreign && !foreign->empty() && refused)
        refused(*foreign);
      return !foreign;
    };
  if (!options.security.enabled())
    return;
  certificates_ = std::make_shared<net::tls_source>(options.security, options.say);
  reviewed_ = certificates_->newest();
  connection_hooks.tls_context = [files = certificates_] { return files->newest()->share(); };
  load<caf::openssl::manager>();
  openssl_cafile = options.security.ca;
  openssl_certificate = options.security.certificate;
  openssl_key = options.security.key;
  peers_ = std::make_shared<net::tls_peers>();
  connection_hooks.tls_met = [peers = peers_](SSL* connection) {
    peers->met(connection);
    return true; // who it is matters to some requests only
  };
  connection_hooks.tls_parted = [peers = peers_](SSL* connection) { peers->parted(connection); };
}

std::vector<std::string> system_config::end_revoked() {
  if (!certificates_)
    return {};
  const auto newest = certificates_->newest();
  if (std::exchange(reviewed_, newest) == newest)
    return {};
  return peers_->end_revoked(*newest);
}

std::string what_keeps_out(const caf::actor_system& system, const caf::error& why, const std::string& host, std::uint16_t port) {
  if (why == caf::sec::incompatible_application_ids)
    return {}; // the TLS handshake succeeded
  const auto& config = system.config();
  return net::what_keeps_out(host, port, {config.openssl_cafile, config.openssl_certificate, config.openssl_key});
}

bool is_secured(const caf::actor_system& system) {
  return !system.config().openssl_cafile.empty();
}

} // namespace troupe::actors
