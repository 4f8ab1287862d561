//! The C interface of Penstock, as `penstock/penstock.h` has it, where each function is explained. Made by `declare.sh`.
//!
//! Structures of options begin with their size, so that this file fits every later library of the same major version.
#![allow(non_camel_case_types)]
#![no_std]

include!("bindings.rs");
