// SPDX-License-Identifier: BSD-3-Clause
// The functions of the C library: from C's types to a library_run, and no exception beyond.
#include "apps/library/troupe.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/version.hpp"
#include "apps/application.hpp"
#include "apps/library/library_run.hpp"
#include "apps/library/listing.hpp"

/// A run, as its caller holds it.
struct troupe_run {
  explicit troupe_run(troupe::apps::library_options options) : run(std::move(options)) {
    for (const auto& slot : run.layout().slots)
      extents.push_back(slot.dims.extents());
  }

  troupe::apps::library_run run;
  std::vector<std::vector<std::int64_t>> extents; ///< by parameter
  std::string why;                                ///< the last call failed
  std::string line;                               ///< the last one given
  std::optional<troupe::foreign_task> task;       ///< that the caller computes
  std::array<troupe::kernels::buffer, 3> blocks;  ///< of the last task
};

namespace {

using troupe::parameter_layout;
using troupe::slot_kind;
using namespace troupe::apps;

std::vector<std::string> texts_of(const char* const* list) {
  std::vector<std::string> out;
  for (; list != nullptr && *list != nullptr; ++list)
    out.emplace_back(*list);
  return out;
}

std::string text_of(const char* given) {
  return given == nullptr ? "" : given;
}

troupe::shape dims_of(const troupe_parameter& p) {
  if (p.rank < 0 || (p.rank > 0 && p.extents == nullptr))
    throw std::runtime_error(fmt::format("parameter {} has no extents", p.name));
  std::vector<std::int64_t> extents(p.extents, p.extents + p.rank);
  if (extents.empty())
    extents.push_back(1);
  if (std::ranges::any_of(extents, [](auto extent) { return extent < 1; }))
    throw std::runtime_error(fmt::format("parameter {} has no elements; leave it out", p.name));
  return troupe::shape{std::move(extents)};
}

foreign_shape shape_of(const troupe_model& model) {
  constexpr std::int64_t most_rows = (std::int64_t{1} << 31) - 1;
  if (model.samples < 1 || model.tests < 1 || model.samples > most_rows - model.tests)
    throw std::runtime_error(
        fmt::format("a model needs at least 1 sample and 1 row to test with, below 2^31 together; it has {} and {}",
                    model.samples, model.tests));
  if (model.count == 0)
    throw std::runtime_error("the model has no parameters, so there is nothing to learn");
  foreign_shape out{.facts = {.layout = {}, .samples = model.samples, .tests = model.tests, .script = text_of(model.script)},
                    .initial = {},
                    .own_optimizer = model.own_optimizer != 0};
  auto& layout = out.facts.layout;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < model.count; ++i) {
    const auto& p = model.parameters[i];
    if (p.name == nullptr || *p.name == '\0')
      throw std::runtime_error(fmt::format("parameter {} has no name", i));
    if (layout.find(p.name) >= 0)
      throw std::runtime_error(fmt::format("there are two parameters \"{}\"", p.name));
    troupe::parameter_slot slot{.name = p.name, .dims = dims_of(p), .offset = offset, .init = {}};
    slot.kind = static_cast<slot_kind>(p.kind);
    slot.decay = slot.kind == slot_kind::trained;
    offset = troupe::align_up(offset + slot.elements());
    layout.slots.push_back(std::move(slot));
  }
  out.initial.resize(static_cast<std::size_t>(offset));
  for (std::size_t i = 0; i < model.count; ++i)
    if (const auto* values = model.parameters[i].values; values != nullptr)
      std::copy_n(values, layout.slots[i].elements(), out.initial.begin() + layout.slots[i].offset);
  return out;
}

library_options options_of(const troupe_options& given) {
  if (given.size != sizeof(troupe_options))
    throw std::runtime_error(
        fmt::format("this is version {} of the library, and its caller was made for another; install both from "
                    "one package",
                    troupe::actors::version));
  library_options out;
  out.job = text_of(given.job);
  out.sets = texts_of(given.set);
  if (given.model != nullptr)
    out.model = shape_of(*given.model);
  out.program = texts_of(given.program);
  out.node = text_of(given.node);
  out.loud = given.loud != 0;
  out.cluster = {text_of(given.cluster), text_of(given.certs), given.insecure != 0};
  if (given.wait_s > 0)
    out.patience = std::chrono::seconds{given.wait_s};
  if (!out.node.empty() && !out.model)
    throw std::runtime_error("a process with TROUPE_NODE computes a model, and this has none; unset it");
  return out;
}

/// Does what a call is for. Exceptions become the run's error.
template <class Call>
int guarded(troupe_run* run, Call call) {
  run->why.clear();
  try {
    if (!run->run.is_ours())
      throw std::runtime_error("this process is a fork of the one that opened the run, and has no part in it; open the run after "
                               "forking, or start processes by spawning");
    return call();
  } catch (const std::exception& e) {
    run->why = e.what();
    return TROUPE_ERROR;
  }
}

std::chrono::milliseconds patience_of(int timeout_ms) {
  return std::chrono::milliseconds{timeout_ms < 0 ? 1'000'000'000 : timeout_ms};
}

} // namespace

const char* troupe_version(void) {
  return troupe::actors::version;
}

const char* troupe_listing(void) {
  static const std::string text = boost::json::serialize(listing());
  return text.c_str();
}

int troupe_main(int argc, char** argv) {
  return troupe::application{}.main(argc, argv);
}

troupe_run* troupe_open(const troupe_options* options, char* why, size_t room) {
  try {
    return new troupe_run(options_of(*options));
  } catch (const std::exception& e) {
    if (room > 0) {
      const auto length = std::min(room - 1, std::strlen(e.what()));
      std::memcpy(why, e.what(), length);
      why[length] = '\0';
    }
    return nullptr;
  }
}

int troupe_follow(troupe_run* run, const char** line, int timeout_ms) {
  return guarded(run, [&]() -> int {
    const bool over = run->run.over(); // before the lines are looked at: it adds none afterwards
    auto next = run->run.next_line(patience_of(timeout_ms));
    if (!next)
      return over ? TROUPE_OVER : TROUPE_TIMEOUT;
    run->line = std::move(*next);
    *line = run->line.c_str();
    return TROUPE_LINE;
  });
}

int troupe_next(troupe_run* run, troupe_task* task, int timeout_ms) {
  return guarded(run, [&]() -> int {
    if (run->task)
      throw std::runtime_error("the last step has not ended: call troupe_done for each task before the next one");
    const bool over = run->run.over();
    run->task = run->run.tasks().next(over ? std::chrono::milliseconds{0} : patience_of(timeout_ms));
    if (const auto why = run->task ? std::string{} : run->run.cut_short(); !why.empty())
      throw std::runtime_error(why);
    if (!run->task)
      return over || run->run.over() ? TROUPE_OVER : TROUPE_TIMEOUT;
    const auto& its = *run->task;
    run->blocks = its.blocks;
    *task = {its.rows.data(), its.rows.size(), its.parameters, its.gradients, its.worker};
    return its.training ? TROUPE_STEP : TROUPE_EVALUATE;
  });
}

int troupe_ready(troupe_run* run, size_t parameter) {
  return guarded(run, [&] {
    if (!run->task || !run->task->training)
      throw std::runtime_error("there is no step under way whose gradient could be ready");
    if (parameter >= run->run.layout().slots.size())
      throw std::runtime_error(fmt::format("there is no parameter {}: they are counted from 0, and there are {}", parameter,
                                           run->run.layout().slots.size()));
    run->task->ready(static_cast<int>(parameter));
    return TROUPE_OVER;
  });
}

int troupe_done(troupe_run* run, double loss_sum, int64_t counted, int64_t correct) {
  return guarded(run, [&] {
    if (!run->task)
      throw std::runtime_error("there is no step under way that could be done; call troupe_next for one");
    if (counted < 0 || correct < 0 || correct > counted)
      throw std::runtime_error(fmt::format("of {} predictions {} cannot be correct", counted, correct));
    std::exchange(run->task, std::nullopt)->done({.loss_sum = loss_sum, .counted = counted, .correct = correct});
    return TROUPE_OVER;
  });
}

int troupe_fail(troupe_run* run, const char* why) {
  return guarded(run, [&] {
    run->task.reset();
    run->run.leave(why);
    return TROUPE_OVER;
  });
}

int troupe_joined(troupe_run* run) {
  return run->run.joined() ? 1 : 0;
}

const char* troupe_result(troupe_run* run) {
  const auto& text = run->run.result();
  return text.empty() ? nullptr : text.c_str();
}

size_t troupe_parameter_count(troupe_run* run) {
  return run->run.layout().slots.size();
}

int troupe_parameter_at(troupe_run* run, size_t index, troupe_parameter* out) {
  return guarded(run, [&] {
    const auto& slots = run->run.layout().slots;
    if (index >= slots.size())
      throw std::runtime_error(
          fmt::format("there is no parameter {}: they are counted from 0, and there are {}", index, slots.size()));
    const auto& slot = slots[index];
    const auto* flat = run->run.parameters();
    *out = {slot.name.c_str(), run->extents[index].data(), static_cast<std::int32_t>(run->extents[index].size()),
            static_cast<std::int32_t>(slot.kind), flat == nullptr ? nullptr : flat + slot.offset};
    return TROUPE_OVER;
  });
}

int64_t troupe_offset(troupe_run* run, size_t index) {
  const auto& slots = run->run.layout().slots;
  return index < slots.size() ? slots[index].offset : -1;
}

const char* troupe_error(troupe_run* run) {
  return run->why.c_str();
}

void troupe_stop(troupe_run* run) {
  if (run->run.is_ours())
    run->run.stop();
}

void troupe_close(troupe_run* run) {
  if (run != nullptr && run->run.is_ours())
    delete run;
}
