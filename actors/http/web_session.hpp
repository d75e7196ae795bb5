// SPDX-License-Identifier: BSD-3-Clause
// One connection of a browser: a request, and its answer.
#pragma once

#include <array>
#include <memory>
#include <string>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "actors/http/web_server.hpp"

namespace troupe::actors::net {

/// Lives until its owner releases it in `on_ended`. All calls are on the owner's thread.
class web_session : public std::enable_shared_from_this<web_session> {
public:
  /// The server that owns the connections. Outlives them.
  class owner {
  public:
    virtual const web_options& options() const = 0;
    /// The page's Content-Security-Policy.
    virtual const std::string& policy() const = 0;
    /// The last published state.
    virtual std::shared_ptr<const std::string> newest() const = 0;
    /// Whether to close a subscriber once it has the newest state.
    virtual bool ending() const = 0;
    virtual void on_ended(const std::shared_ptr<web_session>& session) = 0;

  protected:
    ~owner() = default;
  };

  web_session(boost::asio::ip::tcp::socket socket, owner& server);

  void begin();
  /// A new state was published, or the server is ending.
  void on_published();

private:
  void answer();
  /// Writes head and body, then ends.
  void reply(std::string status, std::string type, std::shared_ptr<const std::string> body, std::string more_fields = {});
  void refuse(std::string status, std::string why, std::string more_fields = {});
  void subscribe();
  void send_newest();
  /// A subscriber sends nothing more; reading detects that it has closed.
  void watch_for_the_end();
  void write(std::shared_ptr<const std::string> body, void (web_session::*then)());
  void leave();
  void read_to_the_end();
  void end();

  boost::beast::tcp_stream stream_;
  owner& owner_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  std::string head_; ///< written before `body_`
  std::shared_ptr<const std::string> body_, sent_;
  std::array<char, 64> ignored_{};
  bool subscribed_ = false, writing_ = false, ended_ = false;
};

} // namespace troupe::actors::net
