#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Breaks the protocol machines in small ways, one at a time, and sees whether the tests notice.

usage: mutants.py [--only WORD]... [--share K/N] [--write] [--check] [--jobs N]

Each mutant is one textual change in protocols/: protocols_test (of Raft and the ledger: raft_test; of collectives: collective_test) is built with it and run until a test fails. One that none notices
has survived. That is an error, as is one whose text is not found any more, unless the mutant gives a reason: a change that alters
nothing which a caller could see. --only takes mutants whose file or note has the word; --share takes every Nth of them, from the Kth
on (1 to N): all take hours of two cores. --write puts what became of each into mutants.md; --check builds nothing: it finds each
text in its file, and the same mutants in the table.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import sys
import time

import mutant_runner
import mutants_of_allreduce
import mutants_of_bindings
import mutants_of_collective
import mutants_of_image
import mutants_of_ledger
import mutants_of_overlap
import mutants_of_partitions
import mutants_of_protocols
import mutants_of_raft
import mutants_of_replication

ROOT = pathlib.Path(__file__).resolve().parents[2]

# file, text, replacement, what it breaks; where no test can notice it, why
MUTANTS = [
    ("lead.cpp", "entry.reported.size() >= (every_shard ? tree_.shards : 1);", "!entry.reported.empty();", "one shard's report is enough"),
    ("lead.cpp", "|| !entry.reported.insert(msg.holder).second ||", "|| (entry.reported.insert({static_cast<std::uint32_t>(entry.reported.size())}), false) ||",
     "one shard's report counts twice"),
    ("lead.cpp", "if (decided || foreign)", "if (foreign)", "a decided push is gathered again"),
    ("lead.cpp", "if (decided || foreign)", "if (decided)", "a foreign push is gathered"),
    ("lead.cpp", "      out.emplace_back(drop_order{id});\n    return never_complete;", "      (void)out;\n    return never_complete;",
     "an incomplete push of the dead is not dropped"),
    ("lead.cpp", "seen = std::max(seen, last_push_of(msg));", "(void)seen;", "a dead worker's late report is gathered"),
    ("lead.cpp", "state_.samples_applied += static_cast<std::uint64_t>(step.samples);", "++state_.samples_applied;", "rounds are counted, not samples"),
    ("lead.cpp", "state_.samples_applied >= state_.limit.at_samples", "state_.samples_applied > state_.limit.at_samples", "holds one version late (samples)"),
    ("lead.cpp", "made.value >= state_.limit.at_version", "made.value > state_.limit.at_version", "holds one version late (version)"),
    ("lead.cpp", "  if (state_.held) {\n    state_.held_back", "  if (false) {\n    state_.held_back", "sends while held"),
    ("lead.cpp", "if (state_.held && (!state_.deferred", "if (false && (!state_.deferred", "a death makes a version while held"),
    ("lead.cpp", "(!state_.deferred.empty() || std::ranges", "(std::ranges", "what follows a deferred version overtakes it"),
    ("lead.cpp", "        do_not_send(*waiting);\n", "        (void)waiting;\n", "sends to who died after a deferred version"),
    ("lead.cpp", "!std::exchange(state_.held, false))", "!state_.held)", "is held for ever"),
    ("lead.cpp", "              state_.limit = {};\n", "", "holds again at every version"),
    ("lead.cpp", "      std::erase(waiting.to, msg.worker);", "      (void)waiting;", "sends to who died while held"),
    ("lead.cpp", "made->send_epoch = sending.epoch;", "made->send_epoch = made->epoch;", "sends under the old plan"),
    ("lead.cpp", "made && made->ver == sending.ver && made->send_to.empty()", "made && made->ver == sending.ver", "a second answer replaces the first"),
    ("lead.cpp", "            forget(e.tensor);\n", "", "a discarded push is remembered for ever"),
    ("lead.cpp", "  if (state_.held && state_.made > msg.held)", "  if (state_.made > msg.held)\n    return {};\n  if (false)", "nobody is told where a new lead holds"),
    ("lead.cpp", "entry.known_as != ticket{} ||", "", "the rule hears of one push twice"),
    ("lead.cpp", "takes(shard_, id.worker);", "takes(shard_, id.worker) && id.worker.value < tree_.workers;",
     "a late worker's push is there when one shard has it"),
    ("lead.cpp", "[this](const auto& seen) { return state_.plan.rank_of(seen.first) < 0; }", "[](const auto&) { return true; }",
     "a new plan makes old pushes new"),
    ("lead.cpp", "            e.samples = state_.samples_applied;\n", "", "reports do not say how many samples are applied"),
    ("holder.cpp", "id <= seen->second) || state_.kept.contains(id);", "id < seen->second);", "a repeated push is kept"),
    ("holder.cpp", "rank_of(seen.first) < 0 && (first == state_.kept.end() || first->first.worker != seen.first);", "rank_of(seen.first) < 0 && (void(first), true);", "a plan makes new what is older than a push ahead of its plan"),
    ("holder.cpp", "view = std::max(view, msg.view);", "view = msg.view;", "an earlier lead's admission takes back a later one's"),
    ("holder.cpp", "if (old || foreign) {", "if (old) {", "a foreign push is kept"),
    ("holder.cpp", "msg.epoch <= state_.plan.epoch && !state_.plan.has", "!state_.plan.has", "a push ahead of its plan is refused"),
    ("holder.cpp", "    seen = std::max(seen, end_of({msg.worker, msg.incarnation}));", "    (void)seen;", "a dead worker's late push is kept"),
    ("holder.cpp", "    if (msg.rooted > state_.plan.epoch)\n      take_place(msg);\n", "", "a dead aggregator is awaited"),
    ("holder.cpp", "std::ranges::copy_if(place_.children, std::back_inserter(out), std::not_fn(is_here));", "if (std::ranges::none_of(place_.children, is_here))\n    std::ranges::copy_if(place_.children, std::back_inserter(out), std::not_fn(is_here));", "one child's partial sum is enough"),
    ("holder.cpp", "!place_.tree || msg.ver <= state_.current || is_outside()", "!place_.tree || is_outside()", "a late partial sum is kept"),
    ("holder.hpp", "on(const send_order& msg) { return enqueue(msg); }", "on(const send_order& msg) { holder_effects out; perform(out, msg); return out; }",
     "parameters are served before the close they belong to"),
    ("holder.cpp", "        sum.push_back({gradient, part.weight});\n      if (!round.keep)", "        sum.push_back({gradient, 1});\n      if (!round.keep)", "weights are ignored"),
    ("holder.cpp", "  if (msg.ver <= state_.ordered)\n    return {};\n", "", "a repeated close is performed"),
    ("holder.cpp", "  discard_unless_empty(out, std::exchange(kept.mapped().gradient, ticket{}));\n", "  (void)out;\n", "a dropped push's tensor leaks"),
    ("holder.hpp", "on(const report& msg) { return enqueue(msg); }", "on(const report& msg) { return {msg}; }", "a version is held before it is made"),
    ("holder.cpp", "  state_.current = round.ver;\n  out.emplace_back(apply_round", "  out.emplace_back(apply_round", "forgets what it has made"),
    ("holder.cpp", "sums.mapped().at(child).sum; sum != ticket{})", "sums.mapped().at(child).sum; true)", "an empty partial sum becomes a term"),
    ("holder.cpp", "return state_.plan.rank_of(seen.first) < 0 && (first", "return true || (first",
     "a new plan makes old pushes new"),
    ("holder.cpp", "if (msg.epoch > state_.plan.epoch) {", "{", "an older plan replaces a newer one"),
    ("coordinator.cpp", "  out.emplace_back(order(next_hold()));\n  out.emplace_back(next_plan());", "  out.emplace_back(next_plan());\n  out.emplace_back(order(next_hold()));",
     "the first limit may come too late"),
    ("coordinator.cpp", "last != state_.last_down.end() && who.incarnation <= last->second;", "last == state_.last_down.end() && false;", "the dead join again"),
    ("coordinator.cpp", "state_.members.empty() && !(state_.evaluating && at_the_end() && !options_.decentralized)", "state_.members.empty()", "a job that is done fails"),
    ("coordinator.cpp", "(state_.samples / every + 1) * every", "state_.samples + every", "evaluation points drift"),
    ("coordinator.cpp", "  state_.held.value += more.steps;\n", "", "steps under way to the lead are evaluated and do not count"),
    ("coordinator.cpp", "  state_.evaluating = false;\n", "", "evaluates once only"),
    ("coordinator.cpp", "    state_.time_is_up = true;", "    ;", "time does not end a job"),
    ("coordinator.cpp", "msg.test_accuracy >= options_.stop.target_accuracy", "msg.test_accuracy > options_.stop.target_accuracy", "misses the target by a hair"),
    ("coordinator.cpp", "std::ceil(", "std::floor(", "part of a sample is none"),
    ("coordinator.cpp", "  state_.plan.gone = state_.gone;\n", "", "a plan does not say which aggregators are gone"),
    ("coordinator.cpp", "present->second > who.incarnation", "present->second != who.incarnation", "a worker that died twice is waited for"),
    ("coordinator.cpp", "coordinator_effects out{send_worker_down{{who.worker, present->second}}};", "coordinator_effects out{resume{}};",
     "nobody is told of a death"),
    ("coordinator.cpp", "state_.gone.insert(msg.holder).second ? coordinator_effects{next_plan()}", "state_.gone.insert(msg.holder).second ? coordinator_effects{}", "nobody is told of an aggregator's death"),
    ("coordinator.cpp", "out{order(next_hold()), resume{{msg.ver}}}", "out{resume{{msg.ver}}}", "no further evaluation"),
    ("coordinator.cpp", "end < evaluation)", "end > evaluation)", "runs past its end to the next evaluation"),
    ("coordinator.cpp", "return state_.time_is_up || (samples != 0 && state_.samples >= samples)", "return state_.time_is_up || (samples != 0 && state_.samples > samples)", "an epoch too many"),
    ("coordinator.cpp", "who.incarnation <= present->second))", "who.incarnation < present->second))", "a repeated join makes a plan"),
    ("coordinator.cpp", "  out.order.now = true;\n", "", "points in time are ignored"),
    ("tree.cpp", "while (level.size() > shape.fan_in)", "while (level.size() >= shape.fan_in)", "a level too many"),
    ("tree.cpp", "      tree[top.value].parents.push_back({i});", "      tree[top.value].parents = {{0}};", "aggregators know one shard only"),
    ("gossip.cpp", "weight_ = late_ ? 0 : has_replica ? memory_.weight : 1;", "weight_ = has_replica ? memory_.weight : 1;", "a latecomer drags the others back to the first parameters"),
    ("gossip.cpp", "weight_ < spent && !late_", "weight_ < spent", "a latecomer counts before it has heard of anybody"),
    ("gossip.cpp", "  if (!msg.finite)\n    weight_ = 0;\n  else if", "  if", "a replica that has diverged is spread"),
    ("gossip.cpp", "  else if (weight_ < spent && !late_)\n    weight_ = 1;\n", "", "a weight runs out for ever"),
    ("gossip.cpp", "if (msg.samples > 0 && msg.finite)", "if (msg.samples > 0)", "a step that has diverged counts"),
    ("gossip.cpp", "  if (msg.samples > 0)\n    out.emplace_back(send_push", "  if (msg.step > 0)\n    out.emplace_back(send_push", "an empty step is told"),
    ("gossip.cpp", "idle_ = msg.samples == 0 &&", "idle_ = false &&", "who has no samples spins"),
    ("gossip.cpp", "  if (std::exchange(idle_, false))\n    go_on(out);", "", "who has no samples stops for ever"),
    ("gossip.cpp", "    weight_ += msg.weight;\n    return {};", "    return {};", "what could not be sent is lost"),
    ("gossip.cpp", "if (stale || !(msg.weight > 0)", "if (!(msg.weight > 0)", "a repeated message is mixed twice"),
    ("gossip.cpp", "msg.round <= known->second.round", "msg.round < known->second.round", "a repeated message is mixed twice, at once"),
    ("gossip.cpp", "!(msg.weight > 0) || ", "", "a weight that is no share is taken"),
    ("gossip.cpp", " || !plan_.has(msg.from))", ")", "strangers and the dead are heard"),
    ("gossip.cpp", "last.weight + msg.weight, msg.data", "msg.weight, msg.data", "the weight of what is superseded is lost"),
    ("gossip.cpp", "    out.emplace_back(discard{last.data});\n  last", "    (void)out;\n  last", "what is superseded is kept for ever"),
    ("gossip.cpp", "begun_ && !late_ ? 1.0 : 0.0", "1.0", "who has no replica is averaged"),
    ("gossip.cpp", "{own_parameters, weight_ / total}", "{own_parameters, 0.5}", "weights do not count"),
    ("gossip.cpp", "msg.weight / total}", "msg.weight}", "weights do not sum to 1"),
    ("gossip.cpp", "if (std::exchange(msg.weight, 0) > 0)", "if (msg.weight > 0)", "what was mixed is mixed again"),
    ("gossip.cpp", "  weight_ = weight_here();\n", "", "weight that comes in is lost"),
    ("gossip.cpp", "      out.emplace_back(discard{std::exchange(msg.data, {})});", "      out.emplace_back(discard{});", "what was mixed is kept for ever"),
    ("gossip.cpp", "    if (who != self_)\n      others", "    others", "a worker sends to itself"),
    ("gossip.cpp", "weight_ /= static_cast<double>(count + 1);", "weight_ /= 2;", "shares do not sum to the weight"),
    ("gossip.cpp", "others[i + draw.below(others.size() - i)]", "others[draw.below(others.size())]", "peers are drawn twice, and unevenly"),
    ("gossip.cpp", "self_.worker.value, next_position_)", "self_.worker.value)", "the same peers at every step"),
    ("gossip.cpp", "random_stream::keyed(seed_, peer_draws,", "random_stream::keyed(peer_draws,", "the seed is ignored"),
    ("gossip.cpp", "std::clamp<std::uint64_t>(next_position_ - position_, 1, n)", "n", "a short batch leaves some without samples"),
    ("gossip.cpp", "{{rank % cuts, 1}}", "{{self_.worker.value % cuts, 1}}", "its cut is its id, not its rank"),
    ("gossip.cpp", "      out.emplace_back(discard{entry.second.data});\n    return gone;", "      (void)out;\n    return gone;", "what the dead have sent is kept for ever"),
    ("gossip.cpp", "late_ = first_->position != memory_.samples;", "late_ = first_->ver != version{};", "who goes on counts for late"),
    ("gossip.cpp", "!late_ && memory_.has_replica", "memory_.has_replica", "a latecomer begins at what a checkpoint had"),
    ("gossip.cpp", "memory_.has_replica && memory_.weight > 0", "memory_.weight > 0", "who has none goes on from nothing"),
    ("gossip.cpp", "memory_.has_replica && memory_.weight > 0", "memory_.has_replica", "a replica without weight is gone on with"),
    ("gossip.cpp", "has_replica ? memory_.position : first_->position", "first_->position", "who goes on leaves out its step"),
    ("gossip.cpp", "  if (!has_replica)\n    out.emplace_back(mix", "  out.emplace_back(mix", "who goes on begins at the mean"),
    ("gossip.cpp", ".weight = weight_here(), .position = position_}", ".weight = weight_, .position = position_}", "a checkpoint loses the weight of what has come"),
    ("gossip.cpp", ".weight = weight_here(), .position = position_}", ".weight = weight_here(), .position = next_position_}", "a checkpoint leaves out the step under way"),
    ("lead.cpp", ".rule = gossip_rule_state{.made = {made.steps}, .samples = made.samples}", ".rule = gossip_rule_state{.made = {made.steps}}", "workers go on at the first sample"),
    ("lead.cpp", "          .samples_applied = made.samples,\n", "", "a lead goes on with no samples"),
    ("gossip_rule.cpp", "if (state_.live.try_emplace(who).second)", "", "everybody is sent parameters at every plan"),
    ("gossip_rule.cpp", "  state_.samples += static_cast<std::uint64_t>(msg.samples);\n", "", "latecomers begin at the first sample"),
    ("gossip_rule.cpp", "  if (!msg.finite)\n", "  if (false)\n", "a step that was not made is counted"),
    ("gossip_rule.cpp", ".samples = msg.samples}, discard{msg.gradient},\n          std", ".samples = msg.samples},\n          std", "a push is never dropped"),
    ("gossip_rule.cpp", "  std::erase_if(state_.live, [this](const auto& entry) { return !state_.plan.has(entry.first); });\n", "", "the dead count"),
    ("gradient_code.cpp", "return (workers_ - group + groups - 1) / groups;", "return (workers_ + groups - 1) / groups;", "small groups leave cuts undone"),
    ("gradient_code.cpp", "return {{worker / (stragglers_ + 1), 1.0}};", "return {{worker % cuts(worker), 1.0}};", "two members of a group take one cut"),
    ("gradient_code.cpp", "(larger == smaller || cuts(present[i]) == size) && ", "", "groups of another size stand in"),
    ("gradient_code.cpp", ": {larger, smaller})", ": {larger})", "a small group that is whole is not enough"),
    ("gradient_code.cpp", "    if (count == size)", "    if (count + 1 >= size)", "decodes with a cut missing"),
    ("gradient_code.cpp", "std::exchange(held[present[i] / (stragglers_ + 1)], 1) == 0", "held[present[i] / (stragglers_ + 1)] == 0",
     "a cut is added twice"),
    ("gradient_code.cpp", "present.size() + stragglers_ < workers_", "present.size() + stragglers_ + 1 < workers_", "decodes with too few"),
    ("gradient_code.cpp", "present.size() + stragglers_ < workers_", "present.size() + stragglers_ != workers_", "decodes with exactly s missing only"),
    ("gradient_code.cpp", "out.push_back({(worker + k) % workers_,", "out.push_back({(worker + k + 1) % workers_,", "cuts are off by one"),
    ("gradient_code.cpp", "remove.push_back(-all_present[missing[i]]);", "remove.push_back(all_present[missing[i]]);", "the missing are doubled, not removed"),
    ("gradient_code.cpp", "b(k, i) = row[k] / largest;", "b(k, i) = row[k];", "coefficients beyond 1"),
    ("gradient_code.cpp", "      h(k, i) -= sum / static_cast<double>(n);", "      h(k, i) -= 0;", "H 1 is not 0 in fresh draws"),
    ("gradient_code.cpp", "    h(k, other) += h(k, one) - drawn;", "    (void)other;", "H 1 is not 0 after a move"),
    ("gradient_code.cpp", "constexpr int moves = 300;", "constexpr int moves = 0;", "no search after the first draws"),
    ("gradient_code.cpp", "sets_of(s, n, judged_sets, random)", "sets_of(s, n, searched_sets, random)", "judged by as few sets as searched with"),
    ("gradient_code.cpp", "first[k] = -h(k, i);", "first[k] = h(k, i);", "rows of B are not orthogonal to H"),
    ("gradient_code.cpp", "a_(k, k) > 0 ? -std::sqrt", "a_(k, k) < 0 ? -std::sqrt", "QR cancels"),
    ("gradient_code.cpp", "b[i] -= a_(j, i) * b[j];", "b[i] -= a_(i, j) * b[j];", "solves with R, not its transpose"),
    ("gradient_code.cpp", "    for (std::size_t k = a_.columns; k-- > 0;)", "    for (std::size_t k = 0; k < a_.columns; ++k)", "Q^T for Q"),
    ("gradient_code.cpp", "if (amplification <= amplification_limit)", "if (amplification >= 0)", "codes that lose digits are accepted"),
    ("gradient_code.cpp", "options.stragglers >= options.workers", "options.stragglers > options.workers", "nobody need come"),
    ("gradient_code.cpp", "random_stream::keyed(options.seed, n, s)", "random_stream::keyed(0, n, s)", "the seed is ignored"),
    ("gradient_code.cpp", "decoding out{.residual = cyclic_->residual(a)};", "decoding out{.residual = cyclic_->residual(cyclic_->all_present)};",
     "the residual is that of all present"),
    ("message.cpp", "std::min(position + static_cast<std::uint64_t>(batch) * cuts, (position / size + 1) * size)",
     "position + static_cast<std::uint64_t>(batch) * cuts",
     "a batch crosses the end of the epoch"),
    ("message.cpp", "return std::ranges::binary_search(workers, who);", "return rank_of(who.worker) >= 0;", "any incarnation is a member"),
] + mutants_of_protocols.MUTANTS + mutants_of_bindings.MUTANTS + mutants_of_raft.MUTANTS + mutants_of_ledger.MUTANTS + mutants_of_replication.MUTANTS + mutants_of_collective.MUTANTS + mutants_of_allreduce.MUTANTS + mutants_of_image.MUTANTS + mutants_of_overlap.MUTANTS + mutants_of_partitions.MUTANTS

TABLE = pathlib.Path(__file__).with_name("mutants.md")
HEAD = """# What the tests notice

Written by `mutants.py --write`: each row is a small change to a protocol machine, and the first test that failed with it. What
survives does so for the reason that stands there.

| file | what is broken | noticed by |
| --- | --- | --- |
"""
SURVIVES, UNKNOWN = "survives: ", "not run yet"


def rows_of_table():
    """(file, what is broken) to what became of it the last time."""
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")][2:]
    return {tuple(cells[:2]): cells[2] for cells in (line.strip("| ").split(" | ") for line in lines)}


def check():
    """What can be said without building: each text is in its file once, and the table is of these mutants."""
    wrong = []
    for file, text, *_ in MUTANTS:
        path = ROOT / "protocols" / file
        times = path.read_text().count(text) if path.exists() else 0
        if times != 1:
            wrong.append(f"protocols/{file}: the text of a mutant is found {times} times, wanted once: {text!r}")
    named = [(mutant[0], mutant[3]) for mutant in MUTANTS]
    wrong += [f"two mutants of {file} say {note!r}" for file, note in sorted(set(named)) if named.count((file, note)) > 1]
    listed = set(rows_of_table())
    wrong += [f"mutants.md has a row that is no mutant; mutants.py --write rewrites it: {file}: {note}" for file, note in sorted(listed - set(named))]
    wrong += [f"mutants.md lacks a mutant; mutants.py --write rewrites it: {file}: {note}" for file, note in sorted(set(named) - listed)]
    print("\n".join(wrong) or f"{len(MUTANTS)} mutants: each text is there once, and the table has them all", file=sys.stderr)
    return 1 if wrong else 0


def write(outcomes):
    """The table, with what is known of each mutant from this run or from the last."""
    known = {**rows_of_table(), **outcomes}
    rows = [f"| {mutant[0]} | {mutant[3]} | {known.get((mutant[0], mutant[3]), UNKNOWN)} |\n" for mutant in MUTANTS]
    TABLE.write_text(HEAD + "".join(rows))


def binary_for(file):
    """The tests that judge a mutant of the file: Raft's machine, the ledger and collectives are seen by no other."""
    if file.startswith("collective/"):
        return "collective_test"
    return "raft_test" if file.startswith(("raft", "ledger")) else "protocols_test"


def judge(runner, mutant, last_killer):
    """What became of it, and whether that is as it should be."""
    killer, fault = runner.judge(*mutant[:3], last_killer)
    reason = mutant[4] if len(mutant) > 4 else None
    if fault:
        return "is no mutant: " + fault, False
    if killer and reason:
        return f"{killer}, and it is said to survive", False
    if not killer and not reason:
        return "SURVIVES without a reason", False
    return killer or SURVIVES + reason, True


def share(text):
    """The slice that K/N names."""
    first, of = map(int, text.split("/"))
    if not 1 <= first <= of:
        raise ValueError
    return slice(first - 1, None, of)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", action="append", default=[], metavar="WORD")
    arguments.add_argument("--share", type=share, default=slice(None), metavar="K/N")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--write", action="store_true")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    options = arguments.parse_args()
    if options.check:
        return check()
    chosen = [mutant for mutant in MUTANTS if not options.only or any(word in mutant[0] or word in mutant[3] for word in options.only)]
    chosen = chosen[options.share]
    began = time.monotonic()
    folder = ROOT / "build" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    runners = {binary: mutant_runner.Runner(folder, options.jobs, binary) for binary in sorted({binary_for(mutant[0]) for mutant in chosen})}
    before, outcomes, bad = rows_of_table(), {}, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        begun = {pool.submit(judge, runners[binary_for(mutant[0])], mutant, before.get((mutant[0], mutant[3]))): mutant for mutant in chosen}
        for done in concurrent.futures.as_completed(begun):
            mutant, (outcome, good) = begun[done], done.result()
            said = f"{mutant[0]}: {mutant[3]}: {outcome}"
            outcomes[mutant[0], mutant[3]] = outcome.splitlines()[0]
            print(f"{len(outcomes):3}/{len(chosen)} {said}", file=sys.stderr, flush=True)
            if not good:
                bad.append(said)
            if options.write:
                write(outcomes)
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    survive = sum(outcome.startswith(SURVIVES) for outcome in outcomes.values())
    print(*bad, f"{len(chosen) - survive - len(bad)} of {len(chosen)} mutants were noticed, {survive} survive for a reason, {len(bad)} are wrong; "
          f"{(time.monotonic() - began) / 60:.1f} minutes, {used / 60:.1f} of a processor", sep="\n", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
