// SPDX-License-Identifier: BSD-3-Clause
// The `troupe` program: an application that adds nothing of its own.
#include "apps/application.hpp"

int main(int argc, char** argv) {
  return troupe::application{}.main(argc, argv);
}
