//! LoRAs by their headers, as files of a job, and as lists to choose from.

mod faults;
mod files;
mod found;
pub(crate) mod layers;
mod named;
mod scaling;
