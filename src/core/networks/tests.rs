//! Configs and schemas against files that diffusers and `transformers` wrote.

mod encoders;
mod language;
mod ltx2;
mod names;
mod transformers;
