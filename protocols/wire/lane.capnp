# SPDX-License-Identifier: BSD-3-Clause
# The lane protocol, version 11: what two nodes of one job say to each other at every step.

@0xc53f636cbd0941bc;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::protocols::wire::schema");

# A lane is one TCP connection between two nodes. Both ends send a stream of frames; a frame is one Cap'n Proto message,
# root type Frame, in the standard stream framing:
#
#     uint32  number of segments minus one        little-endian, as everything here
#     uint32  words (8 bytes) of each segment
#     ...     zero bytes up to a multiple of 8
#     ...     the segments
#
# What the standard leaves open, a lane fixes, so that a receiver can bound what it allocates before it allocates it and
# can read a payload from the socket straight into the memory where it will be used:
#
#   1. A frame has one segment, or two when it has a payload that is not empty.
#   2. Segment 0 (the head) holds everything but the payload's bytes, in at most 8192 words.
#   3. Segment 1 holds the payload's bytes and nothing else: no landing pad either (the far pointer is a double one, whose
#      pad is in segment 0). `Frame.payload` covers the segment exactly.
#   4. The size of the payload follows from the message: four bytes for each element of its Range, or as many as its `form`
#      takes for it (kernels/form.hpp), or `bytes` where the form is sparse or is factors. That is a multiple of 8, and at most
#      four for each element. It is also what the segment table says; a frame in which the two differ is refused.
#   5. In an encoded payload, the scales and means of its blocks are finite. They come first; then come the elements, then zeros
#      up to a multiple of 8 bytes. In a sparse payload, places ascend within the range (kernels/sparse.hpp). Factors are as many
#      as their numbers of rows and columns say (kernels/factors.hpp).
#   6. A payload may stay where it is: the frame has one segment then, and `lentAt` in its head. See "Lending".
#
# Payload elements are IEEE 754 binary32, little-endian, but for those of another form.
#
# Opening. The node with the lower id dials. It sends `hello` at once; the other end looks at it and answers with its own
# `hello`, which opens the connection, or with `bye`, which says why not. Until then neither sends anything else, and a head
# has at most 510 words. An end that gets no complete answer within its time limit (5 seconds by default) hangs up.
#
# Sessions. A lane outlives its connections. The node that dials draws a number for it, `Hello.session`. Each end counts the
# messages of the session that it has taken; `hello`, `bye` and `beat` do not count. Every frame carries that count in
# `received`. An end keeps each message until the other has counted it. After a new `hello` of the same session, each end
# sends again, in their order, the messages beyond the other's count. So every message arrives exactly once.
#
# Beats. An end that has said nothing for 100 ms sends `beat`, and also one after each MiB that it has taken in silence.
#
# Lending. Processes of one user on one host need not send payloads through a socket. An end may send `lending`: where a secret
# lies in its memory. If the other end can read it there, it may answer `borrowing`. From then on the first may lend: it keeps a
# payload as it is until the other has counted its message, and the other copies it from `lentAt`. The secret is read again
# after each payload: a process wipes it before it lets go of what it has lent. On a new connection nothing is lent before a
# new `borrowing`, and what was lent is sent. Neither counts as a message.
#
# Closing. An end may send `bye` as its last frame, so that the operator at the other end reads why. A `bye` without `retry`
# ends the session. Any other end of the stream, or a frame that breaks a rule of this file, ends the connection alone: the
# node with the lower id dials again, and both ends give the session up if that brings nothing within their time limit.
#
# Order. Between a sender and a receiver, messages of one priority arrive in the order in which they were sent; one of a
# more urgent priority may pass others, whole messages only. Priorities themselves do not travel.
#
# Evolution. New fields are added at the end with defaults that mean what their absence meant; new messages are new members
# of the union. A receiver refuses a message that it does not know, so a program that sends a new one raises `Hello.version`.

const magic :UInt64 = 0x454e414c45505254;
# "TRPELANE" in the order of the bytes on the wire.

const version :UInt16 = 12;

struct Frame {
  union {
    hello @0 :Hello;
    bye @1 :Bye;

    # Each message names the role that it is for: a node holds several.
    pushPart @2 :PushPart;       # worker to holder, with payload
    pushEnd @3 :PushEnd;         # worker to holder, after its parts
    paramsPart @4 :ParamsPart;   # shard to workers, with payload
    partialPart @5 :PartialPart; # aggregator to its parent, with payload
    arrival @6 :Arrival;         # holder to lead
    close @7 :Close;             # lead to holder
    sendOrder @8 :SendOrder;     # lead to holder
    dropOrder @9 :DropOrder;     # lead to holder
    peerPart @10 :PeerPart;      # worker to worker, with payload

    beat @13 :Void;              # nothing but `received`

    prepared @14 :Prepared;             # holder to lead
    commit @15 :CommitOrder;            # lead to holder
    decisionPart @16 :DecisionPart;     # lead to the backups of its shard, with payload
    admit @17 :AdmitOrder;              # lead to holder
    copyRequest @18 :CopyRequest;       # backup that catches up to its shard
    copyPart @19 :CopyPart;             # the answer, with payload

    lending @20 :Lending; # its sender would lend payloads
    borrowing @21 :Void;  # its sender can read what is lent
  }

  payload @11 :Data;
  # Present in messages "with payload". Null in all others, and if the range is empty.

  received @12 :UInt64;
  # How many messages of this session the sender of this frame has taken.

  lentAt @22 :UInt64;
  # Where the payload lies in the memory of its sender, a multiple of 8; 0: it is not lent.
}

struct Hello {
  magic @0 :UInt64;
  # `magic` above: a dialer of the wrong port learns it from the first word.

  jobKey @1 :UInt64;
  # Names the run of the job. A lane joins nodes of one run; it guards against mistakes, not against an attacker.

  node @2 :UInt32;
  # Who speaks. The dialer's is the lower one.

  version @3 :UInt16;
  # `version` above. Both must be equal.

  role @4 :Role;
  enum Role {
    dials @0;
    accepts @1;
  }

  life @5 :UInt32;
  # Of the process that speaks: how often its node was started anew within the job.

  session @6 :UInt64;
  # The number of the session; the end that accepts repeats it.
}

struct Bye {
  reason @0 :Text;
  # For the operator, at most 512 bytes.

  retry @1 :Bool;
  # Whether the same dial may succeed later (an older lane of that node is still closing).
}

struct Lending {
  process @0 :UInt32;  # the sender's number
  secretAt @1 :UInt64; # where `secret` lies in its memory
  secret @2 :Secret;   # not 0
  struct Secret {
    high @0 :UInt64;
    low @1 :UInt64;
  }
}

# -- parts of messages

struct Range {
  # Half-open, in elements of the job's flat parameter array: 0 <= begin <= end, both multiples of 16, so that every
  # payload is a multiple of 64 bytes.
  begin @0 :Int64;
  end @1 :Int64;
}

struct PushId {
  # Names one push for good.
  clock @0 :UInt64;  # the worker's own count of its pushes
  worker @1 :UInt32;
  incarnation @2 :UInt32; # of the worker: one that comes back has the next
}

struct SquaredNorm {
  # high 2^64 + low, in units of 2^-48 of the square of the largest norm that is allowed.
  high @0 :UInt64;
  low @1 :UInt64;
}

struct Push {
  id @0 :PushId;
  base @1 :UInt64;    # version of the parameters that it was computed against
  samples @2 :Int64;  # that went into it; 0 or more
  loss @3 :Float64;   # mean training loss over them; may be NaN or infinite
  compute @4 :Int64;  # nanoseconds that the worker computed; 0 or more
  at @5 :Int64;       # training time of its arrival at the holder, nanoseconds
  epoch @6 :UInt32;   # of the plan
  finite @7 :Bool;    # every element is
  weight @8 :Float64 = 1; # elastic averaging: alpha; finite
  ignored @9 :Float64;    # samples' worth of labels that do not count; 0 to samples
  squares @10 :SquaredNorm; # of the gradient, where each push is clipped by its own norm
  applied @11 :UInt64; # allreduce: samples of all rounds up to this one
}

struct Contribution {
  # One push in a closed round. The fields of PushId stand here themselves: there are many of these in a frame.
  clock @0 :UInt64;
  worker @1 :UInt32;
  incarnation @2 :UInt32;
  weight @3 :Float64; # in the sum; finite
}

# -- messages

struct PushPart {
  # One partition of a contribution, sent as soon as backward has it. All come before the PushEnd.
  id @0 :PushId;
  where @1 :Range;
  to @2 :UInt32;
  epoch @3 :UInt32;
  form @4 :UInt8; # 0 fp32, 1 fp16, 2 bf16, 3 int8, 4 int4, 5 onebit, 6 sparse_fp32, 7 sparse_bf16, 8 sparse_sign, 9 factors
  bytes @5 :UInt32; # of the payload in a sparse form or as factors, else 0
}

struct PushEnd {
  # The trailer: the push is complete once `parts` partitions have come.
  push @0 :Push;
  to @1 :UInt32;
  parts @2 :UInt32;
}

struct ParamsPart {
  # One partition of new parameters, for each of these workers of the node. They are complete once every element of the flat
  # array has come.
  where @0 :Range;
  version @1 :UInt64;
  position @2 :UInt64; # where in the data the next global batch (or the worker's own slice) starts, in samples
  to @3 :List(UInt32); # 1 to 2048 workers; 0xffffffff: the evaluator
  from @4 :UInt32;
  epoch @5 :UInt32;
  period @6 :UInt32;   # local steps to make with them; 1 or more
  key @7 :UInt64;      # the same in all parts of one sending: its number, or the clock of the push that is answered
  marked @8 :UInt64;   # the newest version of a checkpoint
  form @9 :UInt8;      # as in PushPart; but for fp32 it is the code of a difference
  base @10 :UInt64;    # to the parameters that these workers were sent of this version
  bytes @11 :UInt32;   # as in PushPart
}

struct PartialPart {
  # One partition of the sum of an aggregator's contributions to the round that makes `version`.
  where @0 :Range;
  version @1 :UInt64;
  to @2 :UInt32;
  from @3 :UInt32;
  empty @4 :Bool;
  # None of its workers counted: stands for the whole range, and has no payload.

  decision @5 :UInt64; # as in Close
  form @6 :UInt8; # 0 or 6, as in PushPart
  bytes @7 :UInt32;
}

struct Arrival {
  # This push is complete at this holder.
  push @0 :Push;
  to @1 :UInt32;
  holder @2 :UInt32;
}

struct Close {
  # The round is decided: apply (or forward) these pushes in this order.
  contributions @0 :List(Contribution); # at most 2048
  sendTo @1 :List(UInt32);              # workers that get the new version; at most 2048
  version @2 :UInt64;                   # that this makes
  lrScale @3 :Float64 = 1;              # finite, as the numbers of the step below
  samplesBefore @4 :UInt64;             # applied before: drives the learning-rate schedule
  position @5 :UInt64;                  # as in ParamsPart
  to @6 :UInt32;
  epoch @7 :UInt32;
  workers @8 :UInt32 = 1;               # n of the round's plan; 1 or more
  sendEpoch @9 :UInt32;                 # under which the new version is sent
  period @10 :UInt32 = 1;               # as in ParamsPart
  key @11 :UInt64;                      # as in ParamsPart
  keep @12 :Bool;                       # later closes may name the contributions again
  step @13 :Step;                       # how the parameters p become the next version; g is the weighted sum
  enum Step {
    optimizer @0;                       # the job's own, at lrScale times its learning rate
    outer @1;                           # SGD with lr, momentum, nesterov
    linear @2;                          # p = parameterWeight p + g, then sign(p) max(|p| - threshold, 0)
  }
  nesterov @14 :Bool;
  lr @15 :Float64 = 1;
  momentum @16 :Float64;
  parameterWeight @17 :Float64 = 1;
  threshold @18 :Float64;
  checkpoint @19 :Bool;                 # shards write the new version to a disk
  view @20 :UInt64;                     # with two phases: how often another holder has taken the lead
  decision @21 :UInt64;                 # likewise: the number of this decision on the version
  squaresBefore @22 :SquaredNorm;       # as in CommitOrder, of the version before
}

struct Prepared {
  # All that this decision on the version needs is at this holder.
  to @0 :UInt32;
  holder @1 :UInt32;
  version @2 :UInt64;
  decision @3 :UInt64;
  possible @4 :Bool = true; # false: it will never be, for a worker or an aggregator is gone
  squares @5 :SquaredNorm; # of this shard's part of the sum, where sums are clipped
}

struct CommitOrder {
  # Every holder is prepared: make this version. Or forget the close: the lead decides again.
  to @0 :UInt32;
  version @1 :UInt64;
  decision @2 :UInt64;
  abandoned @3 :Bool;
  squares @4 :SquaredNorm; # of the whole sum, where sums are clipped
}

struct DecisionPart {
  # From what the lead has decided: a DecisionRecord of state.capnp as a flat message, zeros behind it.
  where @0 :Range;
  to @1 :UInt32;
  words @2 :UInt64; # of the message: 8 bytes each
}

struct AdmitOrder {
  # This backup of the shard hears all orders from here on, and is asked to be prepared from the next close on.
  to @0 :UInt32;
  holder @1 :UInt32;
  shard @2 :UInt32;
  version @3 :UInt64; # the newest that is proposed or made
  view @4 :UInt64; # as in Close
}

struct CopyRequest {
  # Send these pieces of your shard, as of this version.
  to @0 :UInt32;
  from @1 :UInt32;
  version @2 :UInt64;
  pieces @3 :List(UInt32); # at most 2048
  of @4 :UInt32; # how many there are; the last is no tensor
  view @5 :UInt64; # in which the sender was admitted
}

struct CopyPart {
  # One piece: a ShardPiece of state.capnp as a flat message, zeros up to a multiple of 64 bytes, and the piece's tensor.
  where @0 :Range;
  to @1 :UInt32;
  words @2 :UInt64; # of the message: 8 bytes each
  from @3 :UInt32;
}

struct SendOrder {
  # Send the parameters that you have to these workers.
  workers @0 :List(UInt32); # at most 2048
  version @1 :UInt64;
  position @2 :UInt64;
  to @3 :UInt32;
  epoch @4 :UInt32;
  period @5 :UInt32 = 1;
  key @6 :UInt64; # as in ParamsPart
}

struct DropOrder {
  # No version will use this push.
  id @0 :PushId;
  to @1 :UInt32;
}

struct PeerPart {
  # One partition of what a worker sends to another.
  where @0 :Range;
  round @1 :UInt64;
  weight @2 :Float64 = 1; # finite
  to @3 :UInt32;
  worker @4 :UInt32;      # from
  incarnation @5 :UInt32;
  steps @6 :UInt64;       # to the evaluator: those that the sender has finished and reported
  samples @7 :UInt64;     # of these
  sum @8 :Sum;            # null: the sender's own parameters alone
  struct Sum {
    kind @0 :Kind;
    enum Kind {
      replica @0;  # refused: it has no sum
      chunk @1;    # segments of a sum
      standing @2; # at which version the sender is; no payload
      state @3;    # the sender's own parameters, and its optimizer's state
    }
    epoch @1 :UInt32; # of the plan
    # Of a chunk:
    first @2 :UInt32; # segments first to last - 1 of `of`, into which the flat array is cut
    last @3 :UInt32 = 1;
    of @4 :UInt32 = 1;
    stage @5 :UInt32; # of the schedule
    # What is known of the gradients in a chunk; in a state, in its last round's:
    samples @6 :Int64; # 0 or more
    loss @7 :Float64;
    ignored @8 :Float64;
    finite @9 :Bool = true;
    # In a state:
    position @10 :UInt64;  # in the data
    applied @11 :UInt64;   # samples
    atSamples @12 :UInt64; # where to stop
    atVersion @13 :UInt64;
    checkpoint @14 :UInt8; # 0, 1, 2: the version where it stops is for one never, if it is atVersion, always
    # In a chunk, likewise:
    saves @15 :Bool;       # the version that the sum makes is for a checkpoint
  }
  form @9 :UInt8; # of a chunk, as in PushPart; no sparse one
  bytes @10 :UInt32; # as in PushPart
}
