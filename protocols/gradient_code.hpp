// SPDX-License-Identifier: BSD-3-Clause
// Gradient coding: which parts of a batch a worker computes, and how to add pushes up when some workers are missing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::protocols {

enum class code_scheme { automatic, groups, cyclic };

struct code_options {
  code_scheme scheme = code_scheme::automatic;
  std::uint32_t workers = 1;    ///< n
  std::uint32_t stragglers = 0; ///< s: how many may be missing, whichever; below n
  std::uint64_t seed = 0;       ///< of the search for a cyclic code
};

/// A gradient code (Tandon, Lei, Dimakis, Karampatziakis, ICML 2017). The global batch is divided into cuts of even size. Worker
/// i pushes sum_j B_ij g_j, where g_j is the gradient of cut j weighted by the cut's share of the batch's samples, so that the
/// sum of all g_j is the batch's gradient g. For any set of at least n - s workers there are weights a_i with which their pushes
/// add up to g. Workers are named by rank, 0..n-1. Equal options make the same code, bit for bit, on every host.
///
/// groups: s + 1 groups, each of which covers the whole batch. Worker r is the member r / (s + 1) of group r % (s + 1), so sizes
/// differ by at most one; a group of m members divides the batch into m cuts, one each. Groups of one size hold the same cuts, so
/// that one survivor per cut is enough: often more than s may be missing. This is the paper's fractional repetition if s + 1
/// divides n; for any other n it is ours. Weights are 0 or 1. Members of a smaller group have more work: n = 31, s = 3 makes cuts
/// of 1/8 and 1/7.
///
/// cyclic: n cuts, worker i computes the cuts i..i+s (mod n). All have equal work, at the price of rounding errors: the weights
/// grow with n and s. The rows of B are orthogonal to those of a random H (s x n, H 1 = 0), the best of many drawn.
///
/// automatic means groups. cyclic with s = 0 is groups too: the plain sum of n pushes.
///
/// A value; const members are safe to call from several threads.
class gradient_code {
public:
  /// Largest amplification that validate() accepts. With random gradients, the decoding error measured was up to 1 to 2 times
  /// amplification times 6e-8 (half a float32 ulp): 4e-6 near this limit, where 1e-5 is allowed.
  static constexpr double amplification_limit = 64;

  struct part {
    std::uint32_t index = 0; ///< of the cut, below cuts(worker)
    double weight = 0;       ///< B_ij; at most 1 in magnitude
    friend bool operator==(const part&, const part&) = default;
  };
  struct decoding {
    std::vector<double> weights{}; ///< a_i, one per present worker, in the order given
    double residual = 0;           ///< largest element of |a^T B - 1|: float64 rounding only
  };

  /// What is wrong with the options, with a remedy; empty if they are valid. Costs as much as making the code.
  static std::string validate(const code_options& options);

  /// Ends the process unless stragglers < workers. Makes codes beyond the amplification limit too.
  explicit gradient_code(const code_options& options);

  /// Into how many cuts the batch is divided for this worker.
  std::uint32_t cuts(std::uint32_t worker) const;
  /// The cuts that this worker computes, and with which coefficients it adds their gradients up.
  std::vector<part> parts(std::uint32_t worker) const;
  /// Fewer pushes than these are never enough.
  std::uint32_t least() const { return cyclic_ ? workers_ - stragglers_ : cuts(stragglers_); }
  /// How to add up the pushes of these workers (ranks, ascending); nothing if they are not enough. Depends only on the set. O(n)
  /// for groups, O(n s + s^3) for cyclic.
  std::optional<decoding> decode(const std::vector<std::uint32_t>& present) const;
  /// The largest |a_i| over the sets of s missing workers: all sets, or 10000 drawn ones if there are more.
  double amplification() const { return amplification_; }

private:
  struct cyclic_code;
  std::optional<decoding> decode_groups(const std::vector<std::uint32_t>& present) const;
  std::optional<decoding> decode_cyclic(const std::vector<std::uint32_t>& present) const;

  std::uint32_t workers_ = 1;
  std::uint32_t stragglers_ = 0;
  double amplification_ = 1;
  std::shared_ptr<const cyclic_code> cyclic_{}; ///< none: groups
};

} // namespace troupe::protocols
