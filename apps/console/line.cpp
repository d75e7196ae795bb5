// SPDX-License-Identifier: BSD-3-Clause
// libedit edits the line; this waits for its keys and for signals.
#include "apps/console/line.hpp"

#include <array>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>

#include <editline/readline.h>
#include <unistd.h>

#include "apps/console/keys.hpp"

namespace troupe::apps::console {

namespace {

constexpr std::array watched{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};

/// libedit calls plain functions, so these are globals: the waiter of the line being edited, and the signal that ended it.
key_waiter* waiter = nullptr;
int ended_by = 0;

/// Handles a signal that does not end the line; false: this one does.
bool handled(int signal) {
  switch (signal) {
  case SIGWINCH:
    rl_resize_terminal();
    return true;
  case SIGTSTP:
    rl_deprep_terminal();
    waiter->carry_out(signal);
    [[fallthrough]];
  case SIGCONT: // another process may have changed the terminal, and libedit would not notice
    rl_deprep_terminal();
    rl_prep_terminal(1);
    rl_forced_update_display();
    return true;
  default:
    return false;
  }
}

/// The next letter, which may be of several bytes; -1 ends the line.
int next_letter(FILE*) {
  std::mbstate_t begun{};
  while (ended_by == 0) {
    const auto woken = waiter->wait(-1);
    if (woken.signal != 0 && !handled(woken.signal))
      ended_by = woken.signal;
    if (!woken.key)
      continue;
    char byte = 0;
    if (read(STDIN_FILENO, &byte, 1) != 1)
      return -1;
    wchar_t letter = 0;
    switch (std::mbrtowc(&letter, &byte, 1, &begun)) {
    case static_cast<std::size_t>(-1): // no letter in this locale
      begun = {};
      break;
    case static_cast<std::size_t>(-2): // goes on
      break;
    default:
      return static_cast<int>(letter);
    }
  }
  return -1;
}

} // namespace

void prepare_lines() {
  rl_getc_function = next_letter;
  rl_catch_signals = 0;
  rl_completion_query_items = INT_MAX; // libedit would wait for the answer by itself
  std::signal(SIGINT, SIG_IGN);
}

typed_line read_line(const std::string& prompt) {
  key_waiter keys{watched};
  waiter = &keys;
  ended_by = 0;
  char* const read = readline(prompt.c_str());
  typed_line out{.given_up = ended_by == SIGINT};
  if (read != nullptr && ended_by == 0)
    out.text = read;
  std::free(read);
  if (!out.text)
    std::puts(out.given_up ? "^C" : "");
  if (ended_by != 0 && !out.given_up) {
    std::fflush(stdout);
    keys.carry_out(ended_by);
  }
  return out;
}

} // namespace troupe::apps::console
