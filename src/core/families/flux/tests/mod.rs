//! The FLUX.1 models, as files that these tests write, against the catalogue.

pub(crate) mod catalogued;
mod controls;
mod described;
pub(crate) mod files;
mod parts;
mod prompts;
