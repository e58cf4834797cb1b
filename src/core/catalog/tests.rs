//! The catalogue on folders that these tests write: whole ones, broken ones, foreign ones, hidden ones.

mod broken;
mod defaults;
mod found;
mod published;
mod sources;
mod unusable;
mod whole;
