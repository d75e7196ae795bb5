// SPDX-License-Identifier: BSD-3-Clause
// OpenSSL's objects with owners.
#pragma once

#include <memory>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

namespace troupe::apps {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* owned) const {
    Free(owned);
  }
};
using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using crl_ptr = std::unique_ptr<X509_CRL, freed_by<X509_CRL_free>>;
using x509_ptr = std::unique_ptr<X509, freed_by<X509_free>>;

} // namespace troupe::apps
