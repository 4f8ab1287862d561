// Memory sorted, and an error's message, from Rust.
use std::ffi::{c_char, c_int, c_void, CStr};

#[link(name = "penstock")]
extern "C" {
    fn penstock_sort(items: *mut c_void, count: usize, kind: c_int, options: *const c_void) -> c_int;
    fn penstock_error_message() -> *const c_char;
}

fn main() {
    let mut keys: Vec<u64> = vec![3, 1, 2];
    let u64_kind = 7;
    unsafe {
        assert_eq!(penstock_sort(keys.as_mut_ptr().cast(), keys.len(), u64_kind, std::ptr::null()), 0);
        assert_eq!(penstock_sort(keys.as_mut_ptr().cast(), keys.len(), 99, std::ptr::null()), 1);
        assert!(CStr::from_ptr(penstock_error_message()).to_str().unwrap().contains("99"));
    }
    println!("{keys:?}");
}
