//! Compiles the few lines of C++ that reach what tch does not wrap. Finds no libtorch: `LIBTORCH` names it.

use std::path::PathBuf;

/// Each file is in the folder of the Rust module that declares its functions. They are compiled as one: most of the time
/// goes into libtorch's headers.
const SOURCES: [&str; 5] = [
    "kernels/stream.cpp",
    "parallel/gloo.cpp",
    "runtime/shim.cpp",
    "sampling/noise.cpp",
    "weights/view.cpp",
];

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let libtorch = std::env::var_os("LIBTORCH").map(PathBuf::from).expect(
        "LIBTORCH is set by .cargo/config.toml; `cargo xtask setup` prepares what it names",
    );
    // Such as `2.11.0`; of a libtorch for a GPU `2.11.0+cu130`.
    let told = std::fs::read_to_string(libtorch.join("build-version"))
        .expect("`cargo xtask setup` makes a libtorch that says its version");
    let version = told.trim().split('+').next().unwrap_or_default();
    println!("cargo:rustc-env=LIBTORCH_OF_ENGINE={version}");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        // Some calls use classes of libtorch that the linker does not see here.
        .flag_if_supported("-fno-devirtualize")
        .flag_if_supported("-fno-devirtualize-speculatively")
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"));
    let includes = SOURCES.map(|source| {
        println!("cargo:rerun-if-changed={source}");
        format!("#include \"{source}\"\n")
    });
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let file = PathBuf::from(out).join("shim.cpp");
    std::fs::write(&file, includes.concat()).expect("cargo's folder can be written to");
    build.include(".").file(file).compile("safelight_shim");
}
