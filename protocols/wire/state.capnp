# SPDX-License-Identifier: BSD-3-Clause
# What the machines of a job remember, as they are carried to another process or kept on a disk.

@0xd2a91c5be7f04683;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::protocols::wire::kept");

# Each struct has the fields of the C++ struct of the same name (`lead_state` is `LeadState`), in the same order; its header says
# what they mean. Where C++ has
#
#     a strong id, an enumeration     its number
#     a set, a deque                  a list
#     a map                           a list of its entries, by key
#     an optional                     a list of one or none
#     a variant                       a union, its members in the order of the alternatives
#
# Evolution. New fields and new members of a union are added at the end, here and there. A reader that is older than the writer
# does not see them; it refuses a member that it does not know.

struct LeadState {
  plan @0 :Plan;
  open @1 :List(OpenPushEntry);
  newest @2 :List(NewestEntry);
  lastTicket @3 :UInt64;
  samplesApplied @4 :UInt64;
  sends @5 :UInt64;
  limit @6 :HoldOrder;
  held @7 :Bool;
  heldBack @8 :List(SendParams);
  parked @9 :List(Arrival);
  deferred @10 :List(List(RuleEffect));
  made @11 :UInt64;
  rule @12 :RuleState;
  checkpointAt @13 :UInt64;

  struct Arrival {
    holder @0 :UInt32;
    push @1 :Push;
  }
  struct OpenPush {
    reported @0 :List(UInt32);
    knownAs @1 :UInt64;
  }
  struct OpenPushEntry { key @0 :PushId; value @1 :OpenPush; }
}

struct HolderState {
  plan @0 :Plan;
  newest @1 :List(NewestEntry);
  kept @2 :List(KeptEntry);
  partials @3 :List(PartialsEntry);
  orders @4 :List(Order);
  current @5 :UInt64;
  ordered @6 :UInt64;
  sums @7 :List(SummedEntry);
  committed @8 :UInt64;
  announced @9 :Bool;
  refused @10 :Bool;
  decided @11 :UInt64;
  sent @12 :List(SentEntry);
  view @13 :UInt64;
  doubtful @14 :List(Close);
  joins @15 :List(CatchUp);
  admitted @16 :List(AdmittedEntry);
  askedFor @17 :List(AskedForEntry);
  madeOf @18 :SquaredNorm;
  committedOf @19 :SquaredNorm;
  dropped @20 :List(DroppedEntry);

  struct DroppedEntry { key @0 :UInt32; value @1 :Push; }
  struct CatchUp {
    admitted @0 :Bool;
    view @1 :UInt64;
    pieces @2 :UInt32;
    here @3 :List(UInt32);
    asked @4 :List(UInt32);
  }
  struct AdmittedEntry { key @0 :UInt32; value @1 :UInt64; }
  struct CopyRequest {
    from @0 :UInt32;
    version @1 :UInt64;
    pieces @2 :List(UInt32);
    of @3 :UInt32;
    view @4 :UInt64;
  }
  struct AskedForEntry { key @0 :UInt32; value @1 :CopyRequest; }

  struct KeptEntry { key @0 :PushId; value @1 :Push; }
  struct Summed {
    version @0 :UInt64;
    decision @1 :UInt64;
    sum @2 :UInt64;
    own @3 :Bool;
    squares @4 :List(SquaredNorm);
  }
  struct SummedEntry { key @0 :UInt64; value @1 :Summed; }
  struct SentEntry { key @0 :UInt32; value @1 :SendOrder; }
  struct ChildSum {
    decision @0 :UInt64;
    sum @1 :UInt64;
  }
  struct PartialEntry { key @0 :UInt32; value @1 :ChildSum; }
  struct PartialsEntry { key @0 :UInt64; value @1 :List(PartialEntry); }
  struct Order {
    union {
      close @0 :Close;
      send @1 :SendOrder;
      drop @2 :DropOrder;
      retain @3 :Ticket;
      release @4 :Ticket;
      report @5 :Report;
    }
  }
}

struct DecisionRecord {
  from @0 :LeadState;
  since @1 :List(LeadInput);
  decision @2 :UInt64;
  holders @3 :List(UInt32);
  squaresBefore @4 :SquaredNorm;
  plans @5 :List(Plan);

  struct LeadInput {
    union {
      plan @0 :Plan;
      arrival @1 :LeadState.Arrival;
      workerDown @2 :Member;
      expired @3 :Expired;
      hold @4 :HoldOrder;
      resume @5 :ResumeOrder;
      fetch @6 :FetchOrder;
      checkpoint @7 :CheckpointOrder;
    }
  }
  struct Expired {
    timer @0 :UInt32;
    at @1 :Int64;
  }
  struct ResumeOrder {
    held @0 :UInt64;
  }
  struct FetchOrder {
    version @0 :UInt64;
  }
  struct CheckpointOrder {
    at @0 :UInt64;
  }
}

struct ReplicatedLeadState {
  record @0 :DecisionRecord;
  view @1 :UInt64;
  lead @2 :LeadState;
  open @3 :List(Proposal);
  missing @4 :List(UInt32);
  unable @5 :List(UInt32);
  waiting @6 :List(DecisionRecord.LeadInput);
  takesOver @7 :Bool;
  needsOrders @8 :Bool;
  committed @9 :Close;
  squares @10 :List(SquaresEntry);

  struct SquaresEntry { key @0 :UInt32; value @1 :SquaredNorm; }
  struct Proposal {
    round @0 :Close;
    before @1 :List(LeadEffect);
    after @2 :List(LeadEffect);
  }
  struct LeadEffect {
    union {
      close @0 :Close;
      send @1 :SendOrder;
      drop @2 :DropOrder;
      retain @3 :Ticket;
      release @4 :Ticket;
      armTimer @5 :RuleEffect.ArmTimer;
      report @6 :Report;
      commit @7 :CommitOrder;
      admit @8 :AdmitOrder;
    }
  }
  struct CommitOrder {
    version @0 :UInt64;
    decision @1 :UInt64;
    abandoned @2 :Bool;
    squares @3 :SquaredNorm;
  }
  struct AdmitOrder {
    holder @0 :UInt32;
    shard @1 :UInt32;
    version @2 :UInt64;
    view @3 :UInt64;
  }
}

# A piece of a shard on its way to a backup, without its tensor.
struct ShardPiece {
  from @0 :UInt32;
  version @1 :UInt64;
  piece @2 :UInt32;
  data @3 :UInt64;
  memory @4 :List(Float64);
  sent @5 :List(SendOrder);
  squares @6 :SquaredNorm;
}

struct CoordinatorState {
  protocol @0 :ProtocolSpec;
  period @1 :UInt32;
  lrScale @2 :Float64;
  members @3 :List(Member);
  lastDown @4 :List(Member);
  losses @5 :List(Text);
  gone @6 :List(UInt32);
  plan @7 :Plan;
  evaluating @8 :Bool;
  stopped @9 :Bool;
  targetReached @10 :Bool;
  timeIsUp @11 :Bool;
  held @12 :UInt64;
  samples @13 :UInt64;
  counted @14 :List(CountedEntry);
  roundsWithoutUpdate @15 :UInt32;
  pushesWithoutUpdate @16 :UInt32;
  memory @17 :List(Float64);
  backups @18 :List(BackupEntry);
  acting @19 :List(ActingEntry);
  view @20 :UInt64;
  ordered @21 :HoldOrder;
  best @22 :UInt64;
  bestLoss @23 :Float64 = inf;
  sinceBest @24 :UInt32;
  judged @25 :UInt64;
  partitionKib @26 :UInt32;
  tuning @27 :PartitionTuning;

  struct PartitionTuning {
    best @0 :UInt32;
    bestSpan @1 :Int64;
    triedLarger @2 :Bool;
    triedSmaller @3 :Bool;
    settled @4 :Bool;
    waits @5 :UInt32;
    pushes @6 :UInt32;
    since @7 :List(Int64);
    spans @8 :List(Int64);
  }
  struct BackupEntry { key @0 :UInt32; value @1 :Bool; }
  struct ActingEntry { key @0 :UInt32; value @1 :UInt32; }

  struct StepCount {
    steps @0 :UInt64;
    samples @1 :UInt64;
  }
  struct CountedEntry { key @0 :UInt32; value @1 :StepCount; }
}

# -- rules

struct RuleState {
  union {
    none @0 :None;
    rounds @1 :RoundRuleState;
    pushes @2 :PushRuleState;
    gossip @3 :GossipRuleState;
    admm @4 :AdmmState;
    added @5 :AddedRuleState;
    allreduce @6 :AllreduceRuleState;
  }
  struct None {}
}

struct RoundRuleState {
  newest @0 :Plan;
  dead @1 :List(Member);
  round @2 :OpenRound;
  busy @3 :List(BusyEntry);
  timings @4 :List(Timing);
  armed @5 :Bool;
  now @6 :Int64;
  memory @7 :List(Float64);

  struct OpenRound {
    plan @0 :Plan;
    base @1 :UInt64;
    position @2 :UInt64;
    live @3 :List(Member);
    pushed @4 :List(PushedEntry);
    began @5 :Int64;
    outOfPatience @6 :Bool;
  }
  struct PushedEntry { key @0 :Member; value @1 :Push; }
  struct SentParameters {
    at @0 :Int64;
    version @1 :UInt64;
    epoch @2 :UInt32;
  }
  struct BusyEntry { key @0 :Member; value @1 :SentParameters; }
}

struct PushRuleState {
  plan @0 :Plan;
  dead @1 :List(Member);
  workers @2 :List(ProgressEntry);
  askedAt @3 :UInt64;
  made @4 :UInt64;
  position @5 :UInt64;
  now @6 :Int64;
  memory @7 :List(Float64);

  struct PushProgress {
    clock @0 :UInt64;
    base @1 :UInt64;
    waits @2 :Bool;
    lastClock @3 :UInt64;
    sent @4 :Int64;
  }
  struct ProgressEntry { key @0 :Member; value @1 :PushProgress; }
}

struct GossipRuleState {
  plan @0 :Plan;
  live @1 :List(TimeEntry);
  made @2 :UInt64;
  samples @3 :UInt64;
}

struct AllreduceRuleState {
  plan @0 :Plan;
  live @1 :List(ReportedEntry);
  open @2 :List(PushEntry);
  made @3 :UInt64;
  samples @4 :UInt64;
  position @5 :UInt64;

  struct Reported {
    newest @0 :UInt64;
    at @1 :Int64;
    has @2 :Bool;
  }
  struct ReportedEntry { key @0 :Member; value @1 :Reported; }
  struct PushEntry { key @0 :PushId; value @1 :Push; }
}

struct AdmmState {
  plan @0 :Plan;
  members @1 :List(MemberEntry);
  z @2 :UInt64;

  struct AdmmMember {
    newest @0 :List(Push);
    waits @1 :Bool;
    fresh @2 :Bool;
    empty @3 :Bool;
    unused @4 :Bool;
    age @5 :UInt64;
    position @6 :UInt64;
    sent @7 :UInt64;
  }
  struct MemberEntry { key @0 :Member; value @1 :AdmmMember; }
}

struct AddedRuleState {
  memory @0 :List(Float64);
}

struct RuleEffect {
  union {
    apply @0 :Apply;
    retain @1 :Ticket;
    release @2 :Ticket;
    discard @3 :Ticket;
    sendParams @4 :SendParams;
    armTimer @5 :ArmTimer;
    report @6 :Report;
  }
  struct Apply {
    sum @0 :List(Term);
    version @1 :UInt64;
    epoch @2 :UInt32;
    workers @3 :UInt32;
    step @4 :StepRule;
    samples @5 :Int64;
    keep @6 :Bool;
    compensate @7 :DelayCompensation;
    position @8 :UInt64;
  }
  struct Term {
    tensor @0 :UInt64;
    weight @1 :Float64;
  }
  struct ArmTimer {
    timer @0 :UInt32;
    delay @1 :Int64;
  }
}

# -- messages and their parts

struct Ticket {
  ticket @0 :UInt64;
}

struct Member {
  worker @0 :UInt32;
  incarnation @1 :UInt32;
}

struct TimeEntry { key @0 :Member; value @1 :Int64; }

struct NewestEntry { key @0 :UInt32; value @1 :PushId; }

struct PushId {
  worker @0 :UInt32;
  incarnation @1 :UInt32;
  clock @2 :UInt64;
}

struct Push {
  epoch @0 :UInt32;
  id @1 :PushId;
  base @2 :UInt64;
  gradient @3 :UInt64;
  samples @4 :Int64;
  loss @5 :Float64;
  compute @6 :Int64;
  finite @7 :Bool;
  weight @8 :Float64;
  at @9 :Int64;
  ignored @10 :Float64;
  squares @11 :SquaredNorm;
  applied @12 :UInt64;
}

struct SquaredNorm {
  high @0 :UInt64;
  low @1 :UInt64;
}

struct Plan {
  epoch @0 :UInt32;
  workers @1 :List(Member);
  protocol @2 :ProtocolSpec;
  period @3 :UInt32;
  batch @4 :Int64;
  dataSize @5 :Int64;
  lrScale @6 :Float64;
  gone @7 :List(UInt32);
  rooted @8 :UInt32;
  partitionKib @9 :UInt32;
}

struct ProtocolSpec {
  name @0 :Text;
  fanIn @1 :UInt32;
  parameters @2 :List(ParameterEntry);

  struct ParameterEntry { key @0 :Text; value @1 :Value; }
  struct Value {
    union {
      flag @0 :Bool;
      integer @1 :Int64;
      real @2 :Float64;
      text @3 :Text;
      texts @4 :List(Text);
    }
  }
}

struct Timing {
  worker @0 :UInt32;
  compute @1 :Int64;
  elapsed @2 :Int64;
  samples @3 :Int64;
}

struct Report {
  event @0 :UInt8;
  version @1 :UInt64;
  worker @2 :UInt32;
  samples @3 :UInt64;
  loss @4 :Float64;
  contributions @5 :UInt32;
  staleness @6 :UInt64;
  compute @7 :Int64;
  at @8 :Int64;
  residual @9 :Float64;
  timings @10 :List(Timing);
  text @11 :Text;
  made @12 :List(RoundRecord);
}

struct RoundRecord {
  version @0 :UInt64;
  epoch @1 :UInt32;
  position @2 :UInt64;
  samplesBefore @3 :UInt64;
  lrScale @4 :Float64;
  contributions @5 :List(Contribution);
}

struct StepRule {
  method @0 :UInt8;
  lrScale @1 :Float64;
  lr @2 :Float64;
  momentum @3 :Float64;
  nesterov @4 :Bool;
  parameterWeight @5 :Float64;
  threshold @6 :Float64;
  squares @7 :SquaredNorm;
}

struct DelayCompensation {
  lambda @0 :Float64;
  adaptive @1 :Bool;
  backup @2 :UInt64;
}

struct SendParams {
  to @0 :List(UInt32);
  version @1 :UInt64;
  epoch @2 :UInt32;
  position @3 :UInt64;
  period @4 :UInt32;
  answers @5 :UInt64;
}

struct HoldOrder {
  atSamples @0 :UInt64;
  atVersion @1 :UInt64;
  now @2 :Bool;
  checkpoint @3 :UInt8;
}

struct Contribution {
  id @0 :PushId;
  weight @1 :Float64;
}

struct Close {
  epoch @0 :UInt32;
  version @1 :UInt64;
  contributions @2 :List(Contribution);
  keep @3 :Bool;
  step @4 :StepRule;
  samplesBefore @5 :UInt64;
  workers @6 :UInt32;
  sendTo @7 :List(UInt32);
  sendEpoch @8 :UInt32;
  key @9 :UInt64;
  position @10 :UInt64;
  period @11 :UInt32;
  compensate @12 :DelayCompensation;
  checkpoint @13 :Bool;
  view @14 :UInt64;
  decision @15 :UInt64;
  squaresBefore @16 :SquaredNorm;
}

struct SendOrder {
  epoch @0 :UInt32;
  version @1 :UInt64;
  key @2 :UInt64;
  to @3 :List(UInt32);
  position @4 :UInt64;
  period @5 :UInt32;
}

struct DropOrder {
  id @0 :PushId;
}
