//! Safelight.
fn main() {}
