// SPDX-License-Identifier: BSD-3-Clause
// One of each message for the tests of the wire: ordinary ones, and ones with the largest values that may travel.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "protocols/wire/codec.hpp"

namespace troupe::protocols::wire::test {

struct sample {
  std::string name;
  content body;
};

inline push_id some_push() {
  return {{3}, {1}, {41}};
}

inline push whole_push() {
  return {.epoch = {2},
          .id = some_push(),
          .base = {40},
          .gradient = {},
          .samples = 128,
          .loss = 0.625,
          .compute = 1'500'000,
          .finite = true,
          .weight = 0.125,
          .at = 7'000'000'000,
          .ignored = 2.5};
}

inline close small_close() {
  return {.epoch = {2},
          .ver = {41},
          .contributions = {{some_push(), 0.25}, {{{4}, {0}, {40}}, 0.75}},
          .keep = true,
          .step = {.method = step_rule::kind::outer, .lr_scale = 0.5, .lr = 0.7, .momentum = 0.9, .nesterov = true},
          .samples_before = 5120,
          .workers = 2,
          .send_to = {{3}, {4}, evaluator},
          .send_epoch = {3},
          .key = 41,
          .position = 5248,
          .period = 4,
          .view = 2,
          .decision = 12};
}

/// Written by hand once; the golden bytes are of these.
inline std::vector<sample> ordinary() {
  return {
      {"hello", hello{hello::role::accepts, 0x0123456789abcdef, 7, protocol_version, 3, 0xfedcba9876543210}},
      {"bye", bye{"no longer wanted", true}},
      {"beat", beat{}},
      {"lending", lending{4711, 0x7f0123456780, {0x0123456789abcdef, 0xfedcba9876543210}}},
      {"borrowing", borrowing{}},
      {"push_part", message{push_part{{1}, {2}, some_push(), {32, 64}}}},
      {"push_part_encoded", message{push_part{{1}, {2}, some_push(), {512, 2048}, kernels::form::onebit}}},
      {"push_part_sparse", message{push_part{{1}, {2}, some_push(), {512, 2048}, kernels::form::sparse_bf16, 24}}},
      {"push_part_factors", message{push_part{{1}, {2}, some_push(), {512, 2048}, kernels::form::factors, 48}}},
      {"push_end", message{push_end{{1}, whole_push(), 9}}},
      {"params_part", message{params_part{{{3}, {4}, evaluator}, {1}, {{2}, {41}, 43, 5248, 4, {}}, {16, 48}}}},
      {"params_part_encoded",
       message{params_part{{{3}, {4}}, {1}, {{2}, {41}, 43, 5248, 4, {}}, {16, 48}, kernels::form::int8, {40}}}},
      {"params_part_changed",
       message{params_part{{{3}, {4}}, {1}, {{2}, {41}, 43, 5248, 4, {}}, {16, 48}, kernels::form::sparse_fp32, {40}, 16}}},
      {"partial_part", message{partial_part{{0}, {5}, {41}, {0, 32}, false, 12}}},
      {"partial_part_sparse", message{partial_part{{0}, {5}, {41}, {0, 32}, false, 12, kernels::form::sparse_fp32, 16}}},
      {"partial_part_empty", message{partial_part{{0}, {5}, {41}, {0, 1'048'576}, true}}},
      {"arrival", message{addressed<arrival>{{0}, {{1}, whole_push()}}}},
      {"close", message{addressed<close>{{1}, small_close()}}},
      {"send_order", message{addressed<send_order>{{1}, {{2}, {41}, 43, {{3}, evaluator}, 5248, 4}}}},
      {"drop_order", message{addressed<drop_order>{{1}, {some_push()}}}},
      {"peer_part", message{peer_part{{2}, {{{3}, {1}}, 17, 0.5, {}, {18, 288}}, {64, 96}}}},
      {"peer_part_chunk", message{peer_part{{2},
                                            {.from = {{3}, {1}},
                                             .round = 17,
                                             .is = peer_message::kind::chunk,
                                             .epoch = {4},
                                             .stage = 5,
                                             .part = {1, 3, 6},
                                             .facts = {288, 0.5, true, 0.25, true}},
                                            {64, 96}}}},
      {"peer_part_chunk_factors", message{peer_part{{2},
                                                    {.from = {{3}, {1}},
                                                     .round = 17,
                                                     .is = peer_message::kind::chunk,
                                                     .epoch = {4},
                                                     .part = {0, 1, 1},
                                                     .facts = {288, 0.5, true, 0.25, true}},
                                                    {64, 1024},
                                                    kernels::form::factors,
                                                    48}}},
      {"peer_part_chunk_int4", message{peer_part{{2},
                                                 {.from = {{3}, {1}},
                                                  .round = 17,
                                                  .is = peer_message::kind::chunk,
                                                  .epoch = {4},
                                                  .part = {1, 2, 6},
                                                  .facts = {288, 0.5}},
                                                 {64, 96},
                                                 kernels::form::int4}}},
      {"peer_part_standing",
       message{peer_part{
           {2}, {.from = {{3}, {1}}, .round = 17, .weight = 0, .is = peer_message::kind::standing, .epoch = {4}}, {0, 0}}}},
      {"peer_part_state", message{peer_part{{2},
                                            {.from = {{3}, {1}},
                                             .round = 17,
                                             .is = peer_message::kind::state,
                                             .epoch = {4},
                                             .facts = {288, 0.5, false, 0.25},
                                             .course = {576, 544, {2000, 30, false, hold_order::saves::always}}},
                                            {0, 48}}}},
      {"prepared", message{addressed<prepared>{{0}, {{5}, {41}, 12, false}}}},
      {"commit_order", message{addressed<commit_order>{{5}, {{41}, 12, true}}}},
      {"decision_part", message{decision_part{{2}, {0, 32}, 15}}},
      {"admit_order", message{addressed<admit_order>{{1}, {{5}, {1}, {41}, 2}}}},
      {"copy_request", message{addressed<copy_request>{{1}, {{5}, {41}, {8, 9}, 30, 2}}}},
      {"copy_part", message{copy_part{{5}, {1}, {0, 48}, 15}}},
  };
}

/// Every field at an end of its type, every list full.
inline std::vector<sample> extreme() {
  constexpr auto u32 = std::numeric_limits<std::uint32_t>::max();
  constexpr auto u64 = std::numeric_limits<std::uint64_t>::max();
  constexpr auto i64 = std::numeric_limits<std::int64_t>::max();
  constexpr auto big = std::numeric_limits<double>::max();
  constexpr std::int64_t last = i64 / 16 * 16;
  const push_id id{{u32}, {u32}, {u64}};
  const push large{.epoch = {u32},
                   .id = id,
                   .base = {u64},
                   .gradient = {},
                   .samples = i64,
                   .loss = -std::numeric_limits<double>::infinity(),
                   .compute = i64,
                   .finite = false,
                   .weight = -big,
                   .at = std::numeric_limits<std::int64_t>::min()};
  const std::vector<worker_id> everybody(max_listed_workers, worker_id{u32});
  const std::vector<contribution> all(max_listed_workers, contribution{id, -big});
  const close everything{.epoch = {u32},
                         .ver = {u64},
                         .contributions = all,
                         .keep = true,
                         .step = {step_rule::kind::linear, big, big, big, true, -big, big},
                         .samples_before = u64,
                         .workers = u32,
                         .send_to = everybody,
                         .send_epoch = {u32},
                         .key = u64,
                         .position = u64,
                         .period = u32,
                         .view = u64,
                         .decision = u64};
  return {
      {"hello", hello{hello::role::dials, u64, u32, std::numeric_limits<std::uint16_t>::max(), u32, u64}},
      {"bye", bye{std::string(max_reason_bytes, 'x'), false}},
      {"bye_without_words", bye{}},
      {"push_part", message{push_part{{u32}, {u32}, id, {last - 16, last}}}},
      {"push_part_of_nothing", message{push_part{{u32}, {u32}, id, {last, last}}}},
      {"push_end", message{push_end{{u32}, large, u32}}},
      {"params_part",
       message{params_part{everybody, {u32}, {{u32}, {u64}, u64, u64, u32, {}}, {0, 16}, kernels::form::fp32, {u64}}}},
      {"partial_part_empty", message{partial_part{{u32}, {u32}, {u64}, {0, last}, true, u64}}},
      {"arrival", message{addressed<arrival>{{u32}, {{u32}, large}}}},
      {"close", message{addressed<close>{{u32}, everything}}},
      {"close_of_nobody", message{addressed<close>{}}},
      {"send_order", message{addressed<send_order>{{u32}, {{u32}, {u64}, u64, everybody, u64, u32}}}},
      {"send_order_to_nobody", message{addressed<send_order>{}}},
      {"drop_order", message{addressed<drop_order>{{u32}, {id}}}},
      {"peer_part", message{peer_part{{u32}, {{{u32}, {u32}}, u64, -big, {}, {u64, u64}}, {0, 16}}}},
      {"peer_part_state", message{peer_part{{u32},
                                            {.from = {{u32}, {u32}},
                                             .round = u64,
                                             .weight = big,
                                             .is = peer_message::kind::state,
                                             .epoch = {u32},
                                             .stage = u32,
                                             .part = {max_listed_workers - 1, max_listed_workers, max_listed_workers},
                                             .facts = {i64, -big, false, 1, true},
                                             .course = {u64, u64, {u64, u64, false, hold_order::saves::at_version}}},
                                            {0, 16}}}},
      {"prepared", message{addressed<prepared>{{u32}, {{u32}, {u64}, u64, true}}}},
      {"commit_order", message{addressed<commit_order>{{u32}, {{u64}, u64}}}},
      {"decision_part", message{decision_part{{u32}, {0, 16}, 8}}},
      {"admit_order", message{addressed<admit_order>{{u32}, {{u32}, {u32}, {u64}, u64}}}},
      {"copy_request", message{addressed<copy_request>{
                           {u32}, {{u32}, {u64}, std::vector<std::uint32_t>(max_listed_workers, u32 - 1), u32, u64}}}},
      {"copy_part", message{copy_part{{u32}, {u32}, {0, 16}, 8}}},
  };
}

/// Words of a payload that fits: word i is i times an odd constant, so that a misplaced one shows.
inline std::vector<std::uint64_t> payload_for(const content& body) {
  const auto* msg = std::get_if<message>(&body);
  std::vector<std::uint64_t> words(msg != nullptr ? payload_bytes(*msg) / sizeof(std::uint64_t) : 0);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = i * 0x9e3779b97f4a7c15U;
  return words;
}

} // namespace troupe::protocols::wire::test
