/* SPDX-License-Identifier: BSD-3-Clause */
/* A model that this program computes, trained through libtroupe: y = w x + b, by least squares, in two runs of one process. */
#include <stdio.h>
#include <string.h>

#include <troupe.h>

enum { samples = 1000, tests = 200, inputs = 2 };

static float x[samples + tests][inputs], y[samples + tests];

/* Points of y = 2 x0 - 3 x1 + 1. */
static void draw(void) {
  unsigned state = 1;
  for (int i = 0; i < samples + tests; ++i) {
    for (int j = 0; j < inputs; ++j) {
      state = state * 1664525u + 1013904223u;
      x[i][j] = (float)(state >> 8) / (1 << 23) - 1;
    }
    y[i] = 2 * x[i][0] - 3 * x[i][1] + 1;
  }
}

/* The loss of a task's rows, summed, and where it trains the gradients of their mean. */
static double compute(const troupe_task* task, size_t weights, size_t bias) {
  const float *w = task->parameters + weights, *b = task->parameters + bias;
  double loss = 0;
  for (size_t i = 0; i < task->count; ++i) {
    const float* in = x[task->rows[i]];
    const float error = w[0] * in[0] + w[1] * in[1] + b[0] - y[task->rows[i]];
    loss += error * error;
    if (task->gradients != NULL) {
      const float slope = 2 * error / (float)task->count;
      if (i == 0)
        memset(task->gradients + weights, 0, inputs * sizeof(float)), task->gradients[bias] = 0;
      task->gradients[weights] += slope * in[0];
      task->gradients[weights + 1] += slope * in[1];
      task->gradients[bias] += slope;
    }
  }
  return loss;
}

static int train(const char* epochs) {
  const float zeros[inputs] = {0};
  const int64_t of_weights[] = {inputs}, of_bias[] = {1};
  const troupe_parameter parameters[] = {{"w", of_weights, 1, TROUPE_TRAINED, zeros}, {"b", of_bias, 1, TROUPE_TRAINED, zeros}};
  const troupe_model model = {.parameters = parameters, .count = 2, .samples = samples, .tests = tests};
  const char* set[] = {"data.batch=20", "optimizer.lr=0.1", epochs, NULL};
  troupe_options options = {.size = sizeof options, .set = set, .model = &model};
  char why[4096];
  troupe_run* run = troupe_open(&options, why, sizeof why);
  if (run == NULL) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  const size_t weights = (size_t)troupe_offset(run, 0), bias = (size_t)troupe_offset(run, 1);
  troupe_task task;
  int code;
  while ((code = troupe_next(run, &task, 1000)) != TROUPE_OVER && code != TROUPE_ERROR) {
    if (code == TROUPE_TIMEOUT)
      continue;
    const double loss = compute(&task, weights, bias);
    if (code == TROUPE_STEP)
      troupe_ready(run, 0), troupe_ready(run, 1);
    troupe_done(run, loss, (int64_t)task.count, 0);
  }
  troupe_parameter w, b;
  if (code == TROUPE_ERROR || troupe_parameter_at(run, 0, &w) != 0 || troupe_parameter_at(run, 1, &b) != 0 || w.values == NULL)
    fprintf(stderr, "%s\n", code == TROUPE_ERROR ? troupe_error(run) : troupe_result(run)), code = TROUPE_ERROR;
  else
    printf("y = %.3f x0 %+.3f x1 %+.3f\n", w.values[0], w.values[1], b.values[0]);
  troupe_close(run);
  return code == TROUPE_ERROR;
}

int main(void) {
  draw();
  return train("stop.epochs=1") || train("stop.epochs=10");
}
