//! The schema of a network: every tensor that is read of it, with its shape and its role.
//!
//! Holds no weights and knows no file: the names are those that the network's own file gave it.

use std::fmt;

use super::dialects::TensorDialect;
use super::transformer::TransformerConfig;

/// Use of a tensor once it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorRole {
    /// The matrix of a product that every call uses: it keeps its storage, can stream, and takes LoRAs.
    Matrix,
    /// A matrix that makes modulations of many timesteps at once: otherwise as [`TensorRole::Matrix`].
    Modulation,
    /// A table of which some rows are looked up.
    Table,
    /// Kernel of 3 × 3 taps after a doubling of edges, which the engine stores as four of 2 × 2: it stays on the
    /// device.
    Doubling,
    /// Everything else: it stays on the device.
    Fixed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub shape: Vec<u64>,
    pub role: TensorRole,
    /// It is f32 in every computing type.
    pub keeps_f32: bool,
}

/// The tensors of a network as a list that grows. Sizes are those of a config that has been checked.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    tensors: Vec<TensorSpec>,
    keeps_f32: bool,
    /// Beginning of the names that are added.
    prefix: String,
    /// Layers that readers ask for as one, such as `qkv`, are several tensors.
    pub(super) is_split: bool,
    /// The file has diffusers' names.
    pub(super) is_diffusers: bool,
}

impl Schema {
    /// Every tensor of a network in readers' names, as a file of a dialect has them; as readers ask for them without one.
    pub(crate) fn of(network: &impl TransformerConfig, dialect: Option<&TensorDialect>) -> Self {
        let mut schema = Self {
            is_split: dialect.is_some_and(|dialect| dialect.is_split),
            is_diffusers: dialect.is_some_and(|dialect| dialect.is_diffusers),
            ..Self::default()
        };
        network.add_tensors(&mut schema);
        schema
    }

    pub fn add(&mut self, name: impl fmt::Display, shape: &[i64], role: TensorRole) {
        self.tensors.push(TensorSpec {
            name: format!("{}{name}", self.prefix),
            shape: shape.iter().map(|size| size.unsigned_abs()).collect(),
            role,
            keeps_f32: self.keeps_f32,
        });
    }

    /// `{name}.weight`, a matrix of `output` rows and `input` columns.
    pub fn matrix(&mut self, name: &str, output: i64, input: i64) {
        self.add(
            format!("{name}.weight"),
            &[output, input],
            TensorRole::Matrix,
        );
    }

    /// A matrix and `{name}.bias`.
    pub fn linear(&mut self, name: &str, output: i64, input: i64) {
        self.matrix(name, output, input);
        self.vector(&format!("{name}.bias"), output);
    }

    /// A linear layer that makes modulations.
    pub fn modulation(&mut self, name: &str, output: i64, input: i64) {
        self.add(
            format!("{name}.weight"),
            &[output, input],
            TensorRole::Modulation,
        );
        self.vector(&format!("{name}.bias"), output);
    }

    /// `{name}.weight` of `rows` rows, of which some are looked up.
    pub fn table(&mut self, name: &str, rows: i64, width: i64) {
        self.add(format!("{name}.weight"), &[rows, width], TensorRole::Table);
    }

    /// One row of numbers under its whole name.
    pub fn vector(&mut self, name: &str, width: i64) {
        self.add(name, &[width], TensorRole::Fixed);
    }

    /// `{name}.weight` and `{name}.bias` of a norm.
    pub fn norm(&mut self, name: &str, width: i64) {
        self.vector(&format!("{name}.weight"), width);
        self.vector(&format!("{name}.bias"), width);
    }

    /// `{name}.weight` of any shape and `{name}.bias`, of one number a row.
    pub fn conv(&mut self, name: &str, shape: &[i64]) {
        self.add(format!("{name}.weight"), shape, TensorRole::Fixed);
        self.vector(&format!("{name}.bias"), shape[0]);
    }

    /// Like [`Schema::conv`], after a doubling of edges.
    pub fn doubling(&mut self, name: &str, shape: &[i64]) {
        self.add(format!("{name}.weight"), shape, TensorRole::Doubling);
        self.vector(&format!("{name}.bias"), shape[0]);
    }

    /// Adds the tensors of each of `count` blocks of a list; `fill` names them without the block.
    pub fn blocks(&mut self, list: &str, count: i64, mut fill: impl FnMut(&mut Self)) {
        for block in 0..count {
            let around = self.prefix.len();
            self.prefix = format!("{}{list}.{block}.", self.prefix);
            fill(self);
            self.prefix.truncate(around);
        }
    }

    /// Adds a layer of several parts, with the number of rows of each: as one, or in parts where a file has them so.
    pub(super) fn fused(
        &mut self,
        name: &str,
        parts: &[(&str, i64)],
        mut add: impl FnMut(&mut Self, &str, i64),
    ) {
        if self.is_split {
            for (part, rows) in parts {
                add(self, &format!("{name}.{part}"), *rows);
            }
        } else {
            add(self, name, parts.iter().map(|(_, rows)| rows).sum());
        }
    }

    /// Adds the tensors of `fill` as f32 in every computing type.
    pub fn in_f32(&mut self, fill: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.keeps_f32, true);
        fill(self);
        self.keeps_f32 = before;
    }

    /// The tensors whose names pass a test.
    pub fn retained(mut self, is_kept: impl Fn(&str) -> bool) -> Self {
        self.tensors.retain(|tensor| is_kept(&tensor.name));
        self
    }

    pub fn into_tensors(self) -> Vec<TensorSpec> {
        self.tensors
    }

    /// The tensors with the names of a file: `file_key` translates the names that they were added with.
    pub fn renamed(mut self, file_key: impl Fn(&str) -> String) -> Vec<TensorSpec> {
        for tensor in &mut self.tensors {
            tensor.name = file_key(&tensor.name);
        }
        self.tensors
    }
}
