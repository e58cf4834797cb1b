//! Python wheels: the indexes that list them, their members, and the lock files that name what libtorch is made of.
//!
//! Shared by the program, which installs runtimes, and by `fetch-libtorch`, which `cargo xtask` builds before everything
//! else: it must compile in seconds. Writes nothing.

mod directory;
mod index;
mod lock;
mod record;
#[cfg(test)]
mod tests;
mod trust;

pub use directory::{WheelDirectory, WheelMember, directory_of, tail_bytes};
pub use index::{
    ListedWheel, PYPI, WheelLocation, WheelRequirement, is_wheel, links, of_folder, of_page,
};
pub use lock::{FIRST, LibtorchLock, LockedWheel, SECOND, record_sum};
pub use record::{WheelError, WheelRecord, hex, record_letters, sha256, sum_of};
pub use trust::tls;
