// SPDX-License-Identifier: BSD-3-Clause
// Messages as one line of text, for traces.
#pragma once

#include <string>

#include "protocols/effect.hpp"

namespace troupe::protocols {

std::string text_of(member who);        ///< "0", or "0'1" in its second life
std::string text_of(const push_id& id); ///< "0#3": worker 0's third push
std::string text_of(const plan& next);
std::string text_of(const params& head);
std::string text_of(const push& head);
std::string text_of(const close& round);
std::string text_of(const send_order& order);
std::string text_of(const hold_order& order);
std::string text_of(const report& msg);

} // namespace troupe::protocols
