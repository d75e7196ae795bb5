# SPDX-License-Identifier: BSD-3-Clause
# What a cluster decides about its jobs, and what that came to.

@0xd7a3f4c1b8926e05;

using Cxx = import "/capnp/c++.capnp";
using Kept = import "state.capnp";
$Cxx.namespace("troupe::protocols::wire::ledgered");

# Each struct has the fields of the C++ struct of the same name (ledger.hpp), in the same order; its header says what they mean. An
# optional is a list of one or none, a map the list of its entries.
#
# Evolution. New fields and new members of a union are added at the end, here and there. A reader that is older than the writer
# does not see them; it refuses a member of a union that it does not know.

struct Entry { # of the log of decisions
  union {
    submitted @0 :Submitted;
    started @1 :Started;
    ended @2 :Ended;
    forgotten @3 :Forgotten;
    planned @4 :Planned;
    incarnated @5 :Incarnated;
    promoted @6 :Promoted;
    holderLost @7 :HolderLost;
    checkpointed @8 :Checkpointed;
    placed @9 :Placed;
    copied @10 :Copied;
  }

  struct Submitted {
    number @0 :UInt64;
    detached @1 :Bool;
    submission @2 :List(UInt8);
    roles @3 :UInt32;
  }
  struct Started {
    number @0 :UInt64;
    life @1 :UInt32;
    nodes @2 :List(Text);
    key @3 :UInt64;
  }
  struct Ended {
    number @0 :UInt64;
    how @1 :UInt8;
    reason @2 :Text;
    outcome @3 :List(UInt8);
  }
  struct Forgotten {
    number @0 :UInt64;
  }
  struct Planned {
    number @0 :UInt64;
    life @1 :UInt32;
    plan @2 :Kept.Plan;
  }
  struct Incarnated {
    number @0 :UInt64;
    life @1 :UInt32;
    worker @2 :Bool;
    index @3 :UInt32;
    incarnation @4 :UInt32;
  }
  struct Promoted {
    number @0 :UInt64;
    life @1 :UInt32;
    shard @2 :UInt32;
    by @3 :UInt32;
    view @4 :UInt64;
  }
  struct HolderLost {
    number @0 :UInt64;
    life @1 :UInt32;
    holder @2 :UInt32;
  }
  struct Checkpointed {
    number @0 :UInt64;
    life @1 :UInt32;
    version @2 :UInt64;
  }
  struct Placed {
    number @0 :UInt64;
    life @1 :UInt32;
    copy @2 :UInt32;
    shard @3 :UInt32;
    node @4 :UInt32;
  }
  struct Copied {
    number @0 :UInt64;
    life @1 :UInt32;
    copy @2 :UInt32;
  }
}

struct State { # a snapshot
  last @0 :UInt64;
  jobs @1 :List(NumberedJob);

  struct NumberedJob {
    number @0 :UInt64;
    job @1 :Job;
  }
  struct Job {
    detached @0 :Bool;
    submission @1 :List(UInt8);
    life @2 :UInt32;
    nodes @3 :List(Text);
    end @4 :List(End);
    roles @5 :UInt32;
    course @6 :Course;
  }
  struct Course {
    key @0 :UInt64;
    plan @1 :Kept.Plan;
    nodes @2 :List(Incarnation);
    workers @3 :List(Incarnation);
    acting @4 :List(Acting);
    gone @5 :List(UInt32);
    view @6 :UInt64;
    checkpoints @7 :List(UInt64);
    copies @8 :List(NumberedCopy);
    firstCopy @9 :UInt32;
    newestCopy @10 :UInt32;
  }
  struct Incarnation {
    of @0 :UInt32;
    newest @1 :UInt32;
  }
  struct NumberedCopy {
    holder @0 :UInt32;
    copy @1 :LateCopy;
  }
  struct LateCopy {
    shard @0 :UInt32;
    node @1 :UInt32;
    whole @2 :Bool;
  }
  struct Acting {
    shard @0 :UInt32;
    by @1 :UInt32;
  }
  struct End {
    how @0 :UInt8;
    reason @1 :Text;
    outcome @2 :List(UInt8);
  }
}
