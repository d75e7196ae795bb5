// SPDX-License-Identifier: BSD-3-Clause
// A web server for people on this machine: one page, and what changes on it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <boost/system/result.hpp>

namespace troupe::actors::net {

/// Where a page can be asked for: an address of this machine's loopback interface.
struct web_address {
  std::string host = "127.0.0.1"; ///< a literal address
  std::uint16_t port = 8080;      ///< 0: the system chooses
  friend bool operator==(const web_address&, const web_address&) = default;
};

/// What is wrong, and what would be right.
struct web_error {
  std::string what;
};

/// Reads "HOST:PORT", "HOST" or "PORT", where HOST is localhost or an address, of IPv6 in brackets. What
/// is not loopback is refused, for whoever reaches the page may read it.
boost::system::result<web_address, web_error> parse_web_address(std::string_view text);

struct web_options {
  web_address address{};
  std::string page{};                ///< HTML with at most one inline style and one inline script: only those run
  std::size_t most_connections = 64; ///< more are closed unanswered
  std::uint32_t most_header_bytes = 8192;
  std::chrono::milliseconds request_timeout{10'000}; ///< for a request to come, and for what is written to be taken
};

/// Serves `GET /` (the page), `GET /snapshot` (what was published last, once) and `GET /events` (the same and whatever is
/// published from then on, as server-sent events). Read-only: a request changes nothing. Plain HTTP/1.1, a connection for each
/// request.
///
/// A request whose Host is no loopback name is refused, so that no page of the web reads along under a name that it points here.
/// A subscriber that reads too slowly is sent the newest only; one that does not read is dropped. Runs on a thread of its own.
class web_server {
public:
  virtual ~web_server() = default;
  web_server(const web_server&) = delete;
  web_server& operator=(const web_server&) = delete;

  /// The port where it listens.
  virtual std::uint16_t port() const = 0;
  /// Replaces what is known. `json`: one line. Thread-safe; never waits.
  virtual void publish(std::string json) = 0;

protected:
  web_server() = default;
};

/// Begins to listen; the error says why that cannot be. The destructor gives subscribers a second to take what was published
/// last.
boost::system::result<std::unique_ptr<web_server>, web_error> open_web_server(web_options options);

/// "http://127.0.0.1:8080/".
std::string url_of(const web_address& address);

} // namespace troupe::actors::net
