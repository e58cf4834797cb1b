//! The catalogue on folders that these tests write: whole ones, broken ones, foreign ones, hidden ones.

mod broken;
mod defaults;
mod flux;
mod flux_described;
mod flux_files;
mod flux_parts;
mod found;
mod framepack;
mod framepack_files;
mod framepack_parts;
mod gguf;
mod installs;
mod lora_files;
mod loras;
mod made_up;
mod pairs;
mod parts;
mod planned;
mod previews;
mod published;
mod shelf;
mod sources;
mod storage;
mod tiny;
mod unusable;
mod whole;
