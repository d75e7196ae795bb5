// SPDX-License-Identifier: BSD-3-Clause
// A foreign model, as a job names it.
#include "apps/library/foreign_kind.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/checkpoint/crc32c.hpp"
#include "protocols/parameters.hpp"

namespace troupe::apps {

namespace {

using texts = std::vector<std::string>;

/// "fc.weight (10, 784)", for each.
texts described(const parameter_layout& layout) {
  texts out;
  for (const auto& slot : layout.slots)
    out.push_back(
        fmt::format("{} {}{}", slot.name, slot.dims.to_string(), slot.kind == slot_kind::statistic ? ", a statistic" : ""));
  return out;
}

/// Where the lists of two processes differ first, if they do.
std::string first_difference(const std::string& part, const texts& first, const texts& here, const std::string& remedy) {
  const auto at = std::ranges::mismatch(first, here);
  const auto said = [](const texts& all, texts::const_iterator it) { return it == all.end() ? "nothing" : "\"" + *it + "\""; };
  if (at.in1 == first.end() && at.in2 == here.end())
    return {};
  return fmt::format("the module differs between processes: its {} {} is {} in the first process and {} here; {}", part,
                     at.in1 - first.begin(), said(first, at.in1), said(here, at.in2), remedy);
}

/// Checksums of the values with which each parameter begins.
texts beginnings(const parameter_layout& layout, std::span<const float> values) {
  texts out;
  for (const auto& slot : layout.slots) {
    const auto its = values.subspan(static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(slot.elements()));
    out.push_back(fmt::format("{} of checksum {:08x}", slot.name, actors::crc32c(std::as_bytes(its))));
  }
  return out;
}

std::string other_model(const actors::parameters& first, const foreign_facts& here, const foreign_computer& by) {
  const auto& script = first.text("script");
  if (!script.empty() && !here.script.empty() && script != here.script)
    return fmt::format("the script differs between processes: the first one runs {}, and this one {}; start the same script "
                       "everywhere",
                       script, here.script);
  if (auto why = first_difference("parameter", first.texts("parameters"), described(here.layout),
                                  "every process has to build the same module");
      !why.empty())
    return why;
  const auto& values = first.texts("values");
  return values.empty() ? ""
                        : first_difference("initial parameter", values, beginnings(here.layout, by.initial()),
                                           "seed it alike, as by torch.manual_seed, or load the same weights");
}

/// A parameter that is what the first process says.
protocols::parameter_info said_by_the_first(std::string name, protocols::spec_value value, std::string meaning) {
  return {.name = std::move(name),
          .default_value = std::move(value),
          .meaning = std::move(meaning),
          .validate = [](const protocols::spec_value&) { return std::string{}; }};
}

} // namespace

actors::extensions foreign_extensions(const foreign_facts& has, std::shared_ptr<foreign_computer> by) {
  actors::extensions out;
  const auto values = has.same_start ? beginnings(has.layout, by->initial()) : texts{};
  out.models.push_back(
      {.name = foreign_name,
       .summary = "computed by the program that the library is a part of",
       .parameters = {said_by_the_first("parameters", described(has.layout), "name and shape of each"),
                      said_by_the_first("values", values, "with which each begins, where that has to be the same"),
                      said_by_the_first("script", has.script, "which program computes it")},
       .build = [has, by](const actors::parameters& given, const data_format&) -> result<model> {
         if (auto why = other_model(given, has, *by); !why.empty())
           return error{errc::bad_model, std::move(why)};
         return model::foreign(has.layout, by);
       }});
  out.sources.push_back(
      {.name = foreign_name,
       .summary = "numbers of rows that the program has",
       .parameters = {said_by_the_first("samples", has.samples, "rows that are trained on"),
                      said_by_the_first("tests", has.tests, "rows behind them that are tested with")},
       .load = [samples = has.samples, tests = has.tests](const actors::parameters& given, std::uint64_t) -> result<data_pair> {
         if (given.integer("samples") != samples || given.integer("tests") != tests)
           return error{errc::bad_option,
                        fmt::format("the first process has {} samples and {} to test with, and this one {} and {}; "
                                    "every process has to read the same data",
                                    given.integer("samples"), given.integer("tests"), samples, tests)};
         data_pair out;
         out.train = foreign_rows(0, samples);
         out.test = foreign_rows(samples, tests);
         return out;
       }});
  return out;
}

} // namespace troupe::apps
