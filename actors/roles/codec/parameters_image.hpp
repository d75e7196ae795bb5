// SPDX-License-Identifier: BSD-3-Clause
// What workers have of parameters that travel encoded: at the shard that encodes, and at each worker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/checkpoint/saved_state.hpp"
#include "actors/roles/codec/parameters_out.hpp"
#include "actors/roles/holder/role_snapshot.hpp"
#include "kernels/buffer.hpp"
#include "kernels/form.hpp"
#include "protocols/binding/image_course.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// The shard's image of its range, in host memory, and the code of its last move. See protocols/binding/image_course.hpp. One
/// thread.
class encoded_parameters {
public:
  using allocate_fn = std::function<kernels::buffer(std::size_t bytes)>;
  struct sending {
    std::vector<protocols::worker_id> to{};
    std::vector<parameters_part> parts{}; ///< all codes, or all of the image, whole
  };

  /// `seed`: the job's; numbers are drawn by it, by version and by place, so the number of shards changes none. `partitions`: of
  /// `range`.
  encoded_parameters(kernels::form as, std::uint64_t seed, flat_range range, std::vector<flat_range> partitions,
                     allocate_fn allocate)
      : form_(as), seed_(seed), range_(range), partitions_(std::move(partitions)), allocate_(std::move(allocate)) {}

  /// Moves the image to these parameters, by the code of what it differs by. False where there is none before, or that is not
  /// finite: then it is these parameters themselves.
  bool move(protocols::version ver, const kernels::buffer& parameters);
  /// What is sent at an order, of these parameters; nothing to the evaluator.
  std::vector<sending> on(const protocols::send_order& order, const kernels::buffer& parameters, protocols::version marked = {});
  /// Of a backup: the image moves as its shard's does at that order.
  void follow(const protocols::send_order& order, const kernels::buffer& parameters);
  const kernels::buffer& image() const { return image_; }
  /// Adds the image to a shard's part of a checkpoint, and of which version it is, unless it is a version itself.
  void save_to(role_snapshot& part) const;
  /// It goes on with the image that was saved, if one was. To be called before the first order.
  void resume(const saved_state& from);

private:
  protocols::image_course::step carried_out(protocols::image_course::step step, protocols::version ver,
                                            const kernels::buffer& parameters);
  bool encode(protocols::version ver, const kernels::buffer& parameters);
  void encode_changes(const kernels::buffer& parameters);
  std::vector<parameters_part> whole() const;

  kernels::form form_;
  std::uint64_t seed_;
  flat_range range_;
  std::vector<flat_range> partitions_;
  allocate_fn allocate_;
  protocols::image_course course_;
  kernels::buffer image_;
  std::vector<parameters_part> codes_; ///< of its last move
  std::vector<float> difference_;      ///< of one partition
};

/// A worker's image of all parameters, in host memory, partition by partition. One thread.
class decoded_parameters {
public:
  /// `floats`: of the flat array. `as`: the form of the job's codes.
  decoded_parameters(kernels::form as, std::int64_t floats) : form_(as), image_(static_cast<std::size_t>(floats)) {}

  /// Adds a part to `to`, a tensor_inbox: the image there at this version. What `take` says; `to` may refuse it.
  template <class Inbox>
  std::optional<std::string> add(Inbox& to, std::uint64_t key, protocols::version ver, const parameters_part& part) {
    const auto place = to.place(key, part.where);
    if (!place)
      return {};
    if (auto wrong = take(part.where, ver, part.as, part.base, part.data.span<const std::byte>(), place.template span<float>()))
      return wrong;
    to.add(key, part.where, place);
    return {};
  }
  /// The image of a partition at this version, copied to `out`. An error says why the part cannot be used: its bytes are not of
  /// its form, or it builds on a version that is not here.
  std::optional<std::string> take(flat_range where, protocols::version ver, kernels::form as, protocols::version base,
                                  std::span<const std::byte> bytes, std::span<float> out);

private:
  bool has(flat_range where, protocols::version ver) const;

  kernels::form form_;
  std::vector<float> image_;
  std::map<std::int64_t, std::pair<std::int64_t, protocols::version>> has_; ///< by where a piece begins: its end and version
};

} // namespace troupe::actors
