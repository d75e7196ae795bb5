// SPDX-License-Identifier: BSD-3-Clause
// Mutants of good inputs, from a seed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

/// Mutant `number` of a seed is always the same: it is drawn from nothing else. SplitMix64, as in protocols/random_stream.hpp.
class mutator {
public:
  mutator(const std::vector<input>& corpus, const std::vector<std::string>& words, std::uint64_t seed)
      : corpus_(corpus), words_(words), seed_(seed) {}

  /// The first ones are the inputs themselves.
  input mutant(std::uint64_t number) {
    if (number < corpus_.size())
      return corpus_[number];
    state_ = seed_ * 0x9e37'79b9'7f4a'7c15U + number;
    input out = corpus_[below(corpus_.size())];
    for (std::size_t left = 1 + below(4) * below(4); left > 0; --left)
      change(out);
    if (out.size() > most)
      out.resize(most);
    return out;
  }

private:
  static constexpr std::size_t most = 1U << 17U;

  std::uint64_t draw() {
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebU;
    return z ^ (z >> 31U);
  }
  std::size_t below(std::size_t count) { return count == 0 ? 0 : draw() % count; }
  input::iterator place(input& in) { return in.begin() + static_cast<std::ptrdiff_t>(below(in.size() + 1)); }

  void change(input& in) {
    switch (below(in.empty() ? 3 : 9)) {
    case 0:
      return insert(in, some_word());
    case 1:
      return insert(in, part_of(corpus_[below(corpus_.size())]));
    case 2:
      return insert(in, input(1 + below(9), static_cast<std::uint8_t>(draw())));
    case 3:
      in[below(in.size())] ^= static_cast<std::uint8_t>(1U << below(8));
      return;
    case 4:
      in[below(in.size())] = static_cast<std::uint8_t>(draw());
      return;
    case 5:
      return overwrite(in);
    case 6:
      in.resize(below(in.size()));
      return;
    case 7: {
      const auto from = place(in);
      in.erase(from, from + static_cast<std::ptrdiff_t>(below(static_cast<std::size_t>(in.end() - from) + 1)));
      return;
    }
    default:
      return insert(in, part_of(in));
    }
  }

  void insert(input& in, const input& what) { in.insert(place(in), what.begin(), what.end()); }
  input some_word() { return words_.empty() ? input{static_cast<std::uint8_t>(draw())} : bytes_of(words_[below(words_.size())]); }
  input part_of(const input& whole) {
    const std::size_t begin = below(whole.size()), count = below(std::min<std::size_t>(whole.size() - begin, 256) + 1);
    return {whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.begin() + static_cast<std::ptrdiff_t>(begin + count)};
  }

  /// A number as a program would write it, where a program would: 1, 2, 4 or 8 bytes, either end first.
  void overwrite(input& in) {
    static constexpr std::array<std::uint64_t, 12> odd{
        0, 1, 7, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff'ffff, 0x8000'0000, 0xffff'ffff, 0x7fff'ffff'ffff'ffff, 0xffff'ffff'ffff'ffff};
    const std::size_t bytes = std::size_t{1} << below(4);
    if (in.size() < bytes)
      return;
    std::uint64_t value = below(3) == 0 ? in.size() + below(17) - 8 : odd[below(odd.size())];
    std::array<std::uint8_t, 8> spelled{};
    std::memcpy(spelled.data(), &value, bytes);
    if (below(3) == 0)
      std::reverse(spelled.begin(), spelled.begin() + static_cast<std::ptrdiff_t>(bytes));
    const std::size_t at = below(2) == 0 ? below(in.size() / bytes) * bytes : below(in.size() - bytes + 1);
    std::copy_n(spelled.begin(), bytes, in.begin() + static_cast<std::ptrdiff_t>(at));
  }

  const std::vector<input>& corpus_;
  const std::vector<std::string>& words_;
  std::uint64_t seed_, state_ = 0;
};

} // namespace troupe::fuzz
