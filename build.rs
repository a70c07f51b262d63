//! Tells Cargo that the built-in device profiles are part of the program.

fn main() {
    // A profile that is added or removed must rebuild the crate; the embedding macro alone only notices edits.
    println!("cargo::rerun-if-changed=device-profiles");
    println!("cargo::rerun-if-changed=build.rs");
}
