// SPDX-License-Identifier: BSD-3-Clause
// How failures of the lower layers become exit reasons of actors.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <caf/error.hpp>
#include <caf/sec.hpp>
#include <fmt/format.h>

#include "kernels/backend.hpp"
#include "tensor/error.hpp"

namespace troupe::actors {

/// The value, or an exception with the reason; for an actor's constructor, which cannot return one.
template <class T>
T value_or_throw(result<T>&& r) {
  if (!r)
    throw std::runtime_error(r.error().message);
  return std::move(*r);
}

/// A reason in words; `explain` returns them.
inline caf::error failure(std::string why) {
  return caf::make_error(caf::sec::runtime_error, std::move(why));
}
inline caf::error to_caf(const error& e) {
  return failure(e.message);
}

/// A readable sentence: our own text if the error carries one.
std::string explain(const caf::error& reason);

/// Describes the failure of a device.
inline std::string describe_failure(std::string_view device, const kernels::device_error& e) {
  return fmt::format("its device {} failed: {}", device, e.what());
}

/// From now on an exception in a handler ends the actor with the exception's text as its reason. `device`: where it computes;
/// `holds`: what it keeps there, with sizes, to be named if memory runs out.
template <class Actor>
void end_with_reason(Actor& self, std::string device = "cpu", std::string holds = {}) {
  self.set_exception_handler([device = std::move(device), holds = std::move(holds)](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const kernels::out_of_memory& e) {
      return failure(describe_failure(device, e) + (holds.empty() ? "" : "; it holds " + holds));
    } catch (const kernels::device_error& e) {
      return failure(describe_failure(device, e));
    } catch (const std::exception& e) {
      return failure(e.what());
    } catch (...) {
      return caf::sec::runtime_error;
    }
  });
}

} // namespace troupe::actors
