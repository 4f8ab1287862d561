// Links the library that pkg-config finds.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let done = Command::new("pkg-config")
        .args(["--libs-only-L", "--variable=libdir", "penstock"])
        .output()
        .expect("pkg-config cannot be run");
    if !done.status.success() {
        panic!("penstock is not installed where pkg-config looks: {}", String::from_utf8_lossy(&done.stderr));
    }
    println!("cargo:rustc-link-search=native={}", String::from_utf8_lossy(&done.stdout).trim());
    println!("cargo:rustc-link-lib=dylib=penstock");
}
