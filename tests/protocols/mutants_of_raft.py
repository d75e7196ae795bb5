# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of Raft: some chosen by hand, and every operator and statement of its sources changed once. See mutants.py."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

# file, text, replacement, what it breaks; where no test can notice it, why
BY_HAND = [
    ("raft.cpp", "msg.term > state_.stored.term && !only_if", "msg.term > state_.stored.term", "a pre-vote raises the term"),
    ("raft.cpp", "(reply != nullptr && reply->pre && reply->granted)", "(reply != nullptr && reply->pre)", "a refused pre-vote does not tell the term"),
    ("raft.cpp", "(request != nullptr && request->pre) || ", "", "a request for a pre-vote raises the term"),
    ("raft.cpp", " || (reply != nullptr && reply->pre && reply->granted)", "", "a granted pre-vote raises the term"),
    ("raft.cpp", "    ask(current, role::pre_candidate);", "    ask(current, role::candidate);", "no pre-vote"),
    ("raft.cpp", "    if (!majority(count + 1)) {", "    if (false) {", "no check of the quorum"),
    ("raft.cpp", "    if (!majority(count + 1)) {", "    if (!majority(count)) {", "a leader does not count itself"),
    ("raft.cpp", "now - other.second.heard < 2 * options_.election", "now - other.second.heard < options_.election", "it steps down after half an election timeout"),
    ("raft.cpp", "now - other.second.heard < 2 * options_.election", "now - other.second.heard < 20 * options_.election", "it steps down late"),
    ("raft.cpp", "granted = msg.term > own.term && complete && !led;", "granted = msg.term > own.term && complete;", "pre-votes against a leader that is heard"),
    ("raft.cpp", "granted = msg.term > own.term && complete && !led;", "granted = msg.term > own.term && !led;", "pre-votes for who lacks entries"),
    ("raft.cpp", "granted = msg.term > own.term && complete && !led;", "granted = complete && !led;", "pre-votes for a term that is over"),
    ("raft.cpp", "granted = msg.term == own.term && complete && (!own.vote || own.vote == msg.from);", "granted = msg.term == own.term && complete;", "two votes in a term"),
    ("raft.cpp", "granted = msg.term == own.term && complete && (!own.vote || own.vote == msg.from);", "granted = msg.term == own.term && (!own.vote || own.vote == msg.from);",
     "votes for who lacks entries"),
    ("raft.cpp", "(!own.vote || own.vote == msg.from)", "!own.vote", "a vote whose answer was lost is not repeated"),
    ("raft.cpp", "std::pair(body.last_term, body.last) >= std::pair(own.last_term(), own.last())", "body.last >= own.last()", "the longer log wins, whatever its term"),
    ("raft.cpp", "std::pair(body.last_term, body.last) >= std::pair(own.last_term(), own.last())", "body.last_term >= own.last_term()", "the shorter log of the same term wins"),
    ("raft.cpp", "body.pre && granted ? msg.term : own.term", "own.term", "a pre-vote does not say for which term"),
    ("raft.cpp", "body.pre && granted ? msg.term : own.term", "body.pre ? msg.term : own.term", "a refused pre-vote does not say the voter's term"),
    ("raft.cpp", "    ++state_.stored.term.value;\n", "", "an election in the same term"),
    ("raft.cpp", "  write(now, {first, state_.stored.term, {}});", "  (void)first;", "no first entry of a leader's own"),
    ("raft.cpp", "  if (in != state_.stored.term)\n    state_.stored.vote.reset();", "  state_.stored.vote.reset();", "the vote of a term is forgotten"),
    ("raft.cpp", "  if (in != state_.stored.term)\n    state_.stored.vote.reset();\n", "", "the vote of the last term counts in this one"),
    ("raft.cpp", "  if (leader)\n    state_.heard = now.now;", "  state_.heard = now.now;", "who steps down takes it for news of a leader",
     "`heard` is asked only while there is a leader"),
    ("raft.cpp", "random_stream::keyed(options_.seed, options_.self.value, now)", "random_stream::keyed(options_.seed, now)", "all members draw the same timeouts"),
    ("raft.cpp", "random_stream::keyed(options_.seed, options_.self.value, now)", "random_stream::keyed(options_.self.value, now)", "the seed is ignored"),
    ("raft.cpp", "draw.below(longest)", "draw.below(1)", "timeouts are not drawn"),
    ("raft.cpp", "  if (body.previous < state_.commit) { // the same there: it is committed", "  if (false) {", "entries before the snapshot are looked up"),
    ("raft.cpp", "  if (state_.stored.term_at(body.previous) != body.previous_term) {", "  if (false) {", "entries follow another one"),
    ("raft.cpp", "  if (state_.stored.term_at(body.previous) != body.previous_term) {", "  if (!state_.stored.term_at(body.previous)) {", "entries follow one of another term"),
    ("raft.cpp", "    if (state_.stored.term_at(each.index) != each.term) //", "    if (!state_.stored.term_at(each.index)) //", "entries of an old leader stay"),
    ("raft.cpp", "    if (state_.stored.term_at(each.index) != each.term) //", "    if (true) //", "an old message takes what is newer"),
    ("raft.cpp", "  commit(now, std::min(body.commit, known));", "  commit(now, std::min(body.commit, state_.stored.last()));", "what another leader wrote is taken for committed"),
    ("raft.cpp", "  commit(now, std::min(body.commit, known));", "  commit(now, known);", "what has come is taken for committed"),
    ("raft.cpp", "  say(now, msg.from, append_reply{true, known, {}});", "  say(now, msg.from, append_reply{true, state_.stored.last(), {}});", "what another leader wrote is acknowledged"),
    ("raft.cpp", "same, state_.stored.term_at(same).value_or(raft::term{})", "body.previous, state_.stored.term_at(same).value_or(raft::term{})", "a refusal says nothing of the log's length"),
    ("raft.cpp", "same, state_.stored.term_at(same).value_or(raft::term{})", "same, msg.term", "a refusal says nothing of terms"),
    ("raft.cpp", "leads() || body.snapshot.term > msg.term", "leads()", "a snapshot of a later term is taken"),
    ("raft.cpp", "    state_.commit = body.snapshot.index;\n", "", "a snapshot is not committed"),
    ("raft.cpp", "now.written = std::min(now.written.value_or(fresh.index), fresh.index);", "now.written = fresh.index;", "only the last entry of a message is persisted"),
    ("raft.cpp", "std::max(state_.others[to].next.value - 1, state_.stored.snapshot.index.value)", "state_.others[to].next.value - 1", "a heartbeat to who lacks a snapshot names an entry that is gone"),
    ("raft.cpp", "    other.next = std::min(other.next, next(same));", "    other.next = next(same);", "an old refusal leads forwards"),
    ("raft.cpp", "    other.next = std::min(other.next, next(same));", "    other.next.value -= other.next.value > 1 ? 1 : 0;", "it goes back an entry at a time"),
    ("raft.cpp", "    const log_index same = state_.stored.last_not_after(body.index, body.at);", "    const log_index same = body.index;", "the leader does not look for the term"),
    ("raft.cpp", "const log_index upto = copies[options_.members.size() / 2];", "const log_index upto = copies[options_.members.size() / 2 - (options_.members.size() > 1 ? 1 : 0)];", "one copy less than a majority commits"),
    ("raft.cpp", "const log_index upto = copies[options_.members.size() / 2];", "const log_index upto = copies.back();", "all copies are needed"),
    ("raft.cpp", "  if (state_.stored.term_at(upto) == state_.stored.term)\n", "", "copies commit entries of older terms (figure 8)"),
    ("raft.cpp", "  std::vector<log_index> copies{state_.stored.last()};", "  std::vector<log_index> copies{log_index{}};", "its own copy does not count"),
    ("raft.cpp", " || own.vote != now.vote)", ")", "a vote is not persisted"),
    ("raft.cpp", " || own.term != now.term || own.vote", " || own.vote", "a term without a vote is not persisted"),
    ("raft.cpp", "if (now.replaced || now.written || own", "if (now.written || own", "a snapshot is not persisted"),
    ("raft.cpp", "if (now.replaced || now.written || own", "if (now.replaced || own", "entries are not persisted"),
    ("raft.cpp", "now.replaced ? own.snapshot.index : log_index{now.written->value - 1}", "now.written ? log_index{now.written->value - 1} : own.snapshot.index", "with a snapshot, old entries are not persisted again",
     "no call replaces the snapshot and writes an entry"),
    ("raft.cpp", "  std::ranges::move(now.out, std::back_inserter(out));", "  std::ranges::move(now.out, std::inserter(out, out.begin()));", "answers go before the disk"),
    ("raft.cpp", "  if (options_.members.size() == 1)\n    state_.deadline = now;\n", "", "a member alone waits for an election timeout"),
    ("raft.cpp", "(words += each.words.size()) > most_words && each.index != other.next", "false", "messages have no limit"),
    ("raft.cpp", "(words += each.words.size()) > most_words && each.index != other.next", "(words += each.words.size()) > most_words", "a big entry is never sent"),
    ("raft.cpp", "(words += each.words.size()) > most_words && each.index != other.next", "each.index != other.next", "one entry a message"),
    ("raft_log.cpp", "each.term < since || each.term > in", "each.term > in", "terms may fall"),
    ("raft_log.cpp", "each.term < since || each.term > in", "each.term < since", "entries of a later term than their leader's",
     "terms do not fall, so the last one tells, and it is compared"),
    ("raft_log.cpp", "each.index != next(previous) || ", "", "logs may have gaps"),
    ("raft_log.cpp", "    since = each.term;\n", "", "a term may fall within a message"),
    ("raft_log.cpp", "    disk.log.clear();\n", "", "what a snapshot replaces stays on the disk"),
    ("raft_log.cpp", "!same || old.index <= upto.index", "old.index <= upto.index", "entries follow a snapshot of another history"),
    ("raft_log.cpp", "!same || old.index <= upto.index", "true", "a snapshot takes what follows it"),
    ("raft_log.cpp", "const bool same = term_at(upto.index) == upto.term;", "const bool same = term_at(upto.index).has_value();", "an entry of another term is taken for the snapshot's"),
]

OPERATORS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "), (" && ", " || "),
             (" || ", " && "), (" + 1", " + 2"), (" - 1", " - 0"), ("(!", "("), (" || !", " || "), ("true", "false"), ("false", "true"),
             ("std::min(", "std::max("), ("std::max(", "std::min("), ("--", "++")]
# Left out: calls and assignments, which declare nothing.
STATEMENT = re.compile(r" +(?:return;|(?!return )[\w:.*]+(?:\(.*| = .*|\+\+|--);)(?: //.*)?")
# Of those by operator, which nothing notices, and why.
REASONS = {
    "bool granted = false;: `true` for `false`": "both branches set it",
    "return;: left out (2)": "a member alone has nobody to ask",
    "if (index < snapshot.index ¦¦ index > last()): `<=` for `<`": "the snapshot's own index is answered before",
}


def unique(lines, number, changed):
    """(text, replacement) of a change to one line, with as many lines before it as make the text the only one."""
    whole = "\n".join(lines)
    for first in range(number, -1, -1):
        before = lines[first:number]
        text = "\n".join(before + [lines[number]]) + "\n"
        if whole.count(text) == 1:
            return text, "\n".join(before + [changed]) + "\n"
    raise ValueError(lines[number])


def by_operator(file):
    lines = (ROOT / "protocols" / file).read_text().split("\n")
    end = next((n for n, line in enumerate(lines) if line.startswith("void member::check()")), len(lines))
    seen = {}
    for number, line in enumerate(lines[:end]):
        code = line.split(" //")[0]
        if not line.startswith("  ") or "#include" in line or code.strip().startswith("//"):
            continue
        changes = [(code[:at.start()] + new + code[at.end():], f"`{new.strip()}` for `{old.strip()}`")
                   for old, new in OPERATORS for at in re.finditer(re.escape(old), code)]
        if STATEMENT.fullmatch(line):
            changes.append((line[:len(line) - len(line.lstrip())] + "{}", "left out"))
        for changed, how in changes:
            note = f"{code.strip()}: {how}".replace("|", "¦")
            seen[note] = seen.get(note, 0) + 1
            if seen[note] > 1:
                note += f" ({seen[note]})"
            reason = REASONS.get(note)
            yield (file, *unique(lines, number, changed), note, *([reason] if reason else []))


MUTANTS = BY_HAND + [mutant for file in ("raft.cpp", "raft_log.cpp") for mutant in by_operator(file)]
