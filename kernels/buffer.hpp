// SPDX-License-Identifier: BSD-3-Clause
// A reference-counted block of device or host memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace troupe::kernels {

/// Every block starts at a multiple of this and its capacity is padded to one; the padding is zeroed when the block is
/// first made, so that a message that includes a few bytes past the end leaks nothing.
inline constexpr std::size_t alignment = 64;

/// Shared handle of a block of memory; the block goes back to the pool it came from when its last handle dies, on
/// whatever thread that happens. Copying a handle never copies bytes. By convention a block is written by one owner
/// before it is shared, and is immutable from then on.
class buffer {
public:
  buffer() = default;

  /// Wraps memory that `owner` keeps alive. `data` must be aligned to `alignment`.
  buffer(std::shared_ptr<void> owner, void* data, std::size_t bytes)
      : owner_(std::move(owner)), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}

  buffer(const buffer&) = default;
  buffer& operator=(const buffer&) = default;
  ~buffer() = default;
  /// A handle that was moved from holds nothing.
  buffer(buffer&& other) noexcept { *this = std::move(other); }
  buffer& operator=(buffer&& other) noexcept {
    owner_ = std::move(other.owner_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  /// Address in the memory of the device that allocated it; host code may touch it only for host buffers and for
  /// buffers of a CPU backend.
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  explicit operator bool() const { return data_ != nullptr; }

  /// The same block seen as floats or 32-bit integers (`count` elements from the start by default: all of it).
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  std::span<T> span() const {
    return {as<T>(), bytes_ / sizeof(T)};
  }

  /// A handle of a part; it keeps the whole block alive.
  buffer slice(std::size_t offset, std::size_t bytes) const { return {owner_, data_ + offset, bytes}; }

  /// A handle of any other part of the same block; the caller knows that [data, data + bytes) lies in it.
  buffer window(std::byte* data, std::size_t bytes) const { return {owner_, data, bytes}; }
  /// Whether both handles keep the same block alive.
  bool shares_block_with(const buffer& other) const { return owner_ == other.owner_; }

  /// How many handles share the block (a hint: others may come and go on other threads).
  long use_count() const { return owner_.use_count(); }

  friend bool operator==(const buffer&, const buffer&) = default;

private:
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

} // namespace troupe::kernels
