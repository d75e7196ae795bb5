// SPDX-License-Identifier: BSD-3-Clause
// Field by field between message.hpp and lane.capnp.
#include "protocols/wire/schema.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "protocols/overloaded.hpp"

namespace troupe::protocols::wire {
namespace {

static_assert(schema::VERSION == protocol_version);

// -- parts

void put(schema::Range::Builder to, const range& r) {
  to.setBegin(r.begin);
  to.setEnd(r.end);
}
range get(schema::Range::Reader from) {
  return {from.getBegin(), from.getEnd()};
}

void put(schema::PushId::Builder to, const push_id& id) {
  to.setWorker(id.worker.value);
  to.setIncarnation(id.incarnation.value);
  to.setClock(id.clock.value);
}
push_id get(schema::PushId::Reader from) {
  return {{from.getWorker()}, {from.getIncarnation()}, {from.getClock()}};
}

void put(schema::SquaredNorm::Builder to, const squared_norm& of) {
  to.setHigh(of.high);
  to.setLow(of.low);
}
/// Most jobs do not clip: there they take no room.
template <class Builder>
void put_unless_none(Builder to, const squared_norm& of) {
  if (of != squared_norm{})
    put(to.initSquares(), of);
}
squared_norm get(schema::SquaredNorm::Reader from) {
  return {from.getHigh(), from.getLow()};
}

void put(schema::Push::Builder to, const push& p) {
  to.setEpoch(p.epoch.value);
  put(to.initId(), p.id);
  to.setBase(p.base.value);
  to.setSamples(p.samples);
  to.setLoss(p.loss);
  to.setCompute(p.compute);
  to.setFinite(p.finite);
  to.setWeight(p.weight);
  to.setAt(p.at);
  to.setIgnored(p.ignored);
  put_unless_none(to, p.squares);
  to.setApplied(p.applied);
}
push get(schema::Push::Reader from) {
  return {.epoch = {from.getEpoch()},
          .id = get(from.getId()),
          .base = {from.getBase()},
          .gradient = {},
          .samples = from.getSamples(),
          .loss = from.getLoss(),
          .compute = from.getCompute(),
          .finite = from.getFinite(),
          .weight = from.getWeight(),
          .at = from.getAt(),
          .ignored = from.getIgnored(),
          .squares = get(from.getSquares()),
          .applied = from.getApplied()};
}

void put(capnp::List<std::uint32_t>::Builder to, const std::vector<worker_id>& workers) {
  for (unsigned i = 0; i < to.size(); ++i)
    to.set(i, workers[i].value);
}
/// Cuts a list that is too long before allocating; find_fault then refuses it.
std::vector<worker_id> get(capnp::List<std::uint32_t>::Reader from) {
  std::vector<worker_id> workers(std::min<std::size_t>(from.size(), max_listed_workers + 1));
  for (unsigned i = 0; i < workers.size(); ++i)
    workers[i] = {from[i]};
  return workers;
}

// -- messages, in the order of the union

void put(schema::Hello::Builder to, const hello& m) {
  to.setMagic(schema::MAGIC);
  to.setJobKey(m.job_key);
  to.setNode(m.node);
  to.setVersion(m.version);
  to.setRole(static_cast<schema::Hello::Role>(m.as));
  to.setLife(m.life);
  to.setSession(m.session);
}
result<content> get(schema::Hello::Reader from) {
  if (from.getMagic() != schema::MAGIC)
    return error{errc::bad_frame, fmt::format("hello begins with {:#018x}, not with {:#018x}: not a lane", from.getMagic(),
                                              std::uint64_t{schema::MAGIC})};
  if (from.getRole() > schema::Hello::Role::ACCEPTS)
    return error{errc::bad_frame, fmt::format("hello has the unknown role {}", static_cast<unsigned>(from.getRole()))};
  return content{hello{static_cast<hello::role>(from.getRole()), from.getJobKey(), from.getNode(), from.getVersion(),
                       from.getLife(), from.getSession()}};
}

std::string_view cut(const std::string& reason) {
  return std::string_view(reason).substr(0, max_reason_bytes);
}

void put(schema::Bye::Builder to, const bye& m) {
  std::ranges::copy(cut(m.reason), to.initReason(static_cast<unsigned>(cut(m.reason).size())).begin());
  to.setRetry(m.retry);
}
result<content> get(schema::Bye::Reader from) {
  const capnp::Text::Reader text = from.getReason();
  if (text.size() > max_reason_bytes)
    return error{errc::bad_frame,
                 fmt::format("bye's reason has {} bytes, at most {} are allowed", text.size(), max_reason_bytes)};
  std::string reason(text.begin(), text.end());
  // It is shown on terminals.
  std::ranges::replace_if(
      reason, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return content{bye{std::move(reason), from.getRetry()}};
}

void put(schema::Lending::Builder to, const lending& m) {
  to.setProcess(m.process);
  to.setSecretAt(m.secret_at);
  auto secret = to.initSecret();
  secret.setHigh(m.secret[0]);
  secret.setLow(m.secret[1]);
}

result<content> get(schema::Lending::Reader from) {
  const auto secret = from.getSecret();
  const lending out{from.getProcess(), from.getSecretAt(), {secret.getHigh(), secret.getLow()}};
  if (out.secret == lending{}.secret)
    return error{errc::bad_frame, "a process lends its memory without a secret"};
  return content{out};
}

void put(schema::PushPart::Builder to, const push_part& m) {
  to.setTo(m.to.value);
  to.setEpoch(m.epoch.value);
  put(to.initId(), m.id);
  put(to.initWhere(), m.where);
  to.setForm(static_cast<std::uint8_t>(m.as));
  to.setBytes(m.bytes);
}
push_part get(schema::PushPart::Reader from) {
  return {{from.getTo()}, {from.getEpoch()}, get(from.getId()), get(from.getWhere()), static_cast<kernels::form>(from.getForm()),
          from.getBytes()};
}

void put(schema::PushEnd::Builder to, const push_end& m) {
  to.setTo(m.to.value);
  put(to.initPush(), m.push);
  to.setParts(m.parts);
}
push_end get(schema::PushEnd::Reader from) {
  return {{from.getTo()}, get(from.getPush()), from.getParts()};
}

void put(schema::ParamsPart::Builder to, const params_part& m) {
  put(to.initTo(static_cast<unsigned>(m.to.size())), m.to);
  to.setFrom(m.from.value);
  to.setEpoch(m.params.epoch.value);
  to.setVersion(m.params.ver.value);
  to.setPosition(m.params.position);
  to.setPeriod(m.params.period);
  to.setKey(m.params.key);
  to.setMarked(m.params.marked.value);
  put(to.initWhere(), m.where);
  to.setForm(static_cast<std::uint8_t>(m.as));
  to.setBase(m.base.value);
  to.setBytes(m.bytes);
}
params_part get(schema::ParamsPart::Reader from) {
  return {get(from.getTo()),
          {from.getFrom()},
          {{from.getEpoch()}, {from.getVersion()}, from.getKey(), from.getPosition(), from.getPeriod(), {from.getMarked()}, {}},
          get(from.getWhere()),
          static_cast<kernels::form>(from.getForm()),
          {from.getBase()},
          from.getBytes()};
}

void put(schema::PartialPart::Builder to, const partial_part& m) {
  to.setTo(m.to.value);
  to.setFrom(m.from.value);
  to.setVersion(m.ver.value);
  put(to.initWhere(), m.where);
  to.setEmpty(m.empty);
  to.setDecision(m.decision);
  to.setForm(static_cast<std::uint8_t>(m.as));
  to.setBytes(m.bytes);
}
partial_part get(schema::PartialPart::Reader from) {
  return {{from.getTo()},
          {from.getFrom()},
          {from.getVersion()},
          get(from.getWhere()),
          from.getEmpty(),
          from.getDecision(),
          static_cast<kernels::form>(from.getForm()),
          from.getBytes()};
}

void put(schema::Arrival::Builder to, const addressed<arrival>& m) {
  to.setTo(m.to.value);
  to.setHolder(m.message.holder.value);
  put(to.initPush(), m.message.push);
}
addressed<arrival> get(schema::Arrival::Reader from) {
  return {{from.getTo()}, {{from.getHolder()}, get(from.getPush())}};
}

void put(schema::Close::Builder to, const step_rule& step) {
  to.setStep(static_cast<schema::Close::Step>(step.method));
  to.setLrScale(step.lr_scale);
  to.setLr(step.lr);
  to.setMomentum(step.momentum);
  to.setNesterov(step.nesterov);
  to.setParameterWeight(step.parameter_weight);
  to.setThreshold(step.threshold);
}
/// A kind that this program does not know is kept as it is: find_fault refuses it.
step_rule step_of(schema::Close::Reader from) {
  return {.method = static_cast<step_rule::kind>(from.getStep()),
          .lr_scale = from.getLrScale(),
          .lr = from.getLr(),
          .momentum = from.getMomentum(),
          .nesterov = from.getNesterov(),
          .parameter_weight = from.getParameterWeight(),
          .threshold = from.getThreshold()};
}

void put(schema::Close::Builder to, const addressed<close>& m) {
  const close& c = m.message;
  to.setTo(m.to.value);
  to.setEpoch(c.epoch.value);
  to.setVersion(c.ver.value);
  auto parts = to.initContributions(static_cast<unsigned>(c.contributions.size()));
  for (unsigned i = 0; i < parts.size(); ++i) {
    const contribution& part = c.contributions[i];
    parts[i].setWorker(part.id.worker.value);
    parts[i].setIncarnation(part.id.incarnation.value);
    parts[i].setClock(part.id.clock.value);
    parts[i].setWeight(part.weight);
  }
  to.setKeep(c.keep);
  put(to, c.step);
  to.setSamplesBefore(c.samples_before);
  to.setWorkers(c.workers);
  put(to.initSendTo(static_cast<unsigned>(c.send_to.size())), c.send_to);
  to.setSendEpoch(c.send_epoch.value);
  to.setPosition(c.position);
  to.setPeriod(c.period);
  to.setKey(c.key);
  to.setCheckpoint(c.checkpoint);
  to.setView(c.view);
  to.setDecision(c.decision);
  if (c.squares_before != squared_norm{})
    put(to.initSquaresBefore(), c.squares_before);
}
addressed<close> get(schema::Close::Reader from) {
  close c{.epoch = {from.getEpoch()},
          .ver = {from.getVersion()},
          .contributions = {},
          .keep = from.getKeep(),
          .step = step_of(from),
          .samples_before = from.getSamplesBefore(),
          .workers = from.getWorkers(),
          .send_to = get(from.getSendTo()),
          .send_epoch = {from.getSendEpoch()},
          .key = from.getKey(),
          .position = from.getPosition(),
          .period = from.getPeriod()};
  c.checkpoint = from.getCheckpoint();
  c.view = from.getView();
  c.decision = from.getDecision();
  c.squares_before = get(from.getSquaresBefore());
  const auto parts = from.getContributions();
  c.contributions.resize(std::min<std::size_t>(parts.size(), max_listed_workers + 1));
  for (unsigned i = 0; i < c.contributions.size(); ++i)
    c.contributions[i] = {{{parts[i].getWorker()}, {parts[i].getIncarnation()}, {parts[i].getClock()}}, parts[i].getWeight()};
  return {{from.getTo()}, std::move(c)};
}

void put(schema::SendOrder::Builder to, const addressed<send_order>& m) {
  to.setTo(m.to.value);
  to.setEpoch(m.message.epoch.value);
  to.setVersion(m.message.ver.value);
  put(to.initWorkers(static_cast<unsigned>(m.message.to.size())), m.message.to);
  to.setPosition(m.message.position);
  to.setPeriod(m.message.period);
  to.setKey(m.message.key);
}
addressed<send_order> get(schema::SendOrder::Reader from) {
  return {{from.getTo()},
          {{from.getEpoch()}, {from.getVersion()}, from.getKey(), get(from.getWorkers()), from.getPosition(), from.getPeriod()}};
}

void put(schema::DropOrder::Builder to, const addressed<drop_order>& m) {
  to.setTo(m.to.value);
  put(to.initId(), m.message.id);
}
addressed<drop_order> get(schema::DropOrder::Reader from) {
  return {{from.getTo()}, {get(from.getId())}};
}

void put(schema::PeerPart::Sum::Builder to, const peer_message& m) {
  to.setKind(static_cast<schema::PeerPart::Sum::Kind>(m.is));
  to.setEpoch(m.epoch.value);
  to.setFirst(m.part.first);
  to.setLast(m.part.last);
  to.setOf(m.part.of);
  to.setStage(m.stage);
  to.setSamples(m.facts.samples);
  to.setLoss(m.facts.loss);
  to.setIgnored(m.facts.ignored);
  to.setFinite(m.facts.finite);
  to.setPosition(m.course.position);
  to.setApplied(m.course.samples);
  to.setAtSamples(m.course.limit.at_samples);
  to.setAtVersion(m.course.limit.at_version);
  to.setCheckpoint(static_cast<std::uint8_t>(m.course.limit.checkpoint));
  to.setSaves(m.facts.saves);
}
/// A kind that this program does not know is kept as it is: find_fault refuses it.
void get(schema::PeerPart::Sum::Reader from, peer_message& to) {
  to.is = static_cast<peer_message::kind>(from.getKind());
  to.epoch = {from.getEpoch()};
  to.part = {from.getFirst(), from.getLast(), from.getOf()};
  to.stage = from.getStage();
  to.facts = {from.getSamples(), from.getLoss(), from.getFinite(), from.getIgnored(), from.getSaves()};
  to.course = {from.getPosition(),
               from.getApplied(),
               {.at_samples = from.getAtSamples(),
                .at_version = from.getAtVersion(),
                .checkpoint = static_cast<hold_order::saves>(from.getCheckpoint())}};
}

void put(schema::PeerPart::Builder to, const peer_part& m) {
  to.setTo(m.to.value);
  to.setWorker(m.message.from.worker.value);
  to.setIncarnation(m.message.from.incarnation.value);
  to.setRound(m.message.round);
  to.setWeight(m.message.weight);
  to.setSteps(m.message.made.steps);
  to.setSamples(m.message.made.samples);
  to.setForm(static_cast<std::uint8_t>(m.as));
  to.setBytes(m.bytes);
  put(to.initWhere(), m.where);
  if (m.message.is != peer_message::kind::replica)
    put(to.initSum(), m.message);
}
peer_part get(schema::PeerPart::Reader from) {
  peer_part out{{from.getTo()},
                {{{from.getWorker()}, {from.getIncarnation()}},
                 from.getRound(),
                 from.getWeight(),
                 {},
                 {from.getSteps(), from.getSamples()}},
                get(from.getWhere()),
                static_cast<kernels::form>(from.getForm()),
                from.getBytes()};
  if (from.hasSum())
    get(from.getSum(), out.message);
  return out;
}

void put(schema::Prepared::Builder to, const addressed<prepared>& m) {
  to.setTo(m.to.value);
  to.setHolder(m.message.holder.value);
  to.setVersion(m.message.ver.value);
  to.setDecision(m.message.decision);
  to.setPossible(m.message.possible);
  put_unless_none(to, m.message.squares);
}
addressed<prepared> get(schema::Prepared::Reader from) {
  return {{from.getTo()},
          {{from.getHolder()}, {from.getVersion()}, from.getDecision(), from.getPossible(), get(from.getSquares())}};
}

void put(schema::CommitOrder::Builder to, const addressed<commit_order>& m) {
  to.setTo(m.to.value);
  to.setVersion(m.message.ver.value);
  to.setDecision(m.message.decision);
  to.setAbandoned(m.message.abandoned);
  put_unless_none(to, m.message.squares);
}
addressed<commit_order> get(schema::CommitOrder::Reader from) {
  return {{from.getTo()}, {{from.getVersion()}, from.getDecision(), from.getAbandoned(), get(from.getSquares())}};
}

void put(schema::DecisionPart::Builder to, const decision_part& m) {
  to.setTo(m.to.value);
  put(to.initWhere(), m.where);
  to.setWords(m.words);
}
decision_part get(schema::DecisionPart::Reader from) {
  return {{from.getTo()}, get(from.getWhere()), from.getWords()};
}

void put(schema::AdmitOrder::Builder to, const addressed<admit_order>& m) {
  to.setTo(m.to.value);
  to.setHolder(m.message.holder.value);
  to.setShard(m.message.shard.value);
  to.setVersion(m.message.ver.value);
  to.setView(m.message.view);
}
addressed<admit_order> get(schema::AdmitOrder::Reader from) {
  return {{from.getTo()}, {{from.getHolder()}, {from.getShard()}, {from.getVersion()}, from.getView()}};
}

void put(schema::CopyRequest::Builder to, const addressed<copy_request>& m) {
  to.setTo(m.to.value);
  to.setFrom(m.message.from.value);
  to.setVersion(m.message.ver.value);
  auto pieces = to.initPieces(static_cast<unsigned>(m.message.pieces.size()));
  for (unsigned i = 0; i < pieces.size(); ++i)
    pieces.set(i, m.message.pieces[i]);
  to.setOf(m.message.of);
  to.setView(m.message.view);
}
addressed<copy_request> get(schema::CopyRequest::Reader from) {
  addressed<copy_request> out{{from.getTo()}, {{from.getFrom()}, {from.getVersion()}, {}, from.getOf(), from.getView()}};
  const auto pieces = from.getPieces();
  for (unsigned i = 0; i < std::min<std::size_t>(pieces.size(), max_listed_workers + 1); ++i)
    out.message.pieces.push_back(pieces[i]);
  return out;
}

void put(schema::CopyPart::Builder to, const copy_part& m) {
  to.setTo(m.to.value);
  put(to.initWhere(), m.where);
  to.setWords(m.words);
  to.setFrom(m.from.value);
}
copy_part get(schema::CopyPart::Reader from) {
  return {{from.getTo()}, {from.getFrom()}, get(from.getWhere()), from.getWords()};
}

} // namespace

std::size_t head_words_bound(const content& body) {
  // The longest message without its lists, with the double far pointer to the payload, takes 31 words.
  constexpr std::size_t fixed = 44;
  const auto lists = overloaded{
      [](const bye&) { return max_reason_bytes / 8 + 1; },
      [](const params_part& m) { return m.to.size() / 2 + 1; },
      [](const addressed<close>& m) { return 3 * m.message.contributions.size() + m.message.send_to.size() / 2 + 1; },
      [](const addressed<send_order>& m) { return m.message.to.size() / 2 + 1; },
      [](const addressed<copy_request>& m) { return m.message.pieces.size() / 2 + 1; },
      [](const auto&) { return std::size_t{0}; },
  };
  const auto of_message = [&](const message& msg) { return std::visit(lists, msg); };
  return fixed + std::visit(overloaded{of_message, [&](const auto& m) { return lists(m); }}, body);
}

void put(schema::Frame::Builder to, const content& body) {
  const auto put_message = overloaded{
      [&](const push_part& m) { put(to.initPushPart(), m); },
      [&](const push_end& m) { put(to.initPushEnd(), m); },
      [&](const params_part& m) { put(to.initParamsPart(), m); },
      [&](const partial_part& m) { put(to.initPartialPart(), m); },
      [&](const addressed<arrival>& m) { put(to.initArrival(), m); },
      [&](const addressed<close>& m) { put(to.initClose(), m); },
      [&](const addressed<send_order>& m) { put(to.initSendOrder(), m); },
      [&](const addressed<drop_order>& m) { put(to.initDropOrder(), m); },
      [&](const peer_part& m) { put(to.initPeerPart(), m); },
      [&](const addressed<prepared>& m) { put(to.initPrepared(), m); },
      [&](const addressed<commit_order>& m) { put(to.initCommit(), m); },
      [&](const decision_part& m) { put(to.initDecisionPart(), m); },
      [&](const addressed<admit_order>& m) { put(to.initAdmit(), m); },
      [&](const addressed<copy_request>& m) { put(to.initCopyRequest(), m); },
      [&](const copy_part& m) { put(to.initCopyPart(), m); },
  };
  std::visit(overloaded{[&](const hello& m) { put(to.initHello(), m); }, [&](const bye& m) { put(to.initBye(), m); },
                        [&](const beat&) { to.setBeat(); }, [&](const lending& m) { put(to.initLending(), m); },
                        [&](const borrowing&) { to.setBorrowing(); }, [&](const message& m) { std::visit(put_message, m); }},
             body);
}

result<content> get(schema::Frame::Reader from) {
  const auto decoded = [](auto reader) { return content{message{get(reader)}}; };
  switch (from.which()) {
  case schema::Frame::HELLO:
    return get(from.getHello());
  case schema::Frame::BYE:
    return get(from.getBye());
  case schema::Frame::BEAT:
    return content{beat{}};
  case schema::Frame::LENDING:
    return get(from.getLending());
  case schema::Frame::BORROWING:
    return content{borrowing{}};
  case schema::Frame::PUSH_PART:
    return decoded(from.getPushPart());
  case schema::Frame::PUSH_END:
    return decoded(from.getPushEnd());
  case schema::Frame::PARAMS_PART:
    return decoded(from.getParamsPart());
  case schema::Frame::PARTIAL_PART:
    return decoded(from.getPartialPart());
  case schema::Frame::ARRIVAL:
    return decoded(from.getArrival());
  case schema::Frame::CLOSE:
    return decoded(from.getClose());
  case schema::Frame::SEND_ORDER:
    return decoded(from.getSendOrder());
  case schema::Frame::DROP_ORDER:
    return decoded(from.getDropOrder());
  case schema::Frame::PEER_PART:
    return decoded(from.getPeerPart());
  case schema::Frame::PREPARED:
    return decoded(from.getPrepared());
  case schema::Frame::COMMIT:
    return decoded(from.getCommit());
  case schema::Frame::DECISION_PART:
    return decoded(from.getDecisionPart());
  case schema::Frame::ADMIT:
    return decoded(from.getAdmit());
  case schema::Frame::COPY_REQUEST:
    return decoded(from.getCopyRequest());
  case schema::Frame::COPY_PART:
    return decoded(from.getCopyPart());
  }
  return error{errc::bad_frame, fmt::format("unknown message {}", static_cast<unsigned>(from.which()))};
}

} // namespace troupe::protocols::wire
