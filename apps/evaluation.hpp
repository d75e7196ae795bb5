// SPDX-License-Identifier: BSD-3-Clause
// Loss and accuracy of given parameters over a data set, in this thread.
#pragma once

#include <limits>

#include "kernels/backend.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

struct evaluation {
  double loss = 0;     ///< mean over the predictions whose label is not ignored
  double accuracy = 0; ///< share of these whose largest logit is the label's
  std::int64_t samples = 0;
};

/// `parameters`: layout().floats() floats of the backend's memory. Over the first `at_most` samples,
/// `batch_rows` at a time.
result<evaluation> evaluate_model(const model& network, const float* parameters, std::shared_ptr<const data_set> data,
                                  kernels::backend& queue, std::int64_t batch_rows,
                                  std::int64_t at_most = std::numeric_limits<std::int64_t>::max());

} // namespace troupe::apps
