// SPDX-License-Identifier: BSD-3-Clause
// Loss and accuracy of given parameters over a data set, in this thread.
#include "apps/evaluation.hpp"

#include <algorithm>

#include "tensor/data/batch_loader.hpp"
#include "tensor/plan.hpp"

namespace troupe::apps {

result<evaluation> evaluate_model(const model& network, const float* parameters, std::shared_ptr<const data_set> data,
                                  kernels::backend& queue, std::int64_t batch_rows, std::int64_t at_most) {
  const std::int64_t samples = std::min(data->size(), at_most);
  auto compiled = plan::compile(network, queue, {.max_rows = std::min(samples, batch_rows), .training = false});
  if (!compiled)
    return compiled.error();
  const batch_loader loader(std::move(data), 0, [&](std::size_t bytes) { return queue.allocate_host(bytes); });
  double loss = 0;
  std::int64_t counted = 0, correct = 0;
  for (std::int64_t begin = 0; begin < samples; begin += batch_rows) {
    const batch rows = loader.load_in_order(begin, std::min(begin + batch_rows, samples));
    step_args args;
    args.parameters = parameters;
    args.x = rows.x.data();
    args.labels = rows.labels.data();
    args.rows = rows.rows;
    args.counted = rows.counted;
    (*compiled)->enqueue_evaluation(args);
    queue.synchronize();
    loss += (*compiled)->outcome().loss_sum;
    counted += rows.counted;
    correct += (*compiled)->outcome().correct;
  }
  const auto n = static_cast<double>(std::max<std::int64_t>(counted, 1));
  return evaluation{loss / n, static_cast<double>(correct) / n, samples};
}

} // namespace troupe::apps
