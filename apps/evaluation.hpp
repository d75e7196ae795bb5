// SPDX-License-Identifier: BSD-3-Clause
// Loss and accuracy of given parameters over a data set, in this thread.
#pragma once

#include "kernels/backend.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

struct evaluation {
  double loss = 0;     ///< mean over the samples
  double accuracy = 0; ///< of the samples, how many have their largest logit at the label
  std::int64_t samples = 0;
};

/// `parameters` is memory of the backend's device, layout().floats() floats.
result<evaluation> evaluate_model(const model& network, const float* parameters, std::shared_ptr<const data_set> data,
                                  kernels::backend& queue);

} // namespace troupe::apps
