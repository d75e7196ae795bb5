// SPDX-License-Identifier: BSD-3-Clause
// Weights files: the bytes, other readers, hostile files, full disks.
#include "tensor/safetensors.hpp"

#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe {
namespace {

namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "troupe-safetensors-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = (folder / "weights.safetensors").string();
    std::iota(flat.begin(), flat.end(), 0.5F);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string read() const {
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  void write(const std::string& bytes) const { std::ofstream{path, std::ios::binary} << bytes; }
  /// A file with this header, as it stands, and that many bytes of data.
  void write(const std::string& header, std::size_t data_bytes) const {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    write(bytes + header + std::string(data_bytes, '\0'));
  }
  std::string refusal() const {
    std::vector<float> into(flat.size());
    auto loaded = load_safetensors(path, layout, into.data());
    EXPECT_FALSE(loaded);
    if (loaded)
      return "";
    EXPECT_EQ(loaded.error().code, errc::bad_weights);
    EXPECT_EQ(loaded.error().message.find(path + ": "), 0U);
    return loaded.error().message.substr(path.size() + 2);
  }
  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
  }

  fs::path folder;
  std::string path;
  // Offsets 0, 16, 32: gaps after the first and the last.
  parameter_layout layout{{{"linear1.weight", {2, 3}, 0, {}}, {"linear1.bias", {2}, 16, {}}, {"scale", {}, 32, {}}}};
  std::vector<float> flat = std::vector<float>(48);
  const std::string good_header = R"({"linear1.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                  R"("linear1.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},)"
                                  R"("scale":{"dtype":"F32","shape":[],"data_offsets":[32,36]}})";
};

TEST_F(Safetensors, FileIsLengthThenPaddedHeaderThenPackedData) {
  ASSERT_TRUE(save_safetensors(path, layout, flat.data()));
  const auto bytes = read();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(bytes.substr(8, good_header.size()), good_header);
  EXPECT_EQ(bytes.substr(8 + good_header.size(), length - good_header.size()), std::string(length - good_header.size(), ' '));
  ASSERT_EQ(bytes.size(), 8 + length + 36);
  std::array<float, 9> data;
  std::memcpy(data.data(), bytes.data() + 8 + length, sizeof data);
  EXPECT_EQ(data, (std::array<float, 9>{0.5F, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F, 16.5F, 17.5F, 32.5F}));
}

TEST_F(Safetensors, WhatWasSavedLoads) {
  ASSERT_TRUE(save_safetensors(path, layout, flat.data(), {{"job", "a \"test\""}}));
  std::vector<float> into(48, -1.0F);
  auto loaded = load_safetensors(path, layout, into.data());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(weights_digest(layout, into.data()), weights_digest(layout, flat.data()));
  EXPECT_EQ(into[6], 0.0F); // a gap
  EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(Safetensors, OrderInTheFileDoesNotMatter) {
  write(
      R"({"scale":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"linear1.bias":{"data_offsets":[28,36],"shape":[2],"dtype":"F32"},)"
      R"("linear1.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]}})",
      36);
  std::vector<float> into(48);
  EXPECT_TRUE(load_safetensors(path, layout, into.data()));
}

TEST_F(Safetensors, NumpyReadsIt) {
  std::string python;
  if (std::system("/usr/bin/env python3 -c 'import numpy' 2>/dev/null") == 0)
    python = "/usr/bin/env python3";
  else if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0)
    python = "/usr/bin/python3";
  else
    GTEST_SKIP() << "no python3 with numpy here";
  ASSERT_TRUE(save_safetensors(path, layout, flat.data(), {{"job", "test"}}));
  const auto command = python + " " TROUPE_SOURCE_DIR "/tests/tensor/read_safetensors.py " + path;
  auto* out = ::popen(command.c_str(), "r");
  ASSERT_NE(out, nullptr);
  std::string printed(4096, '\0');
  printed.resize(std::fread(printed.data(), 1, printed.size(), out));
  EXPECT_EQ(::pclose(out), 0);
  EXPECT_EQ(printed, "linear1.weight (2, 3) [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]\n"
                     "linear1.bias (2,) [16.5, 17.5]\n"
                     "scale () [32.5]\n"
                     "metadata {'job': 'test'}\n");
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  ASSERT_TRUE(save_safetensors(path, layout, flat.data()));
  const auto whole = read();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write(whole.substr(0, bytes));
    EXPECT_NE(refusal(), "") << bytes;
  }
}

TEST_F(Safetensors, TooMuchDataIsRefused) {
  write(good_header, 40);
  EXPECT_EQ(refusal(), "has 40 bytes of data, its header says 36: too long");
}

TEST_F(Safetensors, ClaimedHeaderIsNotAllocated) {
  write(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_NE(refusal().find("not a safetensors file"), std::string::npos);
  write(std::string("\x00\x00\x00\x05\x00\x00\x00\x00{}", 10)); // 80 MB
  EXPECT_NE(refusal().find("truncated"), std::string::npos);
}

TEST_F(Safetensors, HeaderOverTheBoundIsNotRead) {
  // As long as it claims, but sparse: a reader would find 100 MB of zeros.
  const std::uint64_t length = 100'000'001;
  write(std::string(reinterpret_cast<const char*>(&length), sizeof length));
  fs::resize_file(path, sizeof length + length);
  EXPECT_EQ(refusal(), "claims a header of 100000001 bytes, more than 100000000: not a safetensors file");
}

TEST_F(Safetensors, WrongTensorsAreRefusedByName) {
  auto with = [&](const std::string& from, const std::string& to) {
    auto header = good_header;
    header.replace(header.find(from), from.size(), to);
    write(header, 36);
    return refusal();
  };
  EXPECT_EQ(with("linear1.bias", "linear1.blas"), "lacks the tensor \"linear1.bias\" (2) of the model");
  EXPECT_EQ(with("[2,3]", "[3,2]"), "tensor \"linear1.weight\" is (3, 2), the model's is (2, 3)");
  EXPECT_EQ(with("[2,3]", "[6]"), "tensor \"linear1.weight\" is (6), the model's is (2, 3)");
  EXPECT_EQ(with("F32", "F16"), "tensor \"linear1.weight\" has offsets [0, 24), expected [0, 12)");
  EXPECT_EQ(with("F32", "I32"), "tensor \"linear1.weight\" is I32, and parameters are read from F32, F16 and BF16");
  EXPECT_EQ(with("F32", "F31"), "tensor \"linear1.weight\" has no type, shape and two offsets as the format wants them");
  EXPECT_EQ(with("[24,32]", "[20,28]"), "tensor \"linear1.bias\" has offsets [20, 28), expected [24, 32)");
  EXPECT_EQ(with("[32,36]", "[36,40]"), "tensor \"scale\" has offsets [36, 40), expected [32, 36)");
  EXPECT_EQ(with("[32,36]", "[36,32]"), "tensor \"scale\" has no type, shape and two offsets as the format wants them");
  EXPECT_EQ(with("[32,36]", "[32,-1]"), "tensor \"scale\" has no type, shape and two offsets as the format wants them");
  EXPECT_EQ(with("[32,36]", "[32]"), "tensor \"scale\" has no type, shape and two offsets as the format wants them");
  EXPECT_EQ(with("[2,3]", "[2,3.0]"), "tensor \"linear1.weight\" has no type, shape and two offsets as the format wants them");
  EXPECT_EQ(with("[2,3]", "[9223372036854775807,18446744073709551615]"),
            "tensor \"linear1.weight\" has no type, shape and two offsets as the format wants them");
  EXPECT_EQ(with("[2,3]", "[4611686018427387904,4]"),
            "tensor \"linear1.weight\" is (4611686018427387904, 4), too large for any file");
  EXPECT_EQ(with("\"scale\"", "\"scale\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"extra\"").substr(0, 5),
            "tenso");
  EXPECT_EQ(with("\"scale\"", "\"extra\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[32,32]},\"scale\""),
            "has a tensor \"extra\" that the model does not have");
}

TEST_F(Safetensors, HeaderThatIsNoObjectIsRefused) {
  for (const auto* header : {"", "[]", "null", "{", "{\"a\":1}", "\xff\xfe", "{\"linear1.weight\":[]}"}) {
    write(header, 36);
    EXPECT_NE(refusal(), "") << header;
  }
  write(std::string(100000, '[') + std::string(100000, ']'), 36);
  EXPECT_NE(refusal(), "");
}

TEST_F(Safetensors, DamagedBytesAreRefusedOrHarmless) {
  ASSERT_TRUE(save_safetensors(path, layout, flat.data()));
  const auto whole = read();
  const auto header_end = whole.size() - 36;
  const unsigned seed = 4711;
  std::mt19937 random{seed};
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    auto bytes = whole;
    for (auto count = 1 + random() % 3; count > 0; --count)
      bytes[random() % header_end] = static_cast<char>(random() % 4 == 0 ? random() : "0123456789{}[],:\"-. "[random() % 21]);
    write(bytes);
    std::vector<float> into(48);
    auto loaded = load_safetensors(path, layout, into.data());
    refused += loaded ? 0 : 1;
    // What still loads says the same: a blank for a blank.
    if (loaded) {
      EXPECT_EQ(weights_digest(layout, into.data()), weights_digest(layout, flat.data()))
          << "seed " << seed << " round " << round;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Safetensors, MissingFileIsNamed) {
  std::vector<float> into(48);
  auto loaded = load_safetensors(path, layout, into.data());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, errc::io);
  EXPECT_EQ(loaded.error().message, path + ": cannot open it: No such file or directory; `run --save` writes such files");
}

TEST_F(Safetensors, FolderThatIsNotThereIsAnError) {
  auto saved = save_safetensors((folder / "no" / "file").string(), layout, flat.data());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, errc::io);
}

TEST_F(Safetensors, DeviceIsNotReplaced) {
  auto saved = save_safetensors("/dev/full", layout, flat.data());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().message, "/dev/full: cannot save the weights: it is not a regular file");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Safetensors, FailedWriteLeavesTheOldFileAndNothingElse) {
  ASSERT_TRUE(save_safetensors(path, layout, flat.data()));
  const auto before = read();
  // A limit on file size fails a write as a full disk does, with another errno.
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small{300, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  parameter_layout large{{{"w", {1000}, 0, {}}}};
  std::vector<float> zeros(1008);
  auto saved = save_safetensors(path, large, zeros.data());
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().message, path + ": cannot save the weights: File too large");
  EXPECT_EQ(read(), before);
  EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(Safetensors, DigestSkipsGapsAndSeesEveryBit) {
  const auto digest = weights_digest(layout, flat.data());
  EXPECT_EQ(digest.size(), 32U);
  flat[7] = -1; // a gap
  EXPECT_EQ(weights_digest(layout, flat.data()), digest);
  flat[5] = std::nextafter(flat[5], 9.0F);
  EXPECT_NE(weights_digest(layout, flat.data()), digest);
}

TEST_F(Safetensors, DigestIsSha256OfThePackedBytes) {
  // printf '\0\0\200\77' | sha256sum: the float 1.
  const float one = 1;
  EXPECT_EQ(weights_digest({{{"w", {1}, 0, {}}}}, &one), "e00e5eb9444182f352323374ef4e08eb");
}

} // namespace
} // namespace troupe
