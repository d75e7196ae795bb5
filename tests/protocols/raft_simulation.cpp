// SPDX-License-Identifier: BSD-3-Clause
// The world of the members: events in virtual time, and the checkers that look on.
#include "tests/protocols/raft_simulation.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "protocols/random_stream.hpp"

namespace troupe::protocols::raft::test {
namespace {

constexpr nanoseconds ms = 1'000'000, s = 1'000 * ms;
constexpr nanoseconds faults_end = 8 * s, elected_by = faults_end + 10 * s, proposals_end = elected_by + 2 * s,
                      end = proposals_end + s;
constexpr std::uint64_t proposals = 40;
constexpr std::size_t kept_lines = 200;

/// What all members agree on: the checkers' own.
class history {
public:
  struct decision {
    entry what;
    term by; ///< of the member that said first that it is decided
    std::uint64_t digest;
  };
  std::vector<decision> decisions;
  std::map<term, member_id> leaders;
  std::map<std::pair<member_id, term>, member_id> votes;
  std::map<std::pair<log_index, term>, std::pair<payload, term>> written; ///< an entry's words, and the term before it
  std::set<std::uint64_t> proposed, decided;

  static std::uint64_t digest_after(std::uint64_t before, const entry& what) {
    return random_stream::keyed(before, what.index.value, what.term.value, what.words.empty() ? 0 : what.words.front()).next();
  }
  std::uint64_t digest_at(log_index index) const { return index.value == 0 ? 0 : decisions[index.value - 1].digest; }
};

struct node {
  member_id id{};
  stored disk{};
  std::optional<member> machine{};
  std::deque<effect> todo{};
  std::optional<persist> writing{};
  std::uint64_t life = 0;
  log_index applied{};
  std::uint64_t digest = 0;
  nanoseconds stands_until = 0, clock = 0; ///< its own clock is ahead by that
};

class world {
public:
  world(const schedule& what, const carrier& by) : what_(what), by_(by), draw_(random_stream::keyed(what.seed, 1)) {
    for (std::uint32_t i = 0; i < what.members; ++i)
      members_.push_back({i});
    nodes_.resize(what.members);
    for (std::uint32_t i = 0; i < what.members; ++i) {
      nodes_[i].id = {i};
      start(nodes_[i]);
      at(static_cast<nanoseconds>(draw_.below(20 * ms)), [this, i] { tick(nodes_[i]); });
    }
    at(50 * ms, [this] { propose(); });
    at(200 * ms, [this] { harm(); });
    at(faults_end, [this] { calm(); });
    at(elected_by, [this] { expect_a_leader(); });
  }

  outcome play() {
    while (!events_.empty() && out_.problems.empty() && events_.begin()->first.first <= end) {
      const auto first = events_.begin();
      now_ = first->first.first;
      const auto happens = std::move(first->second);
      events_.erase(first);
      happens();
    }
    if (out_.problems.empty())
      expect_all_decided();
    out_.decided = history_.decisions.size();
    return std::move(out_);
  }

private:
  // -- time

  void at(nanoseconds when, std::function<void()> happens) { events_.emplace(std::pair(when, ++planned_), std::move(happens)); }
  nanoseconds within(nanoseconds longest) {
    return 1 + static_cast<nanoseconds>(draw_.below(static_cast<std::uint64_t>(longest)));
  }
  bool faulty() const { return now_ < faults_end; }
  void wrong(const std::string& why) { out_.problems.push_back(fmt::format("at {} ms: {}", now_ / ms, why)); }
  void line(std::string text) {
    if (out_.lines.size() == kept_lines)
      out_.lines.erase(out_.lines.begin());
    out_.lines.push_back(fmt::format("{:>6} {}", now_ / ms, std::move(text)));
  }

  // -- members

  options about(const node& which) const { return {.self = which.id, .members = members_, .seed = what_.seed}; }

  void start(node& which) {
    which.clock = within(1'000 * s);
    which.machine.emplace(about(which), which.disk, now_ + which.clock);
    which.applied = which.disk.snapshot.index;
    which.digest = which.disk.snapshot.words.empty() ? 0 : which.disk.snapshot.words.front();
    line(fmt::format("{} starts in term {}", which.id.value, which.disk.term.value));
  }

  void crash(node& which) {
    if (!which.machine)
      return;
    if (which.writing) {
      persist part = std::move(*which.writing);
      const std::uint64_t fate = draw_.below(3); // nothing of it, all of it, or some
      if (fate == 2 && !part.snapshot && !part.entries.empty())
        part.entries.resize(draw_.below(part.entries.size()));
      if (fate != 0)
        write(which, part);
      ++out_.cut_short;
    }
    which.writing.reset();
    which.todo.clear();
    which.machine.reset();
    ++which.life;
    line(fmt::format("{} crashes", which.id.value));
  }

  template <class Input>
  void give(node& which, const Input& input) {
    const bool led = which.machine->leads();
    const effects did = which.machine->on(input, now_ + which.clock);
    which.machine->check();
    if (draw_.hit(what_.hop)) {
      const raft::state before = which.machine->state();
      which.machine.emplace(about(which), before);
    }
    if (which.machine->leads() && !led)
      expect_only_leader(which, which.machine->state().stored.term);
    which.todo.insert(which.todo.end(), did.begin(), did.end());
    perform(which);
  }

  void tick(node& which) {
    if (which.machine && now_ >= which.stands_until)
      give(which, raft::tick{});
    at(now_ + 20 * ms, [this, &which] { tick(which); });
  }

  void perform(node& which) {
    while (!which.todo.empty() && !which.writing) {
      const effect next = std::move(which.todo.front());
      which.todo.pop_front();
      std::visit([&](const auto& each) { act(which, each); }, next);
    }
  }

  // -- effects

  void act(node& which, const persist& msg) {
    which.writing = by_.disk(msg);
    at(now_ + within(faulty() ? what_.disk : 5 * ms), [this, &which, life = which.life] {
      if (which.life != life)
        return;
      write(which, *which.writing);
      which.writing.reset();
      perform(which);
    });
  }
  void write(node& which, const persist& what) {
    keep(which.disk, what);
    if (!sound(which.disk))
      wrong(fmt::format("the disk of {} is not sound", which.id.value));
    for (const entry& each : what.entries)
      expect_log_matching(which, each);
  }

  void act(node& which, const send& msg) {
    if (const auto* const reply = std::get_if<vote_reply>(&msg.message.body); reply != nullptr && reply->granted && !reply->pre)
      expect_one_vote(which, msg.message.term, msg.message.to);
    for (std::uint64_t copies = faulty() && draw_.hit(what_.repeat) ? 2 : 1; copies > 0; --copies) {
      if (faulty() && draw_.hit(what_.loss))
        continue;
      const bool late = faulty() && draw_.hit(what_.late);
      arrive(now_ + within(late ? 2 * s : faulty() ? what_.delay : 5 * ms), by_.wire(msg.message));
    }
  }
  void arrive(nanoseconds when, message msg) {
    at(when, [this, msg = std::move(msg)] {
      node& to = nodes_[msg.to.value];
      if (cut_.contains({msg.from, msg.to}) || !to.machine)
        return;
      if (now_ < to.stands_until)
        arrive(to.stands_until, msg);
      else
        give(to, msg);
    });
  }

  void act(node& which, const committed& msg) {
    for (const entry& each : msg.entries) {
      if (each.index.value != which.applied.value + 1)
        return wrong(fmt::format("{} decides {} after {}", which.id.value, each.index.value, which.applied.value));
      which.applied = each.index;
      which.digest = history::digest_after(which.digest, each);
      expect_one_history(which, each);
    }
    if (what_.compact_every != 0
        && which.applied.value >= which.machine->state().stored.snapshot.index.value + what_.compact_every)
      give(which, compaction{which.applied, {which.digest}});
  }
  void act(node& which, const installed& msg) {
    ++out_.snapshots;
    if (msg.snapshot.index <= which.applied)
      wrong(fmt::format("{} installs {} after {}", which.id.value, msg.snapshot.index.value, which.applied.value));
    else if (msg.snapshot.index.value > history_.decisions.size())
      wrong(fmt::format("{} installs {}, which is not decided", which.id.value, msg.snapshot.index.value));
    else if (msg.snapshot.words != payload{history_.digest_at(msg.snapshot.index)})
      wrong(fmt::format("{} installs another history up to {}", which.id.value, msg.snapshot.index.value));
    which.applied = msg.snapshot.index;
    which.digest = history_.digest_at(which.applied);
  }
  void act(node& which, const leads& msg) {
    ++out_.elections;
    last_election_ = now_;
    line(fmt::format("{} leads term {}", which.id.value, msg.term.value));
    expect_only_leader(which, msg.term);
    expect_complete(which, msg.term);
    if (which.disk.term != msg.term || which.disk.vote != which.id)
      wrong(fmt::format("{} leads term {} before its own vote is on its disk", which.id.value, msg.term.value));
  }
  void act(node& which, const follows& msg) {
    line(msg.who ? fmt::format("{} follows {}", which.id.value, msg.who->value)
                 : fmt::format("{} follows nobody", which.id.value));
    if (msg.who == which.id)
      wrong(fmt::format("{} follows itself", which.id.value));
  }

  // -- checkers

  void expect_only_leader(const node& which, term in) {
    const auto [known, first] = history_.leaders.try_emplace(in, which.id);
    if (known->second != which.id)
      wrong(fmt::format("{} and {} lead term {}", known->second.value, which.id.value, in.value));
  }
  void expect_one_vote(const node& which, term in, member_id to) {
    const auto [known, first] = history_.votes.try_emplace({which.id, in}, to);
    if (known->second != to)
      wrong(fmt::format("{} votes for {} and {} in term {}", which.id.value, known->second.value, to.value, in.value));
    if (which.disk.term < in || (which.disk.term == in && which.disk.vote != to))
      wrong(fmt::format("{} votes in term {} before it is on its disk", which.id.value, in.value));
  }
  /// Equal index and term: equal words, and the same before it; so all that is before it is equal.
  void expect_log_matching(const node& which, const entry& each) {
    const auto before = which.disk.term_at({each.index.value - 1});
    if (!before)
      return;
    const auto [known, first] = history_.written.try_emplace({each.index, each.term}, each.words, *before);
    if (known->second != std::pair(each.words, *before))
      wrong(fmt::format("entry {} of term {} differs at {}", each.index.value, each.term.value, which.id.value));
  }
  bool on_disk(const node& which, const entry& each) const {
    return each.index <= which.disk.snapshot.index || which.disk.term_at(each.index) == each.term;
  }
  void expect_one_history(const node& which, const entry& each) {
    auto& all = history_.decisions;
    if (each.index.value <= all.size()) {
      if (all[each.index.value - 1].what != each)
        wrong(fmt::format("{} decides another entry {}", which.id.value, each.index.value));
      return;
    }
    if (each.index.value != all.size() + 1)
      return wrong(fmt::format("{} decides {}, and nobody did {}", which.id.value, each.index.value, all.size() + 1));
    all.push_back({each, which.machine->state().stored.term, which.digest});
    const auto copies = std::ranges::count_if(nodes_, [&](const node& other) { return on_disk(other, each); });
    if (2 * static_cast<std::size_t>(copies) <= nodes_.size())
      wrong(fmt::format("{} decides {}, which is on {} disks", which.id.value, each.index.value, copies));
    if (!each.words.empty() && !history_.proposed.contains(each.words.front()))
      wrong(fmt::format("{} decides {}, which nobody proposed", which.id.value, each.index.value));
    if (!each.words.empty())
      history_.decided.insert(each.words.front());
  }
  void expect_complete(const node& which, term in) {
    for (const auto& [each, by, digest] : history_.decisions)
      if (by < in && !on_disk(which, each))
        return wrong(fmt::format("{} leads term {} without entry {}", which.id.value, in.value, each.index.value));
  }
  void expect_a_leader() {
    leader_at_rest_ = nullptr;
    for (node& each : nodes_)
      if (each.machine && each.machine->leads() && !apart_.contains(each.id))
        leader_at_rest_ = &each;
    if (leader_at_rest_ == nullptr)
      wrong("ten election timeouts after the last fault, nobody leads");
  }
  void expect_all_decided() {
    if (last_election_ > elected_by)
      wrong("a leader did not stay, and there was no fault");
    if (history_.decided.size() < proposals)
      wrong(fmt::format("{} of {} proposals are decided", history_.decided.size(), proposals));
    for (const node& each : nodes_)
      if (!apart_.contains(each.id)
          && (each.applied.value != history_.decisions.size() || each.digest != history_.digest_at(each.applied)))
        wrong(fmt::format("{} has applied {} of {}", each.id.value, each.applied.value, history_.decisions.size()));
  }

  // -- the client

  void propose() {
    node& to = nodes_[draw_.below(nodes_.size())];
    if (to.machine && to.machine->leads() && now_ >= to.stands_until) {
      raft::proposal some;
      for (std::uint64_t id = 1; id <= proposals && some.entries.size() < 3; ++id)
        if (!history_.decided.contains(id) && (now_ > faults_end || id <= proposals / 2) && draw_.hit(0.3)) {
          some.entries.push_back({id});
          history_.proposed.insert(id);
        }
      give(to, some);
    }
    if (now_ < proposals_end)
      at(now_ + within(faulty() ? 100 * ms : 40 * ms), [this] { propose(); });
  }

  // -- faults

  node& any() { return nodes_[draw_.below(nodes_.size())]; }

  void harm() {
    if (!faulty())
      return;
    at(now_ + within(400 * ms), [this] { harm(); });
    const std::uint64_t kind = draw_.below(4);
    if (kind == 0 && what_.crashes) {
      node& victim = any();
      crash(victim);
      at(now_ + within(1 * s), [this, &victim] {
        if (!victim.machine && (faulty() || !apart_.contains(victim.id)))
          start(victim);
      });
    } else if (kind == 1 && what_.cuts) {
      const auto link = std::pair(any().id, any().id);
      cut_.insert(link);
      line(fmt::format("cut {} -> {}", link.first.value, link.second.value));
      at(now_ + within(2 * s), [this, link] { mend({link}); });
    } else if (kind == 2 && what_.splits) {
      split();
    } else if (kind == 3 && what_.pauses) {
      node& victim = any();
      victim.stands_until = now_ + within(2 * s);
      line(fmt::format("{} stands still", victim.id.value));
    }
  }
  void split() {
    std::set<std::pair<member_id, member_id>> links;
    const std::uint64_t side = draw_.below(std::uint64_t{1} << nodes_.size());
    for (const node& a : nodes_)
      for (const node& b : nodes_)
        if ((side >> a.id.value & 1) != (side >> b.id.value & 1))
          links.insert({a.id, b.id});
    cut_.insert(links.begin(), links.end());
    line(fmt::format("split by {:b}", side));
    at(now_ + within(2 * s), [this, links] { mend(links); });
  }
  void mend(const std::set<std::pair<member_id, member_id>>& links) {
    if (faulty())
      for (const auto& link : links)
        cut_.erase(link);
  }
  void calm() {
    using rest = schedule::rest;
    cut_.clear();
    for (std::uint64_t left = what_.after == rest::whole ? 0 : (nodes_.size() - 1) / 2; left > 0; --left)
      apart_.insert(any().id);
    for (node& each : nodes_) {
      each.stands_until = 0;
      if (apart_.contains(each.id) && what_.after == rest::dead)
        crash(each);
      else if (!each.machine)
        start(each);
      for (const node& other : nodes_) {
        if (apart_.contains(each.id) && what_.after == rest::deaf)
          cut_.insert({other.id, each.id});
        if (apart_.contains(each.id) && what_.after == rest::mute)
          cut_.insert({each.id, other.id});
      }
    }
    line("calm");
  }

  schedule what_;
  carrier by_;
  random_stream draw_;
  nanoseconds now_ = 0, last_election_ = 0;
  std::uint64_t planned_ = 0;
  std::map<std::pair<nanoseconds, std::uint64_t>, std::function<void()>> events_;
  std::vector<member_id> members_;
  std::vector<node> nodes_;
  std::set<std::pair<member_id, member_id>> cut_;
  std::set<member_id> apart_; ///< out of reach once it is calm
  node* leader_at_rest_ = nullptr;
  history history_;
  outcome out_;
};

} // namespace

schedule schedule_of(std::uint64_t seed) {
  auto draw = random_stream::keyed(seed, 2);
  const auto some = [&](double most) { return draw.hit(0.5) ? 0 : most * draw.uniform(); };
  const std::uint64_t size = draw.below(20);
  schedule out{.seed = seed,
               .members = size == 0   ? 1U
                          : size < 11 ? 3U
                                      : 5U,
               .loss = some(0.3),
               .repeat = some(0.3),
               .late = some(0.2),
               .delay = draw.hit(0.5) ? 5 * ms : 100 * ms,
               .disk = draw.hit(0.5) ? 5 * ms : 200 * ms,
               .crashes = draw.hit(0.6),
               .cuts = draw.hit(0.5),
               .splits = draw.hit(0.5),
               .pauses = draw.hit(0.4),
               .compact_every = draw.hit(0.5) ? 0 : 1 + draw.below(10),
               .hop = some(0.2),
               .after = static_cast<schedule::rest>(draw.below(4))};
  return out;
}

std::string describe(const schedule& what) {
  return fmt::format("{} members, loss {:.2f}, repeats {:.2f}, late {:.2f}, delay {} ms, disk {} ms{}{}{}{}, compaction {}, hops "
                     "{:.2f}, then {}",
                     what.members, what.loss, what.repeat, what.late, what.delay / ms, what.disk / ms,
                     what.crashes ? ", crashes" : "", what.cuts ? ", cuts" : "", what.splits ? ", splits" : "",
                     what.pauses ? ", pauses" : "", what.compact_every, what.hop,
                     std::vector<std::string>{"whole", "dead", "deaf", "mute"}[static_cast<std::size_t>(what.after)]);
}

outcome run(const schedule& what, const carrier& by) {
  return world(what, by).play();
}

schedule shrink(schedule what) {
  const std::vector<std::function<void(schedule&)>> simpler{[](schedule& x) { x.crashes = false; },
                                                            [](schedule& x) { x.cuts = false; },
                                                            [](schedule& x) { x.splits = false; },
                                                            [](schedule& x) { x.pauses = false; },
                                                            [](schedule& x) { x.loss = 0; },
                                                            [](schedule& x) { x.repeat = 0; },
                                                            [](schedule& x) { x.late = 0; },
                                                            [](schedule& x) { x.hop = 0; },
                                                            [](schedule& x) { x.delay = 5 * ms; },
                                                            [](schedule& x) { x.disk = 5 * ms; },
                                                            [](schedule& x) { x.members = 3; },
                                                            [](schedule& x) { x.compact_every = 0; },
                                                            [](schedule& x) { x.after = schedule::rest::whole; }};
  for (const auto& change : simpler) {
    schedule less = what;
    change(less);
    if (!run(less).problems.empty())
      what = less;
  }
  return what;
}

} // namespace troupe::protocols::raft::test
