// SPDX-License-Identifier: BSD-3-Clause
// libedit waits for the next key whatever signal comes: it can only be left by a jump.
#include "apps/console/line.hpp"

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <editline/readline.h>
#include <pthread.h>

namespace troupe::apps::console {

namespace {

sigjmp_buf before_the_line;
volatile std::sig_atomic_t may_jump = 0, came = 0;
pthread_t reader; // who waits for the line

/// On any thread of the process, of which only the reader may jump.
void on_interrupt(int) {
  if (pthread_equal(pthread_self(), reader) == 0) {
    pthread_kill(reader, SIGINT);
    return;
  }
  came = 1;
  if (may_jump != 0)
    siglongjmp(before_the_line, 1);
}

/// Null also where Ctrl-C came. Nothing here needs destroying: the jump would not.
char* line_or_null(const char* prompt) {
  if (sigsetjmp(before_the_line, 1) != 0) {
    may_jump = 0;
    return nullptr;
  }
  may_jump = 1;
  char* const read = readline(prompt);
  may_jump = 0;
  return read;
}

} // namespace

typed_line read_line(const std::string& prompt) {
  struct sigaction ours = {};
  ours.sa_handler = on_interrupt;
  came = 0;
  reader = pthread_self();
  sigaction(SIGINT, &ours, nullptr); // for good: libedit's own handler sends the signal on, and that may be late
  char* const read = line_or_null(prompt.c_str());
  typed_line out{.given_up = came != 0};
  if (read != nullptr && !out.given_up)
    out.text = read;
  std::free(read);
  if (!out.text)
    std::puts(out.given_up ? "^C" : "");
  return out;
}

uninterrupted::uninterrupted() { may_jump = 0; }

uninterrupted::~uninterrupted() { may_jump = 1; }

} // namespace troupe::apps::console
