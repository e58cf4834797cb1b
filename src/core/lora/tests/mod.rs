//! LoRAs by their headers, as files of a job, and as lists to choose from.

mod faults;
mod files;
pub(crate) mod layers;
mod named;
mod scaling;
mod shelf;
