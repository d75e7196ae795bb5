// SPDX-License-Identifier: BSD-3-Clause
// The step on the mean of what workers moved by in several local steps: the average (Stich 2019), block momentum (Chen & Huo
// 2016), Nesterov momentum (DiLoCo: Douillard et al. 2023).
#pragma once

#include <string>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// The parameters that say how it is taken. A movement is w - w_i, with the sign of a gradient: learning rate 1 and no momentum
/// give the mean of the workers' parameters.
struct outer_parameters {
  parameter<std::string> outer = choice_parameter("outer", "average", {"average", "momentum", "nesterov"},
                                                  "the step that is taken with the mean of what workers moved by");
  parameter<double> lr = real_parameter("outer_lr", 0, {.least = 0}, "its learning rate; 0: 1, with nesterov 0.7");
  parameter<double> momentum = real_parameter("outer_momentum", 0.9, {.least = 0, .most = 1, .open_most = true}, "its momentum");

  bool averages(const protocol_spec& spec) const { return outer.of(spec) == "average"; }
  step_rule of(const protocol_spec& spec) const {
    step_rule out{.method = step_rule::kind::outer};
    out.nesterov = outer.of(spec) == "nesterov";
    out.lr = lr.of(spec) > 0 ? lr.of(spec) : out.nesterov ? 0.7 : 1;
    out.momentum = averages(spec) ? 0 : momentum.of(spec);
    return out;
  }
  /// Empty if they go together.
  std::string problem(const protocol_spec& spec) const {
    const step_rule how = of(spec);
    return how.nesterov && how.momentum == 0
               ? "outer_momentum is 0, and outer = \"nesterov\" looks ahead along it; give one above 0"
               : "";
  }
};

} // namespace troupe::protocols
