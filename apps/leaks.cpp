// SPDX-License-Identifier: BSD-3-Clause
// What the leak checker of the asan preset shall pass over; not part of other builds.

extern "C" const char* __lsan_default_suppressions(); // NOLINT: the sanitizer asks for this name

/// CAF 0.18's network layer now and then ends with a message in its broker's mailbox, which keeps the broker alive past the end
/// of the actor system. Nothing of ours hangs on it.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:caf::io::basp_broker\n";
}
