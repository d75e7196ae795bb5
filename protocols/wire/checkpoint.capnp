# SPDX-License-Identifier: BSD-3-Clause
# What stands in a checkpoint's files beside the tensors.

@0xc158f1da8bc9875f;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::protocols::wire::kept");

# A folder step-N has shard-I.ckpt for each shard I, and `manifest`, written last: a checkpoint is what its manifest proves. All
# numbers are little-endian, all checksums CRC32C.
#
# shard-I.ckpt     byte 0      "TROUPECK"; UInt32 format; UInt32 checksum of the footer; UInt64 offset and UInt64 bytes of the
#                              footer; zeros; at byte 60 UInt32 checksum of the 60 bytes before. Written last: a torn file has none.
#                  byte 64     zeros
#                  byte 4096   the body: blocks of Float32, each at a multiple of 4096, zeros between; ends at a multiple of 4096
#                              with the footer, a message of ShardFooter, with which the file ends
# manifest         byte 0      "TROUPEMF"; UInt32 format; UInt32 checksum of the 12 bytes before and of all that follows
#                  byte 16     a message of Manifest
#
# Evolution. New fields are added at the end, here and in checkpoint.hpp; older programs do not see them. A change that they would
# misread raises the format, which is 1: programs refuse a newer one by its number. Magic, format and where the head's own checksum
# stands never change.

struct ShardFooter {
  shard @0 :UInt32;
  version @1 :UInt64;
  range @2 :Range; # of the job's flat parameters
  numbers @3 :List(NumberEntry); # "optimizer.steps"
  blocks @4 :List(Block);
  pieces @5 :List(UInt32); # checksum of each MiB of the body; the last may be shorter

  struct Range {
    begin @0 :Int64;
    end @1 :Int64;
  }
  struct NumberEntry {
    key @0 :Text;
    value @1 :UInt64;
  }
  struct Block {
    name @0 :Text; # "parameters"
    offset @1 :UInt64; # in the file
    floats @2 :UInt64;
  }
}

struct Manifest {
  job @0 :Text;
  facts @1 :List(FactEntry); # by job key: "optimizer.name"
  version @2 :UInt64;
  samples @3 :UInt64;
  trainingNs @4 :Int64;
  floats @5 :UInt64; # of the flat parameters
  lead @6 :List(UInt64); # a message of state.capnp's LeadState
  coordinator @7 :List(UInt64); # of CoordinatorState
  files @8 :List(File);
  tensors @9 :List(Tensor); # where each parameter is in the flat ones
  data @10 :List(FactEntry); # of each file that the job reads, by path, its SHA-256

  struct FactEntry {
    key @0 :Text;
    value @1 :Text;
  }
  struct File {
    name @0 :Text; # in the same folder
    bytes @1 :UInt64;
    crc @2 :UInt32; # of its footer
  }
  struct Tensor {
    name @0 :Text; # "linear1.weight"
    dims @1 :List(Int64); # outermost first
    offset @2 :Int64; # in floats
  }
}
