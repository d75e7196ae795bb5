// SPDX-License-Identifier: BSD-3-Clause
// Requests to the two web servers, as any process of the machine may send them.
#include <memory>
#include <span>
#include <string>

#include <sys/socket.h>

#include "actors/http/metrics_server.hpp"
#include "actors/http/web_server.hpp"
#include "tests/actors/sockets.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

namespace {

namespace net = actors::net;

/// Sends the bytes and no more; what came until the server closed.
std::string answer_of(std::uint16_t port, std::span<const std::uint8_t> request) {
  const tests::client_socket client{port};
  client.send(std::as_bytes(request));
  ::shutdown(client.fd(), SHUT_WR);
  std::string all;
  char some[4096];
  ssize_t got = 0;
  while ((got = ::recv(client.fd(), some, sizeof some, 0)) > 0)
    all.append(some, static_cast<std::size_t>(got));
  must(got == 0 || errno == ECONNRESET, "a server ends the connection of a client that has said all");
  return all;
}

int ask(std::uint16_t port, const std::uint8_t* data, std::size_t size) {
  const std::string said = answer_of(port, {data, size});
  must(said.empty() || said.starts_with("HTTP/1.1 "), "a server answers as HTTP says, or not at all");
  return 0;
}

} // namespace

int fuzz_http(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<net::web_server> server = [] {
    net::web_options options;
    options.address.port = 0;
    options.page = "<style>b{}</style><script>x</script>";
    auto opened = net::open_web_server(std::move(options));
    must(opened.has_value(), "a web server can listen");
    return std::move(*opened);
  }();
  return ask(server->port(), data, size);
}

int fuzz_metrics(const std::uint8_t* data, std::size_t size) {
  static const auto server = net::metrics_server::open({.text = [] { return std::string{"up 1\n"}; }});
  return ask(server->port(), data, size);
}

std::vector<input> http_corpus() {
  std::vector<input> out;
  for (const char* target : {"/", "/snapshot", "/events", "/metrics"})
    out.push_back(bytes_of(std::string("GET ") + target + " HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\n"));
  out.push_back(bytes_of("POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 4\r\n\r\nbody"));
  out.push_back(
      bytes_of("HEAD /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"));
  return out;
}

} // namespace troupe::fuzz
