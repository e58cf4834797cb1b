//! The few names of zip 0.6 that tch and torch-sys use, from a release whose codecs can be left out.

pub use upstream::{CompressionMethod, ZipArchive, ZipWriter, result};

pub mod write {
    pub use upstream::write::SimpleFileOptions as FileOptions;
}
