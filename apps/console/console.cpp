// SPDX-License-Identifier: BSD-3-Clause
// `troupe console`: asks a running cluster what it does and why, from a prompt or a script.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/cluster_connection.hpp"
#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/console/commands.hpp"
#include "apps/console/talk.hpp"
#include "apps/report.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::apps {

namespace {

/// One object per command; the exit code says whether all of them succeeded.
int script(console::session& client, const std::vector<std::string>& lines, bool json) {
  int code = exit_done;
  for (const auto& line : lines) {
    const auto out = console::carry_out(client, line);
    if (json)
      print_json(out.json);
    else
      fmt::print(out.wrong ? stderr : stdout, "{}", out.text);
    if (out.wrong)
      code = exit_failed;
  }
  return code;
}

std::vector<std::string> lines_of_input() {
  std::vector<std::string> lines;
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, stdin) > 0)
    if (std::string text{line, strcspn(line, "\n")}; !text.empty())
      lines.push_back(std::move(text));
  std::free(line);
  return lines;
}

int talk_to(cluster_connection&& connection, const console_options& options) {
  if (!connection) {
    fmt::print(stderr, "troupe: {}\n", connection.why_not());
    return exit_failed;
  }
  const bool interactive = options.commands.empty() && isatty(STDIN_FILENO) == 1;
  console::session client{connection, interactive};
  if (!interactive)
    return script(client, options.commands.empty() ? lines_of_input() : options.commands, options.json);
  console::talk(client);
  return exit_done;
}

} // namespace

int execute(const console_options& options) {
  if (options.address.empty() == options.cluster.empty())
    return refuse({{{"console", "needs HOST:PORT, where a coordinator listens, or --cluster CLUSTER.toml"}}});
  if (options.cluster.empty()) {
    const auto colon = options.address.rfind(':');
    const auto tail = std::string_view(options.address).substr(colon == std::string::npos ? options.address.size() : colon + 1);
    const auto port = parse_number<std::uint16_t>(tail).value_or(std::uint16_t{0});
    if (port == 0 || colon == 0)
      return refuse({{{options.address, "is no HOST:PORT, such as 127.0.0.1:4000; a run prints its own"}}});
    return talk_to(cluster_connection{options.address.substr(0, colon), port}, options);
  }
  const auto where = config::load_cluster(options.cluster);
  return where ? talk_to(cluster_connection{*where}, options) : refuse(where.error());
}

} // namespace troupe::apps
