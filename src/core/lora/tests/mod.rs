//! LoRAs by their headers, as files of a job, and as lists to choose from.

mod files;
mod layers;
mod shelf;
