# SPDX-License-Identifier: BSD-3-Clause
# What members of Raft say to each other, and what each has on its disk.

@0xc21cd1d7a18ee22a;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::protocols::wire::decided");

# Each struct has the fields of the C++ struct of the same name (raft_message.hpp, raft_log.hpp), in the same order; its header says
# what they mean. A strong id is its number, an optional a list of one or none.
#
# Evolution. New fields and new members of a union are added at the end, here and there. A member that is older than the sender
# does not see them; it refuses a member of a union that it does not know.

struct Message {
  from @0 :UInt32;
  to @1 :UInt32;
  term @2 :UInt64;
  body @3 :Body;

  struct Body {
    union {
      voteRequest @0 :VoteRequest;
      voteReply @1 :VoteReply;
      appendRequest @2 :AppendRequest;
      appendReply @3 :AppendReply;
      installRequest @4 :InstallRequest;
    }
  }
  struct VoteRequest {
    pre @0 :Bool;
    last @1 :UInt64;
    lastTerm @2 :UInt64;
  }
  struct VoteReply {
    pre @0 :Bool;
    granted @1 :Bool;
  }
  struct AppendRequest {
    previous @0 :UInt64;
    previousTerm @1 :UInt64;
    entries @2 :List(Entry);
    commit @3 :UInt64;
  }
  struct AppendReply {
    taken @0 :Bool;
    index @1 :UInt64;
    at @2 :UInt64;
  }
  struct InstallRequest {
    snapshot @0 :Snapshot;
  }
}

struct Persist { # of a journal, one frame
  term @0 :UInt64;
  vote @1 :List(UInt32);
  snapshot @2 :List(Snapshot);
  entries @3 :List(Entry);
}

struct Entry {
  index @0 :UInt64;
  term @1 :UInt64;
  words @2 :List(UInt64);
}

struct Snapshot {
  index @0 :UInt64;
  term @1 :UInt64;
  words @2 :List(UInt64);
}
