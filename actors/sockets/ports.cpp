// SPDX-License-Identifier: BSD-3-Clause
// Tests ports by using them.
#include "actors/sockets/ports.hpp"

#include <system_error>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>

#include "actors/sockets/socket_options.hpp"

namespace troupe::actors::net {

using boost::asio::ip::tcp;

std::string cannot_listen(const std::string& host, std::uint16_t port) try {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io);
  listen_at(acceptor, host, port);
  return {};
} catch (const std::system_error& e) {
  return e.what();
}

bool somebody_listens(const std::string& host, std::uint16_t port) {
  boost::asio::io_context io;
  boost::system::error_code failed;
  const auto ends = tcp::resolver(io).resolve(host, std::to_string(port), failed);
  tcp::socket socket(io);
  if (!failed)
    boost::asio::connect(socket, ends, failed);
  return !failed;
}

bool somebody_listens_within(std::chrono::milliseconds patience, const std::string& host, std::uint16_t port) {
  boost::asio::io_context io;
  boost::system::error_code failed;
  const auto ends = tcp::resolver(io).resolve(host, std::to_string(port), failed);
  if (failed)
    return false;
  tcp::socket socket(io);
  bool answered = false;
  boost::asio::async_connect(socket, ends, [&](const boost::system::error_code& e, const tcp::endpoint&) { answered = !e; });
  io.run_for(patience);
  return answered;
}

} // namespace troupe::actors::net
