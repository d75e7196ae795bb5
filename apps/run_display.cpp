// SPDX-License-Identifier: BSD-3-Clause
// Drawing and logging a run.
#include "apps/run_display.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/report.hpp"
#include "apps/run_progress.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;

/// Progress that cannot be written (a full disk, a closed terminal) is lost; the run is not.
template <class... Args>
void say(fmt::format_string<Args...> form, Args&&... args) {
  std::fputs(fmt::format(form, std::forward<Args>(args)...).c_str(), stderr);
}

/// Whether the terminal can redraw in place.
bool can_redraw() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && kind != std::string_view{"dumb"};
}

/// Letters in a row of the terminal.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  return known ? size.ws_col : std::numeric_limits<std::size_t>::max();
}

/// Adds `fields` to `lines`, as many on each line as fit; a field that fits one line is not cut.
void wrap_fields(std::vector<std::string>& lines, const std::vector<std::string>& fields, std::size_t columns) {
  constexpr std::string_view indent = "  ", between = "   ";
  std::string line;
  for (const std::string& field : fields) {
    const bool fits = !line.empty() && letters(line) + between.size() + letters(field) <= columns;
    if (!fits && !line.empty())
      lines.push_back(line);
    line = fits ? fmt::format("{}{}{}", line, between, field) : fmt::format("{}{}", indent, field);
  }
  lines.push_back(line);
}

std::string duration_text(double seconds) {
  auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60)
    return fmt::format("{} s", whole);
  return fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

} // namespace

run_display::run_display(const actors::job& job, bool quiet, const std::string& log, signal_waiter& signals,
                         std::function<void(const std::string&)> lines)
    : job_(job), quiet_(quiet), terminal_(can_redraw()), signals_(signals), lines_(std::move(lines)) {
  if (!log.empty() && !(log_ = std::fopen(log.c_str(), "we")))
    throw std::runtime_error(fmt::format("--log {}: {}", log, std::strerror(errno)));
  if (terminal_ && !quiet_)
    unechoed_.emplace();
}

run_display::~run_display() {
  if (log_)
    std::fclose(log_);
}

void run_display::on_started(std::int64_t data_size) {
  std::lock_guard guard{mutex_};
  runs_ = true;
  data_size_ = std::max<std::int64_t>(data_size, 1);
  if (!quiet_ && !terminal_)
    say("job {}: {} worker(s), {} shard(s), {} node(s), protocol {}\n", job_.name, job_.cluster.workers, job_.cluster.shards,
        job_.cluster.nodes, job_.protocol.name);
}

void run_display::on_progress(const actors::progress& p) {
  std::lock_guard guard{mutex_};
  progress_ = p;
  auto pause = terminal_ ? 100ms : 1000ms;
  if (clock::now() - drawn_ < pause)
    return;
  drawn_ = clock::now();
  draw();
  write_log(boost::json::serialize(boost::json::object{{"kind", "progress"},
                                                       {"step", p.step},
                                                       {"samples", p.samples},
                                                       {"epoch", p.epoch},
                                                       {"seconds", p.seconds},
                                                       {"train_loss", finite_or_null(p.train_loss)}}));
}

void run_display::on_evaluation(const actors::evaluation_point& e) {
  std::lock_guard guard{mutex_};
  evaluation_ = e;
  evaluations_.push_back({e.seconds, e.train_loss, e.test_accuracy});
  if (!quiet_ && terminal_)
    draw();
  else if (!quiet_)
    say("step {:<7} epoch {:.2f}  evaluated: train loss {:.4f}{}, test loss {:.4f}, test accuracy {:.4f}  ({:.1f} s)\n", e.step,
        static_cast<double>(e.samples) / static_cast<double>(data_size_), e.train_loss,
        e.validation_loss ? fmt::format(", validation loss {:.4f}", *e.validation_loss) : "", e.test_loss, e.test_accuracy,
        e.seconds);
  boost::json::object line{{"kind", "evaluation"}};
  const auto fields = to_json(e);
  line.insert(fields.begin(), fields.end());
  write_log(boost::json::serialize(line));
}

void run_display::on_event(const std::string& text) {
  std::lock_guard guard{mutex_};
  if (!quiet_) {
    erase();
    say("troupe: {}\n", text);
    if (terminal_)
      draw();
  }
  write_log(boost::json::serialize(boost::json::object{{"kind", "event"}, {"text", text}}));
}

void run_display::on_finished(actors::job_result result) {
  {
    std::lock_guard guard{mutex_};
    if (terminal_ && !quiet_)
      draw();
    runs_ = false;
    result_ = std::move(result);
  }
  signals_.announce();
}

bool run_display::job_runs() {
  std::lock_guard guard{mutex_};
  return runs_;
}

std::optional<actors::job_result> run_display::take_result() {
  std::lock_guard guard{mutex_};
  return std::exchange(result_, std::nullopt);
}

curve run_display::evaluations() {
  std::lock_guard guard{mutex_};
  return evaluations_;
}

void run_display::drop_typed() {
  if (unechoed_)
    unechoed_->drop_typed();
}

void run_display::leave_terminal() {
  unechoed_.reset();
}

void run_display::write_log(const std::string& line) {
  if (lines_)
    lines_(line);
  if (!log_)
    return;
  if (std::fprintf(log_, "%s\n", line.c_str()) < 0 || std::fflush(log_) != 0) {
    say("troupe: the log cannot be written any more ({}); the run goes on without it\n", std::strerror(errno));
    std::fclose(std::exchange(log_, nullptr));
  }
}

double run_display::fraction_done() const {
  return apps::fraction_done(job_, *progress_);
}

/// The bar takes what the numbers leave.
std::string run_display::bar_line(std::size_t columns) const {
  constexpr std::size_t widest = 32, narrowest = 4, frame = 3;
  const auto numbers = fmt::format("  {:3.0f} %  left {}", 100 * fraction_done(), time_left());
  const auto taken = letters(job_.name) + frame + numbers.size();
  if (columns < taken + narrowest)
    return job_.name + numbers;
  const auto width = std::min(widest, columns - taken);
  const auto filled = static_cast<std::size_t>(fraction_done() * static_cast<double>(width));
  return fmt::format("{} [{}{}]{}", job_.name, std::string(filled, '#'), std::string(width - filled, '-'), numbers);
}

std::string run_display::time_left() const {
  auto done = fraction_done();
  return done > 0 ? duration_text(progress_->seconds * (1 - done) / done) : "?";
}

void run_display::erase() {
  if (lines_drawn_ > 0)
    say("\r\x1b[{}A\x1b[J", lines_drawn_);
  lines_drawn_ = 0;
}

void run_display::draw() {
  if (quiet_ || !progress_)
    return;
  const auto& p = *progress_;
  auto speed = p.seconds > 0 ? static_cast<double>(p.samples) / p.seconds : 0;
  auto accuracy = evaluation_ ? fmt::format("{:.4f}", evaluation_->test_accuracy) : "-";
  if (!terminal_) {
    say("step {:<7} epoch {:.2f}  loss {:.4f}  {:.0f} samples/s  {:.1f} s\n", p.step, p.epoch, p.train_loss, speed, p.seconds);
    return;
  }
  erase();
  auto slowest = p.slowest_worker ? fmt::format("worker {}, {:.1f} ms a step", *p.slowest_worker, p.slowest_ms) : "-";
  const auto columns = terminal_columns();
  std::vector<std::string> lines{bar_line(columns)};
  wrap_fields(lines,
              {fmt::format("step {}", p.step), fmt::format("epoch {:.2f}", p.epoch), fmt::format("loss {:.4f}", p.train_loss),
               "test accuracy " + accuracy},
              columns);
  wrap_fields(lines, {fmt::format("{:.0f} samples/s", speed), "slowest: " + slowest}, columns);
  for (const std::string& line : lines)
    say("{}\n", first_letters(line, columns)); // a second row would not be erased with it
  lines_drawn_ = lines.size();
}

} // namespace troupe::apps
