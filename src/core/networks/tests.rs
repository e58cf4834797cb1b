//! Configs and schemas against files that diffusers and `transformers` wrote.

mod encoders;
mod language;
mod names;
mod transformers;
