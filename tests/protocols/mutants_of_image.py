# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of who has what of parameters that travel encoded. See mutants.py."""

IMAGE = "binding/image_course.hpp"

# file, text, replacement, what it breaks; where no test can notice it, why
MUTANTS = [
    (IMAGE, ".moves = to_workers && image_ != order.ver", ".moves = image_ != order.ver", "an evaluation moves the image"),
    (IMAGE, ".moves = to_workers && image_ != order.ver", ".moves = to_workers", "a version that is sent again moves the image"),
    (IMAGE, "known->second == std::pair{*what, order.epoch};", "known->second.first == *what;", "who had it under an older plan builds on it"),
    (IMAGE, "known->second == std::pair{*what, order.epoch};", "known->second.second == order.epoch;", "who had any version builds on the last"),
    (IMAGE, "&& std::ranges::none_of", "&& !std::ranges::all_of", "one who cannot build on it makes it whole for all"),
    (IMAGE, "      base_ = out.exact ? std::nullopt : image_;", "      base_ = image_;", "an exact image has a base"),
    (IMAGE, "      image_ = order.ver;\n", "", "the image stays what it was"),
    (IMAGE, "      if (who == evaluator)\n        continue;\n", "", "the evaluator is given an image"),
    (IMAGE, "(has(who, base_) ? coded : whole)", "(base_ ? coded : whole)", "who was left out builds on what it has not got"),
    (IMAGE, "(has(who, base_) ? coded : whole)", "(has(who, base_) ? whole : whole)", "everyone is given all of it"),
    (IMAGE, "      has_[who] = {order.ver, order.epoch};\n", "", "nobody is known to have anything"),
    (IMAGE, "    base_.reset();\n    for", "    for", "later ones build on a code that there is not"),
    (IMAGE, "    goes_on_ = true;\n", "", "a run that goes on moves to the version itself"),
    (IMAGE, "!std::exchange(goes_on_, false) &&", "!goes_on_ &&", "a run that went on never moves to the version itself again"),
    (IMAGE, "    image_ = image;\n", "", "a run that goes on has no image"),
    (IMAGE, "      each.base.reset();", "      (void)each;", "where there is no code, it is sent all the same"),
]
