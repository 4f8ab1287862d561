#!/bin/sh
# Declares the C interface anew, to standard output, by Debian's bindgen: declare.sh
# >src/bindings.rs
exec bindgen --allowlist-function 'penstock_.*' --allowlist-type 'penstock_.*' --allowlist-var 'PENSTOCK_.*' --no-layout-tests --use-core \
  --ctypes-prefix core::ffi --size_t-is-usize --no-prepend-enum-name "$(dirname "$0")/../../../include/penstock/penstock.h"
