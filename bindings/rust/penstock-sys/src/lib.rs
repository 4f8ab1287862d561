//! The C interface of Penstock, declared by `declare.sh`. `penstock/penstock.h` explains each function.
//!
//! Structures of options begin with their size, so that these declarations work with every later library of the same major version.
#![allow(non_camel_case_types)]
#![no_std]

include!("bindings.rs");
