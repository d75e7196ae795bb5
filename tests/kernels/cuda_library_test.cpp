// SPDX-License-Identifier: BSD-3-Clause
// Why a CUDA device cannot be used, and what is said of one that can; on the emulator, so that no GPU is needed for any of it.
#include "tests/kernels/harness.hpp"

#include <cstring>

namespace troupe::kernels::testing {

namespace {

std::string refusal(const backend_options& options) {
  try {
    open_backend(options);
  } catch (const device_error& e) {
    return e.what();
  }
  return "";
}

class CudaLibrary : public ::testing::Test {
protected:
  with_environment library{"TROUPE_CUDA_LIBRARY", TROUPE_EMULATED_CUDA};
};

TEST_F(CudaLibrary, ThatIsMissingIsNamed) {
  const with_environment nowhere("TROUPE_CUDA_LIBRARY", "/nowhere/libtroupe_cuda.so");
  const auto reason = refusal({.device = "cuda:0"});
  EXPECT_TRUE(reason.starts_with("device \"cuda:0\": the library that TROUPE_CUDA_LIBRARY names cannot be loaded: "
                                 "/nowhere/libtroupe_cuda.so"))
      << reason;
  EXPECT_TRUE(reason.ends_with("; device = \"cpu\" works")) << reason;
}

TEST_F(CudaLibrary, OfAnotherBuildIsRefused) {
  const with_environment other("TROUPE_CUDA_LIBRARY", TROUPE_OTHER_BUILD);
  const auto reason = refusal({.device = "cuda"});
  EXPECT_NE(
      reason.find("the CUDA library is of another build: it is \"Troupe 0.0.1, interface 000000000000\", this program \"Troupe "),
      std::string::npos)
      << reason;
}

TEST_F(CudaLibrary, ThatIsSomethingElseIsRefused) {
  const with_environment other("TROUPE_CUDA_LIBRARY", "libm.so.6");
  EXPECT_EQ(refusal({.device = "cuda"}),
            "device \"cuda\": the CUDA library is not Troupe's: it has no troupe_cuda_build; device = \"cpu\" works");
}

TEST_F(CudaLibrary, WithoutADriverSaysSo) {
  const with_environment none("TROUPE_EMULATED_CUDA_DEVICES", "-1"); // the count is left unwritten then, as CUDA leaves it
  EXPECT_NE(refusal({.device = "cuda:0"}).find("no NVIDIA driver is loaded on this machine"), std::string::npos);
  const auto devices = list_devices();
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[1].name, "cuda");
  EXPECT_FALSE(devices[1].usable);
  EXPECT_NE(devices[1].reason.find("no NVIDIA driver"), std::string::npos);
}

TEST_F(CudaLibrary, WithoutADeviceSaysSo) {
  const with_environment none("TROUPE_EMULATED_CUDA_DEVICES", "0");
  EXPECT_NE(refusal({.device = "cuda"}).find("there is a driver but no device"), std::string::npos);
}

TEST_F(CudaLibrary, ANumberOutOfRangeIsToldTheRange) {
  EXPECT_NE(refusal({.device = "cuda:1"}).find(": there is one device, cuda:0;"), std::string::npos);
  const with_environment three("TROUPE_EMULATED_CUDA_DEVICES", "3");
  EXPECT_NE(refusal({.device = "cuda:3"}).find("there are 3 devices, cuda:0 to cuda:2"), std::string::npos);
  for (const std::string wrong : {"cuda:", "cuda:x", "cuda:1x", "cuda:-1"})
    EXPECT_NE(refusal({.device = wrong}).find("is no number of a device"), std::string::npos) << wrong;
}

TEST_F(CudaLibrary, ADeviceThatIsTooOldIsRefused) {
  const with_environment old("TROUPE_EMULATED_CUDA_CAPABILITY", "7.5");
  EXPECT_NE(refusal({.device = "cuda:0"}).find("has compute capability 7.5, and this library was built for 8.0 and later"),
            std::string::npos);
  const auto devices = list_devices();
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_FALSE(devices[1].usable);
  EXPECT_NE(devices[1].reason.find("7.5"), std::string::npos);
}

TEST_F(CudaLibrary, ListsWhatIsThere) {
  const with_environment two("TROUPE_EMULATED_CUDA_DEVICES", "2");
  const with_environment memory("TROUPE_EMULATED_CUDA_MEMORY_MIB", "1024");
  const auto devices = list_devices();
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[2].name, "cuda:1");
  EXPECT_TRUE(devices[2].usable);
  EXPECT_EQ(devices[2].capability, "9.0");
  EXPECT_EQ(devices[2].driver, "CUDA 13.0");
  EXPECT_EQ(devices[2].memory_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(devices[2].free_bytes, std::uint64_t{1} << 30);
  EXPECT_NE(devices[2].detail.find("Emulated CUDA device"), std::string::npos) << "nobody may take it for a GPU";
}

TEST_F(CudaLibrary, CudaMeansADeviceEachInTurn) {
  const with_environment two("TROUPE_EMULATED_CUDA_DEVICES", "2");
  const auto a = open_backend({.device = "cuda"}), b = open_backend({.device = "cuda"}), c = open_backend({.device = "cuda"});
  EXPECT_NE(a->name(), b->name());
  EXPECT_EQ(a->name(), c->name());
}

class CudaMemory : public CudaLibrary {};

TEST_F(CudaMemory, RunningOutNamesTheBytes) {
  const with_environment memory("TROUPE_EMULATED_CUDA_MEMORY_MIB", "16");
  const auto queue = open_backend({.device = "cuda:0"});
  const auto held = queue->allocate(std::size_t{4} << 20);
  try {
    queue->allocate(std::size_t{64} << 20);
    FAIL() << "64 MiB of 16";
  } catch (const device_error& e) {
    const std::string reason = e.what();
    EXPECT_NE(
        reason.find("cuda:0 is out of memory: 67108864 bytes asked for, 4194304 in use by this queue, 12582912 free of 16777216"),
        std::string::npos)
        << reason;
  }
  EXPECT_EQ(queue->allocate(1 << 20).bytes(), 1U << 20) << "the queue goes on";
}

TEST_F(CudaMemory, WhatThePoolKeepsIsGivenBackBeforeItRunsOut) {
  const with_environment memory("TROUPE_EMULATED_CUDA_MEMORY_MIB", "16");
  const auto queue = open_backend({.device = "cuda:0"});
  for (std::size_t mib : {9, 10, 11}) // each another size class: none serves the next
    EXPECT_EQ(queue->allocate(mib << 20).bytes(), mib << 20);
}

TEST_F(CudaMemory, AFreedBlockServesTheNextOfItsClass) {
  const auto queue = open_backend({.device = "cuda:0"});
  auto first = queue->allocate(100'000);
  const auto* address = first.data();
  first = {};
  EXPECT_EQ(queue->allocate(99'000).data(), address);
}

TEST_F(CudaMemory, PaddingIsZeroHoweverABlockWasUsed) {
  const auto queue = open_backend({.device = "cuda:0"});
  auto full = queue->allocate(512);
  const auto* address = full.data();
  queue->enqueue(fill{full.as<float>(), 1, 128});
  queue->synchronize();
  full = {};
  const auto part = queue->allocate(260); // padded to 320
  ASSERT_EQ(part.data(), address);
  std::vector<std::byte> seen(320);
  queue->copy_to_host(seen.data(), part.data(), seen.size());
  queue->synchronize();
  for (std::size_t i = 260; i < 320; ++i)
    EXPECT_EQ(seen[i], std::byte{0}) << i;
  auto host = queue->allocate_host(70);
  std::memset(host.data(), 0xff, 128);
  const auto* pinned = host.data();
  host = {};
  host = queue->allocate_host(70);
  ASSERT_EQ(host.data(), pinned);
  EXPECT_EQ(host.data()[127], std::byte{0});
}

TEST_F(CudaMemory, BlocksOutliveTheBackend) {
  buffer device, host;
  {
    const auto queue = open_backend({.device = "cuda:0"});
    device = queue->allocate(4096);
    host = queue->allocate_host(4096);
  }
  std::memset(host.data(), 1, 4096);
  EXPECT_EQ(host.data()[4095], std::byte{1});
}

TEST_F(CudaMemory, TheHostMustNotTouchIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch = [] {
    const auto queue = open_emulated({.device = "cuda:0"});
    const auto block = queue->allocate(4096);
    queue->enqueue(fill{block.as<float>(), 1, 1024});
    queue->synchronize();
    *static_cast<volatile float*>(block.as<float>()) = 2;
    std::exit(0);
  };
  EXPECT_DEATH(touch(), "");
}

TEST_F(CudaMemory, AnotherDevicesMemoryCanBeCopiedFrom) {
  const with_environment two("TROUPE_EMULATED_CUDA_DEVICES", "2");
  const auto first = open_backend({.device = "cuda:0"}), second = open_backend({.device = "cuda:1"});
  device_array<float> source(*first, std::vector<float>{1, 2, 3}), destination(*second, 3);
  first->synchronize();
  second->copy(destination, source, 3 * sizeof(float));
  EXPECT_EQ(destination.get(), (std::vector<float>{1, 2, 3}));
}

} // namespace

} // namespace troupe::kernels::testing
