// SPDX-License-Identifier: BSD-3-Clause
// Reads from a certificate whom it was issued to.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <openssl/x509.h>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

/// The word for a role in certificates and on the command line.
inline constexpr std::string_view node_word = "node", console_word = "console";

inline std::string subject_text(const X509_NAME* subject, int index) {
  const ASN1_STRING* const text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), static_cast<std::size_t>(ASN1_STRING_length(text))};
}

/// The first common name, complete, even with a NUL inside; a console if any of its units says so.
inline certified_peer certified(const X509* certificate) {
  certified_peer out;
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  if (const int name = X509_NAME_get_index_by_NID(subject, NID_commonName, -1); name >= 0)
    out.name = subject_text(subject, name);
  for (int unit = -1; (unit = X509_NAME_get_index_by_NID(subject, NID_organizationalUnitName, unit)) >= 0;)
    if (subject_text(subject, unit) == console_word)
      out.role = certified_role::console;
  return out;
}

} // namespace troupe::actors::net
