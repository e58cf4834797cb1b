//! The FramePack models, as files that these tests write, against the catalogue.

mod catalogued;
pub(crate) mod files;
mod parts;
