// SPDX-License-Identifier: BSD-3-Clause
// Who has what of parameters that travel encoded. Without tensors; both the shard's actor and the simulator's use it.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocols/message.hpp"

namespace troupe::protocols {

/// A shard whose parameters travel encoded has an image of them: what its workers have, bit for bit. A sending moves the image to
/// a version, and what travels is the code of the difference. Who has the image of the sending before builds on that; everyone
/// else is given the new image whole: who is new, who was left out, everyone after a new plan, for another life has nothing.
/// The first image is the version itself.
///
/// So all workers that compute at one version do so at the same bits, and what codes lose stays in the difference to the next
/// version (error feedback: Seide et al. 2014). The bits depend on which versions are sent, and not on who has what: neither a
/// lost worker changes them, nor a backup that takes its shard's place, nor a run that goes on from a checkpoint.
class image_course {
public:
  struct sending {
    std::optional<version> base{}; ///< whose image the code builds on; none: the image, whole
    std::vector<worker_id> to{};
  };
  struct step {
    bool moves = false; ///< first, the image is moved to the version of the order; the first image is that itself
    std::vector<sending> sendings{};
  };

  /// What is to be done at an order to send parameters. The evaluator is no worker here: it has the version itself.
  step on(const send_order& order) {
    step out = follow(order);
    const auto builds = [&](worker_id who) {
      const auto known = has_.find(who);
      return known != has_.end() && base_ && known->second == std::pair{*base_, order.epoch};
    };
    sending coded{.base = base_}, whole;
    for (const worker_id who : order.to) {
      if (who == evaluator)
        continue;
      (builds(who) ? coded : whole).to.push_back(who);
      has_[who] = {order.ver, order.epoch};
    }
    for (sending* each : {&coded, &whole})
      if (!each->to.empty())
        out.sendings.push_back(std::move(*each));
    return out;
  }

  /// How the image moves at an order that another one carries out: a backup keeps the image of its shard.
  step follow(const send_order& order) {
    const bool to_workers = std::ranges::any_of(order.to, [](worker_id who) { return who != evaluator; });
    step out{.moves = to_workers && (!image_ || *image_ < order.ver)}; // a new lead may repeat an older order
    if (out.moves)
      base_ = std::exchange(image_, order.ver);
    return out;
  }

  /// It goes on with the image of this version, which nobody has yet.
  void resume(version image) { image_ = image; }
  /// Of which version the image is; none: there is none.
  std::optional<version> image() const { return image_; }
  /// There is no code of the difference: the image has become the version itself, and everyone is given it whole.
  void cannot_build(step& of) {
    base_.reset();
    for (sending& each : of.sendings)
      each.base.reset();
  }

private:
  std::optional<version> image_, base_;                       ///< of which version it is; by whose code it became that
  std::map<worker_id, std::pair<version, plan_epoch>> has_{}; ///< what each was sent last, and under which plan
};

} // namespace troupe::protocols
