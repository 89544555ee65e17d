//! Cargo counts build dependencies only of packages that have a build script.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
