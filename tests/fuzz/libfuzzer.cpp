// SPDX-License-Identifier: BSD-3-Clause
// The same targets for libFuzzer: TROUPE_FUZZ_TARGET=lane libfuzzer CORPUS. With --write-corpus FOLDER it writes the corpora.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/target.hpp"

namespace {

const troupe::fuzz::target& chosen() {
  static const troupe::fuzz::target& found = [&]() -> const troupe::fuzz::target& {
    const char* name = std::getenv("TROUPE_FUZZ_TARGET");
    for (const auto& each : troupe::fuzz::targets())
      if (name != nullptr && std::strcmp(each.name, name) == 0)
        return each;
    std::fprintf(stderr, "TROUPE_FUZZ_TARGET names a target:");
    for (const auto& each : troupe::fuzz::targets())
      std::fprintf(stderr, " %s", each.name);
    std::fputs("\n", stderr);
    std::exit(2);
  }();
  return found;
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const auto& target = chosen();
  if (*argc != 3 || std::strcmp((*argv)[1], "--write-corpus") != 0)
    return 0;
  std::filesystem::create_directories((*argv)[2]);
  std::size_t number = 0;
  for (const auto& each : target.corpus())
    std::ofstream((*argv)[2] + std::string("/") + std::to_string(number++), std::ios::binary)
        .write(reinterpret_cast<const char*>(each.data()), static_cast<std::streamsize>(each.size()));
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return chosen().run(data, size);
}
