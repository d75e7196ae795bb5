# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of who has what of parameters that travel encoded. See mutants.py."""

IMAGE = "binding/image_course.hpp"

# file, text, replacement, what it breaks; where no test can notice it, why
MUTANTS = [
    (IMAGE, ".moves = to_workers && (!image_", ".moves = (!image_", "an evaluation moves the image"),
    (IMAGE, "(!image_ || *image_ < order.ver)}", "(!image_ || image_ != order.ver)}", "an older order moves the image"),
    (IMAGE, "(!image_ || *image_ < order.ver)}", "(!image_ || *image_ <= order.ver)}", "a version that is sent again moves the image"),
    (IMAGE, "known->second == std::pair{*base_, order.epoch};", "known->second.first == *base_;", "who had it under an older plan builds on it"),
    (IMAGE, "known->second == std::pair{*base_, order.epoch};", "known->second.second == order.epoch;", "who had any version builds on the last"),
    (IMAGE, "      base_ = std::exchange(image_, order.ver);", "      image_ = order.ver;", "a code builds on nothing"),
    (IMAGE, "      base_ = std::exchange(image_, order.ver);", "      base_ = image_ = order.ver;", "a code builds on what it makes"),
    (IMAGE, "      base_ = std::exchange(image_, order.ver);", "      base_ = image_;", "the image stays what it was"),
    (IMAGE, "      if (who == evaluator)\n        continue;\n", "", "the evaluator is given an image"),
    (IMAGE, "(builds(who) ? coded : whole)", "(base_ ? coded : whole)", "who was left out builds on what it has not got"),
    (IMAGE, "(builds(who) ? coded : whole)", "(builds(who) ? whole : whole)", "everyone is given all of it"),
    (IMAGE, "      has_[who] = {order.ver, order.epoch};\n", "", "nobody is known to have anything"),
    (IMAGE, "    base_.reset();\n    for", "    for", "later ones build on a code that there is not"),
    (IMAGE, "{ image_ = image; }", "{ (void)image; }", "a run that goes on has no image"),
    (IMAGE, "      each.base.reset();", "      (void)each;", "where there is no code, it is sent all the same"),
    ("holder.cpp", "  else if (place_.is_shard && !state_.joins)", "  else if (place_.is_shard)", "a backup follows what it has not got"),
    ("holder.cpp", "  else if (place_.is_shard && !state_.joins)", "  else if (!state_.joins)", "an aggregator follows a shard"),
    ("holder.cpp", "    if (place_.backup_of && !state_.joins && !round.send_to.empty())", "    if (!state_.joins && !round.send_to.empty())", "a shard follows itself"),
    ("holder.cpp", "    if (place_.backup_of && !state_.joins && !round.send_to.empty())", "    if (place_.backup_of && !round.send_to.empty())", "a backup that catches up follows a round"),
    ("holder.cpp", "    if (place_.backup_of && !state_.joins && !round.send_to.empty())", "    if (place_.backup_of && !state_.joins)", "a backup follows what nobody is sent"),
    ("holder.cpp", "      out.emplace_back(follow{order_of(round)});", "      (void)round;", "a backup does not follow rounds"),
]
