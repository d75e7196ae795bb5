// SPDX-License-Identifier: BSD-3-Clause
// A foreign model, as a job names it.
#include "apps/library/foreign_kind.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

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

/// Where two models differ first, if they do.
std::string first_difference(const texts& first, const texts& here) {
  const auto at = std::ranges::mismatch(first, here);
  const auto said = [](const texts& all, texts::const_iterator it) { return it == all.end() ? "nothing" : "\"" + *it + "\""; };
  if (at.in1 == first.end() && at.in2 == here.end())
    return {};
  return fmt::format("the module differs between processes: its parameter {} is {} in the first process and {} here; every "
                     "process has to build the same module",
                     at.in1 - first.begin(), said(first, at.in1), said(here, at.in2));
}

/// A parameter that is what the first process says.
protocols::parameter_info said_by_the_first(std::string name, protocols::spec_value value, std::string meaning) {
  return {.name = std::move(name),
          .default_value = std::move(value),
          .meaning = std::move(meaning),
          .validate = [](const protocols::spec_value&) { return std::string{}; }};
}

} // namespace

actors::extensions foreign_extensions(const parameter_layout& layout, std::int64_t samples, std::int64_t tests,
                                      std::shared_ptr<foreign_computer> by) {
  const auto own = described(layout);
  actors::extensions out;
  out.models.push_back({.name = foreign_name,
                        .summary = "computed by the program that the library is a part of",
                        .parameters = {said_by_the_first("parameters", own, "name and shape of each")},
                        .build = [layout, own, by](const actors::parameters& given, const data_format&) -> result<model> {
                          if (auto why = first_difference(given.texts("parameters"), own); !why.empty())
                            return error{errc::bad_model, std::move(why)};
                          return model::foreign(layout, by);
                        }});
  out.sources.push_back({.name = foreign_name,
                         .summary = "numbers of rows that the program has",
                         .parameters = {said_by_the_first("samples", samples, "rows that are trained on"),
                                        said_by_the_first("tests", tests, "rows behind them that are tested with")},
                         .load = [samples, tests](const actors::parameters& given, std::uint64_t) -> result<data_pair> {
                           if (given.integer("samples") != samples || given.integer("tests") != tests)
                             return error{
                                 errc::bad_option,
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
