// SPDX-License-Identifier: BSD-3-Clause
// Troupe as a C library: run a job and read what it learned, or compute its steps in a language of one's own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Texts are UTF-8. Functions of one run may be called on any thread, one at a time; troupe_stop at any time. The library takes no
 * signals, and calls nothing of its caller's. Where a function fails, troupe_error says why in a sentence. */

/* A job that runs, or this process's part of one. */
typedef struct troupe_run troupe_run;

/* The version of the library, such as "0.1.0". */
const char* troupe_version(void);
/* What the library knows, as JSON: "protocols" and "optimizers", each with its parameters. */
const char* troupe_listing(void);
/* The program `troupe`: carries out a command line and returns the exit code. It handles signals; for a process's main alone. */
int troupe_main(int argc, char** argv);

enum { TROUPE_TRAINED = 0, TROUPE_FROZEN = 1, TROUPE_STATISTIC = 2 };

/* One parameter of a model. A TROUPE_STATISTIC, such as a running mean, has no gradient: what is written for it is the old value
 * minus the new one. `values` are the initial ones in troupe_model, and the newest ones from troupe_parameter_at. */
typedef struct {
  const char* name;
  const int64_t* extents;
  int32_t rank;
  int32_t kind;
  const float* values; /* row-major */
} troupe_parameter;

/* A model that the caller computes. Row numbers below `samples` are trained on, the `tests` numbers after them are for tests. */
typedef struct {
  const troupe_parameter* parameters;
  size_t count;
  int64_t samples, tests; /* each at least 1, their sum below 2^31 */
  /* What computes it, such as a file's name and checksum: processes of a cluster must agree. Null: anything. */
  const char* script;
  /* 1: an optimizer of the caller's takes the steps of workers, under protocols in which they take steps of their own (local,
   * adacomm, easgd, gossip). What is written for each parameter is what it moved by, as for statistics: the old value minus the
   * new one. The optimizer's state is the caller's to keep, of each worker its own. 0: Troupe's optimizer does. */
  int32_t own_optimizer;
} troupe_model;

/* All that is not needed is 0. Everything is copied. */
typedef struct {
  size_t size;                /* sizeof(troupe_options): tells callers of another version */
  const char* job;            /* a job file; null: `set` is the whole job */
  const char* const* set;     /* "KEY=VALUE" each, as for `troupe run --set`; ends with a null */
  const troupe_model* model;  /* compute it in troupe_next's loop; null: the job's model, which Troupe computes */
  const char* const* program; /* how further processes are started: path and arguments; ends with a null */
  const char* node;           /* in such a process: what its environment has as TROUPE_NODE; with a cluster file, the name of
                                 this process's node there; else null */
  int32_t loud;               /* whether progress is printed to standard error */
  const char* cluster;        /* a cluster file; with a model also "slurm" or "kubernetes". Null: processes of this machine */
  const char* certs;          /* with "slurm" or "kubernetes": the folder of ca.pem, NAME.pem and NAME.key; null: none */
  int32_t insecure;           /* likewise: 1: anyone may join */
  int32_t wait_s;             /* with a model: how long processes wait for each other at the start; 0: 600 */
} troupe_options;

/* Starts a job, with the processes that `cluster.nodes` asks for, or joins that of `node`. Null where it cannot start: then `why`
 * has the reasons, one a line, cut at `room` bytes. Without a model, `program` is the program `troupe`. With one, it is the
 * caller itself: each process that it starts finds TROUPE_NODE in its environment and passes it on.
 *
 * With `cluster` and a model, the caller starts this program itself, once for each node. That on the coordinator's node submits
 * the job, which ends with it; shards are where the file lets them be, and begin with the values of their own process, which
 * have to be the first one's. With `cluster` and no model, the job goes to a cluster of `troupe node` processes. */
troupe_run* troupe_open(const troupe_options* options, char* why, size_t room);

enum { TROUPE_ERROR = -1, TROUPE_OVER = 0, TROUPE_STEP = 1, TROUPE_EVALUATE = 2, TROUPE_TIMEOUT = 3, TROUPE_LINE = 4 };

/* Waits for news of the run: TROUPE_LINE, and *line is one of the log's JSON objects until the next call; TROUPE_OVER;
 * TROUPE_TIMEOUT. */
int troupe_follow(troupe_run* run, const char** line, int timeout_ms);

/* A step of the caller's model (TROUPE_STEP), or an evaluation (TROUPE_EVALUATE). */
typedef struct {
  const uint32_t* rows; /* their numbers */
  size_t count;
  const float* parameters; /* flat; parameter i begins at troupe_offset(run, i). Shared: not to be written */
  float* gradients;        /* likewise, of the mean loss of the rows, to be written; null in an evaluation */
  int32_t worker;          /* whose step it is, of the workers that this process computes for; -1 in an evaluation */
} troupe_task;

/* Waits for a task. Its memory stays until the next call of troupe_next or troupe_close. TROUPE_OVER: there will be no more.
 * TROUPE_ERROR in a process that joined a cluster: the first process is gone, or its job has failed. */
int troupe_next(troupe_run* run, troupe_task* task, int timeout_ms);
/* The gradient of this parameter is complete, and may be sent. Those for which it is not called become zero in troupe_done. */
int troupe_ready(troupe_run* run, size_t parameter);
/* The task is done: the sum of the losses of `counted` predictions, of which so many are `correct`. Then gradients are read. */
int troupe_done(troupe_run* run, double loss_sum, int64_t counted, int64_t correct);
/* The caller cannot compute the task: this process leaves the job, and says why in its log. troupe_follow says TROUPE_OVER once
 * it may go: shards that it holds stay until the job ends. */
int troupe_fail(troupe_run* run, const char* why);

/* 1: this process has joined the job of another one, which has its result; else 0. */
int troupe_joined(troupe_run* run);
/* How the job ended, as `troupe run --json` prints it, and as "history" its evaluations. Null until it is over, and in a process
 * that joined. Lives as long as the run. */
const char* troupe_result(troupe_run* run);
/* Parameters of the model, in its order. */
size_t troupe_parameter_count(troupe_run* run);
/* Describes one; `values` are null until the job has ended with parameters. Lives as long as the run. */
int troupe_parameter_at(troupe_run* run, size_t index, troupe_parameter* out);
/* Where a parameter begins in the flat arrays, in floats. */
int64_t troupe_offset(troupe_run* run, size_t index);

/* Why the last call failed; empty: it did not. Lives until the next call. */
const char* troupe_error(troupe_run* run);
/* Asks for an orderly end, as Ctrl-C does for `troupe run`; a second time, for an end at once. */
void troupe_stop(troupe_run* run);
/* Ends the run, with its processes and threads, and frees it. Null is allowed. */
void troupe_close(troupe_run* run);

#ifdef __cplusplus
}
#endif
