//! The catalogue on folders that these tests write: whole ones, broken ones, foreign ones, hidden ones.

mod broken;
mod defaults;
mod found;
mod gguf;
mod made_up;
mod pairs;
mod parts;
mod published;
mod storage;
mod tiny;
mod whole;
