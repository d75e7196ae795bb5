// SPDX-License-Identifier: BSD-3-Clause
// Gradient coding: groups by counting; cyclic codes by a seeded search and QR in float64.
#include "protocols/gradient_code.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/random_stream.hpp"

namespace troupe::protocols {
namespace {

constexpr std::uint32_t most_cyclic_workers = 64; // the search takes time n^3
constexpr std::size_t searched_sets = 1000;
constexpr std::size_t judged_sets = 10000;
constexpr int fresh_draws = 20;
constexpr int moves = 300;

using ranks = std::vector<std::uint32_t>;

/// Columns one after the other.
struct matrix {
  matrix(std::size_t rows, std::size_t columns) : rows(rows), columns(columns), data(rows * columns) {}
  double& operator()(std::size_t row, std::size_t column) { return data[column * rows + row]; }
  double operator()(std::size_t row, std::size_t column) const { return data[column * rows + row]; }
  std::span<double> column(std::size_t at) { return {data.data() + at * rows, rows}; }

  std::size_t rows, columns;
  std::vector<double> data;
};

/// A = Q R by Householder reflections (Golub and Van Loan, algorithm 5.2.1), for A of full column rank, rows >= columns. Every
/// sum runs in index order, so that every build computes the same bits.
class qr {
public:
  explicit qr(matrix a) : a_(std::move(a)), diagonal_(a_.columns) {
    TROUPE_ASSERT(a_.rows >= a_.columns);
    for (std::size_t k = 0; k < a_.columns; ++k) {
      double squares = 0;
      for (std::size_t i = k; i < a_.rows; ++i)
        squares += a_(i, k) * a_(i, k);
      diagonal_[k] = a_(k, k) > 0 ? -std::sqrt(squares) : std::sqrt(squares);
      a_(k, k) -= diagonal_[k]; // the column is now the reflector: no cancellation, by the choice of sign
      for (std::size_t j = k + 1; j < a_.columns; ++j)
        reflect(k, a_.column(j));
    }
  }

  /// The smallest x with A^T x = b: x = Q R^-T b.
  std::vector<double> smallest(std::vector<double> b) const {
    TROUPE_ASSERT(b.size() == a_.columns);
    for (std::size_t i = 0; i < b.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j)
        b[i] -= a_(j, i) * b[j];
      b[i] /= diagonal_[i];
    }
    b.resize(a_.rows);
    multiply(b);
    return b;
  }

  /// Orthonormal columns that span the x with A^T x = 0.
  matrix null() const {
    matrix out{a_.rows, a_.rows - a_.columns};
    for (std::size_t k = 0; k < out.columns; ++k) {
      out(a_.columns + k, k) = 1;
      multiply(out.column(k));
    }
    return out;
  }

private:
  /// x <- (I - 2 v v^T / v^T v) x; v is zero above k, and v^T v = -2 v_k R_kk.
  void reflect(std::size_t k, std::span<double> x) const {
    double dot = 0;
    for (std::size_t i = k; i < x.size(); ++i)
      dot += a_(i, k) * x[i];
    const double scale = dot / (a_(k, k) * diagonal_[k]);
    for (std::size_t i = k; i < x.size(); ++i)
      x[i] += scale * a_(i, k);
  }
  void multiply(std::span<double> x) const {
    for (std::size_t k = a_.columns; k-- > 0;)
      reflect(k, x);
  }

  matrix a_; ///< R above the diagonal, the reflectors from there on down
  std::vector<double> diagonal_;
};

} // namespace

struct gradient_code::cyclic_code {
  matrix coefficients;             ///< (s + 1) x n: column i has the B_ij of j = i..i+s (mod n), the largest of magnitude 1
  std::vector<double> all_present; ///< the smallest a with a^T B = 1^T
  matrix null;                     ///< n x s: orthonormal columns z, z^T B = 0

  /// The smallest a with a^T B = 1^T and a_i = 0 for each missing i. It is all_present + null c. The two are orthogonal, so the
  /// smallest c that makes the missing elements zero is right: s unknowns, not n.
  std::vector<double> weights(const ranks& missing) const {
    TROUPE_ASSERT(missing.size() <= null.columns);
    matrix rows{null.columns, missing.size()};
    std::vector<double> remove;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      for (std::size_t k = 0; k < null.columns; ++k)
        rows(k, i) = null(missing[i], k);
      remove.push_back(-all_present[missing[i]]);
    }
    const std::vector<double> c = qr{std::move(rows)}.smallest(std::move(remove));
    std::vector<double> out = all_present;
    for (std::size_t k = 0; k < null.columns; ++k)
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] += null(i, k) * c[k];
    return out;
  }

  /// The largest element of |a^T B - 1|.
  double residual(const std::vector<double>& a) const {
    TROUPE_ASSERT(a.size() == coefficients.columns);
    std::vector<double> sum(a.size(), -1.0);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t k = 0; k < coefficients.rows; ++k)
        sum[(i + k) % a.size()] += a[i] * coefficients(k, i);
    double out = 0;
    for (const double element : sum)
      out = std::max(out, std::abs(element));
    return out;
  }

  static cyclic_code orthogonal_to(const matrix& h);
  static std::pair<cyclic_code, double> search(const code_options& options);
};

namespace {

/// Approximately normal, by sums only: log and cos differ in their last bit between processors.
double bell(random_stream& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i)
    sum += random.uniform();
  return sum;
}

/// A random H (s x n) whose rows sum to zero.
matrix fresh_h(std::size_t s, std::size_t n, random_stream& random) {
  matrix h{s, n};
  for (std::size_t k = 0; k < s; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i)
      sum += h(k, i) = bell(random);
    for (std::size_t i = 0; i < n; ++i)
      h(k, i) -= sum / static_cast<double>(n);
  }
  return h;
}

/// Draws one column again and corrects another, so that rows still sum to zero.
void move_one(matrix& h, random_stream& random) {
  const std::size_t one = random.below(h.columns), other = (one + 1 + random.below(h.columns - 1)) % h.columns;
  for (std::size_t k = 0; k < h.rows; ++k) {
    const double drawn = bell(random);
    h(k, other) += h(k, one) - drawn;
    h(k, one) = drawn;
  }
}

double binomial(std::uint32_t n, std::uint32_t s) {
  double out = 1;
  for (std::uint32_t i = 0; i < s; ++i)
    out = out * (n - i) / (i + 1);
  return out;
}

/// The next set of the same size out of n, in lexicographic order; false after the last.
bool advance(ranks& set, std::uint32_t n) {
  for (std::size_t i = set.size(); i-- > 0;)
    if (set[i] + (set.size() - i) < n) {
      std::iota(set.begin() + static_cast<std::ptrdiff_t>(i), set.end(), set[i] + 1);
      return true;
    }
  return false;
}

ranks draw_set(std::uint32_t s, std::uint32_t n, random_stream& random) {
  TROUPE_ASSERT(s <= n);
  std::set<std::uint32_t> drawn;
  while (drawn.size() < s)
    drawn.insert(static_cast<std::uint32_t>(random.below(n)));
  return {drawn.begin(), drawn.end()};
}

/// The sets of s out of n: all of them, or `most` drawn ones if there are more.
std::vector<ranks> sets_of(std::uint32_t s, std::uint32_t n, std::size_t most, random_stream& random) {
  std::vector<ranks> out;
  if (binomial(n, s) <= static_cast<double>(most)) {
    ranks set(s);
    std::iota(set.begin(), set.end(), 0U);
    do
      out.push_back(set);
    while (advance(set, n));
  } else {
    while (out.size() < most)
      out.push_back(draw_set(s, n, random));
  }
  return out;
}

/// The largest |a_i| over the sets; infinite if not below the bound. The set that exceeded it is tried first the next time: most
/// candidates of a search fail on the same few sets.
template <class Code>
double amplification_of(const Code& code, std::vector<ranks>& sets, double bound) {
  double out = 0;
  for (auto& missing : sets)
    for (const double a : code.weights(missing)) {
      if (!(std::abs(a) < bound)) { // or is not a number
        std::swap(sets.front(), missing);
        return std::numeric_limits<double>::infinity();
      }
      out = std::max(out, std::abs(a));
    }
  return out;
}

/// What is wrong with the sizes.
std::string validate_sizes(const code_options& options) {
  if (options.stragglers >= options.workers)
    return fmt::format("stragglers must be below workers (here {} of {}); take more workers or fewer stragglers",
                       options.stragglers, options.workers);
  if (options.scheme == code_scheme::cyclic && options.workers > most_cyclic_workers)
    return fmt::format("a cyclic code takes at most {} workers (here {}): use scheme = \"groups\"", most_cyclic_workers,
                       options.workers);
  return {};
}

} // namespace

/// B with H B^T = 0 and what decoding needs of it. With Q's columns an orthonormal basis of {x: H x = 0}, which has 1 and every
/// row of B in it, a^T B = 1^T is the (n - s) x n system (B Q)^T a = Q^T 1, whose rank is full.
gradient_code::cyclic_code gradient_code::cyclic_code::orthogonal_to(const matrix& h) {
  const std::size_t s = h.rows, n = h.columns;
  matrix transposed{n, s};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < s; ++k)
      transposed(i, k) = h(k, i);
  const matrix q = qr{std::move(transposed)}.null();

  matrix b{s + 1, n}, bq{n, n - s};
  for (std::size_t i = 0; i < n; ++i) {
    matrix rest{s, s};
    std::vector<double> first(s);
    for (std::size_t k = 0; k < s; ++k) {
      first[k] = -h(k, i);
      for (std::size_t j = 0; j < s; ++j)
        rest(j, k) = h(k, (i + 1 + j) % n);
    }
    std::vector<double> row = qr{std::move(rest)}.smallest(std::move(first));
    row.insert(row.begin(), 1.0);
    double largest = 0;
    for (const double element : row)
      largest = std::max(largest, std::abs(element));
    for (std::size_t k = 0; k <= s; ++k) {
      b(k, i) = row[k] / largest;
      for (std::size_t j = 0; j < n - s; ++j)
        bq(i, j) += b(k, i) * q((i + k) % n, j);
    }
  }
  std::vector<double> ones(n - s);
  for (std::size_t j = 0; j < n - s; ++j)
    for (std::size_t i = 0; i < n; ++i)
      ones[j] += q(i, j);
  const qr system{std::move(bq)};
  return {std::move(b), system.smallest(std::move(ones)), system.null()};
}

/// The best of a few random H, then improved one column at a time: independent draws alone are worse by a factor of 2 to 10.
std::pair<gradient_code::cyclic_code, double> gradient_code::cyclic_code::search(const code_options& options) {
  const std::uint32_t s = options.stragglers, n = options.workers;
  random_stream random = random_stream::keyed(options.seed, n, s);
  std::vector<ranks> sets = sets_of(s, n, searched_sets, random);
  matrix best = fresh_h(s, n, random);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < fresh_draws + moves; ++i) {
    matrix h = i < fresh_draws ? fresh_h(s, n, random) : best;
    if (i >= fresh_draws)
      move_one(h, random);
    if (const double a = amplification_of(orthogonal_to(h), sets, least); a < least) {
      least = a;
      best = std::move(h);
    }
  }
  // The code was chosen by some sets, so it is measured with others; otherwise it would look better than it is.
  std::vector<ranks> judges = sets_of(s, n, judged_sets, random);
  cyclic_code out = orthogonal_to(best);
  const double amplification = amplification_of(out, judges, std::numeric_limits<double>::infinity());
  return {std::move(out), amplification};
}

std::string gradient_code::validate(const code_options& options) {
  if (std::string wrong = validate_sizes(options); !wrong.empty())
    return wrong;
  const double amplification = gradient_code{options}.amplification();
  if (amplification <= amplification_limit)
    return {};
  return fmt::format(
      "the cyclic code of {} workers, {} stragglers multiplies rounding errors by {:.0f}, where {:.0f} is the limit: "
      "use scheme = \"groups\", which multiplies them by 1",
      options.workers, options.stragglers, amplification, amplification_limit);
}

gradient_code::gradient_code(const code_options& options) : workers_(options.workers), stragglers_(options.stragglers) {
  TROUPE_ASSERT(validate_sizes(options).empty());
  if (options.scheme == code_scheme::cyclic && stragglers_ > 0) {
    auto [code, amplification] = cyclic_code::search(options);
    cyclic_ = std::make_shared<const cyclic_code>(std::move(code));
    amplification_ = amplification;
  }
}

std::uint32_t gradient_code::cuts(std::uint32_t worker) const {
  TROUPE_ASSERT(worker < workers_);
  if (cyclic_)
    return workers_;
  const std::uint32_t groups = stragglers_ + 1, group = worker % groups;
  return (workers_ - group + groups - 1) / groups;
}

std::vector<gradient_code::part> gradient_code::parts(std::uint32_t worker) const {
  TROUPE_ASSERT(worker < workers_);
  if (!cyclic_)
    return {{worker / (stragglers_ + 1), 1.0}};
  std::vector<part> out;
  for (std::uint32_t k = 0; k <= stragglers_; ++k)
    out.push_back({(worker + k) % workers_, cyclic_->coefficients(k, worker)});
  return out;
}

std::optional<gradient_code::decoding> gradient_code::decode(const ranks& present) const {
  TROUPE_ASSERT(std::ranges::is_sorted(present) && (present.empty() || present.back() < workers_));
  return cyclic_ ? decode_cyclic(present) : decode_groups(present);
}

/// Groups come in at most two sizes, those of group 0 and of group s. In each, the smallest rank that has a cut is used.
std::optional<gradient_code::decoding> gradient_code::decode_groups(const ranks& present) const {
  const std::uint32_t larger = cuts(0), smaller = cuts(stragglers_);
  for (const std::uint32_t size : {larger, smaller}) {
    std::vector<char> held(size);
    decoding out{.weights = std::vector<double>(present.size())};
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < present.size(); ++i)
      if ((larger == smaller || cuts(present[i]) == size) && std::exchange(held[present[i] / (stragglers_ + 1)], 1) == 0) {
        out.weights[i] = 1;
        ++count;
      }
    if (count == size)
      return out;
    if (larger == smaller)
      break;
  }
  return {};
}

std::optional<gradient_code::decoding> gradient_code::decode_cyclic(const ranks& present) const {
  if (present.size() + stragglers_ < workers_)
    return {};
  ranks missing;
  for (std::uint32_t i = 0; i < workers_; ++i)
    if (!std::ranges::binary_search(present, i))
      missing.push_back(i);
  std::vector<double> a = cyclic_->weights(missing);
  for (const std::uint32_t i : missing)
    a[i] = 0;
  decoding out{.residual = cyclic_->residual(a)};
  for (const std::uint32_t i : present)
    out.weights.push_back(a[i]);
  return out;
}

} // namespace troupe::protocols
