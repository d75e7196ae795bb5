// SPDX-License-Identifier: BSD-3-Clause
// Draws in place and restores the terminal.
#include "apps/console/terminal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "apps/console/keys.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

constexpr auto redraw_every = std::chrono::seconds{1};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool shows_unicode(bool terminal) {
  if (const auto kind = variable("TERM"); terminal && (kind == "linux" || kind == "dumb"))
    return false;
  for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const auto locale = variable(name); !locale.empty())
      return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  return false;
}

/// The letters of a line, at most `width`, without control characters, which would move the cursor.
std::string cut(std::string_view line, std::size_t width) {
  std::string out{first_letters(line, width)};
  std::ranges::replace_if(
      out, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, '?');
  return out;
}

void put(std::string_view text) {
  while (!text.empty()) {
    const auto put = write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno != EINTR)
      return; // the terminal is gone; reading from it will say so
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
  }
}

constexpr std::array watched{SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT};

/// The terminal's alternate screen, without cursor and echo; every key counts. The destructor restores the terminal and then
/// raises a signal that ends the process.
class borrowed_terminal {
public:
  borrowed_terminal() {
    tcgetattr(STDIN_FILENO, &before_);
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    put("\x1b[?1049h\x1b[?25l");
  }
  borrowed_terminal(const borrowed_terminal&) = delete;
  borrowed_terminal& operator=(const borrowed_terminal&) = delete;
  ~borrowed_terminal() {
    put("\x1b[?25h\x1b[?1049l");
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
    if (ends_ != 0)
      keys_.carry_out(ends_);
  }

  /// Waits for a key until then. False: there is one, or the process shall end. A resized window ends the wait early.
  bool rest_until(std::chrono::steady_clock::time_point then) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(then - std::chrono::steady_clock::now());
    const auto woken = keys_.wait(static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (woken.signal != 0 && woken.signal != SIGWINCH)
      ends_ = woken.signal;
    if (!woken.key)
      return ends_ == 0;
    std::array<char, 64> pressed{}; // one key may send several bytes
    [[maybe_unused]] const auto taken = read(STDIN_FILENO, pressed.data(), pressed.size());
    return false;
  }

private:
  key_waiter keys_{watched};
  termios before_{};
  int ends_ = 0;
};

/// `left` and `right` at the edges of a line.
std::string spread(const std::string& left, const std::string& right, std::size_t width) {
  const auto used = letters(left) + letters(right);
  return used < width ? left + std::string(width - used, ' ') + right : left;
}

} // namespace

screen current_screen() {
  screen out;
  out.terminal = isatty(STDOUT_FILENO) == 1;
  out.unicode = shows_unicode(out.terminal);
  winsize size{};
  if (out.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    out.width = size.ws_col;
    out.height = size.ws_row;
  } else if (const auto columns = std::atoi(std::string{variable("COLUMNS")}.c_str()); columns > 0) {
    out.width = static_cast<std::size_t>(columns);
  }
  return out;
}

std::string frame(const std::string& title, const std::string& text, const screen& on) {
  std::vector<std::string> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    lines.push_back(cut(rest.substr(0, end), on.width));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto room = std::max<std::size_t>(on.height, 2) - 1;
  if (lines.size() > room) {
    const auto hidden = lines.size() - room + 1;
    lines.resize(room);
    lines.back() = cut(fmt::format("({} more {})", hidden, hidden == 1 ? "line" : "lines"), on.width);
  }
  auto out = fmt::format("\x1b[H\x1b[7m{}\x1b[0m", cut(spread(title, "", on.width), on.width));
  for (const auto& line : lines) // behind a full line the cursor still stands on its last letter
    out += "\r\n" + line + (letters(line) < on.width ? "\x1b[K" : "");
  return lines.size() < room ? out + "\r\n\x1b[J" : out;
}

answer redraw(const std::string& title, const std::function<answer()>& look) {
  borrowed_terminal terminal;
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + redraw_every;
    auto now = look();
    if (now.wrong)
      return now;
    const auto clock = fmt::format("{:%H:%M:%S}  any key ends this", fmt::localtime(std::time(nullptr)));
    const auto on = current_screen();
    put(frame(spread(title, clock, on.width), now.text, on));
    if (!terminal.rest_until(next))
      return now;
  }
}

} // namespace troupe::apps::console
