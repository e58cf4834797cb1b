//! Tensor names of one network in the files of different programs ("dialects"), as data: detection and renaming.
//!
//! Readers ask with one set of names. A network lists the dialects of its files in [`TransformerConfig::DIALECTS`];
//! [`TensorKeys`] does the rest for all of them.

use std::fmt;
use std::marker::PhantomData;

use super::transformer::TransformerConfig;
use super::{Schema, TensorSpec};

/// Readers' name and the file's. Whole components count: `attn` is no beginning of `attn_norm.weight`.
pub type NamePair = (&'static str, &'static str);

/// A table of [`NamePair`]s: `"img_in" => "x_embedder"`.
macro_rules! names {
    ($($own:literal => $other:literal),* $(,)?) => {
        &[$(($own, $other)),*]
    };
}

pub(super) use names;

/// Prefixes in files that hold other networks next to a transformer, in the order in which they are tried.
pub(super) const PREFIXES: &[&str] = &[
    "",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
];

/// A list of numbered blocks.
#[derive(Clone, Copy, Debug)]
pub struct BlockList {
    /// Readers' name of the list, such as `double_blocks`.
    pub own: &'static str,
    /// The file's.
    pub other: &'static str,
    /// Names within a block; the first table that has a name counts.
    pub layers: &'static [&'static [NamePair]],
}

impl BlockList {
    /// A list whose names are the same for all.
    pub(super) const fn shared(own: &'static str) -> Self {
        Self {
            own,
            other: own,
            layers: &[],
        }
    }

    /// This list in another dialect.
    pub(super) const fn named(
        self,
        other: &'static str,
        layers: &'static [&'static [NamePair]],
    ) -> Self {
        Self {
            other,
            layers,
            ..self
        }
    }
}

/// Names of which a file has at least a number.
pub type MarkGroup = (usize, &'static [&'static str]);

pub(super) const fn any_of(names: &'static [&'static str]) -> MarkGroup {
    (1, names)
}

/// Two names: enough for a file that lacks one of three.
pub(super) const fn two_of(names: &'static [&'static str]) -> MarkGroup {
    (2, names)
}

/// Names of one program. Names that the tables leave out are readers' own.
#[derive(Debug)]
pub struct TensorDialect {
    pub is_diffusers: bool,
    /// Layers that readers ask for as one, such as `qkv`, are several tensors.
    pub is_split: bool,
    /// By all of which it is detected.
    pub marks: &'static [MarkGroup],
    pub lists: &'static [BlockList],
    /// Names outside of all blocks; the first table that has a name counts.
    pub outer: &'static [&'static [NamePair]],
    /// Beginnings of names, instead of lists; `outer` then has what follows them.
    pub patterns: &'static [NamePair],
}

impl TensorDialect {
    /// Readers' own names.
    pub(super) const fn own(marks: &'static [MarkGroup], lists: &'static [BlockList]) -> Self {
        Self {
            is_diffusers: false,
            is_split: false,
            marks,
            lists,
            outer: &[],
            patterns: &[],
        }
    }

    /// diffusers' names, of which each is one of a tensor of its own.
    pub(super) const fn diffusers(
        marks: &'static [MarkGroup],
        lists: &'static [BlockList],
        outer: &'static [&'static [NamePair]],
    ) -> Self {
        Self {
            is_diffusers: true,
            is_split: true,
            marks,
            lists,
            outer,
            patterns: &[],
        }
    }

    /// Returns true if any name differs from readers' own.
    pub(crate) fn renames(&self) -> bool {
        let has_layers = |list: &BlockList| list.own != list.other || !list.layers.is_empty();
        !self.outer.is_empty() || self.lists.iter().any(has_layers)
    }

    fn rename(&self, name: &str) -> String {
        if self.patterns.is_empty() {
            return renamed(name, self.lists, self.outer);
        }
        renamed_by_patterns(name, self.patterns, self.outer)
    }
}

/// Names of the tensors of the network `T` in one file.
pub struct TensorKeys<T> {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
    pub(crate) dialect: &'static TensorDialect,
    network: PhantomData<fn() -> T>,
}

impl<T: TransformerConfig> TensorKeys<T> {
    fn new(prefix: &'static str, dialect: &'static TensorDialect) -> Self {
        Self {
            prefix,
            is_diffusers: dialect.is_diffusers,
            dialect,
            network: PhantomData,
        }
    }

    /// Names without a prefix: diffusers', or readers' own.
    pub fn bare(is_diffusers: bool) -> Self {
        Self::behind("", is_diffusers)
    }

    /// Names after a prefix: diffusers', or readers' own.
    pub fn behind(prefix: &'static str, is_diffusers: bool) -> Self {
        let mut dialects = T::DIALECTS.iter().rev();
        let found = dialects.find(|dialect| dialect.is_diffusers == is_diffusers);
        Self::new(prefix, found.unwrap_or(&T::DIALECTS[0]))
    }

    /// Every dialect, without a prefix.
    pub fn all() -> impl Iterator<Item = Self> {
        let dialects = T::DIALECTS.iter();
        dialects.map(|dialect| Self::new("", dialect))
    }

    /// The dialect of a file, from whether it has a key; `None` where it has no such network.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let fits = |prefix: &str, dialect: &TensorDialect| {
            let is_there = |mark: &&&str| has(&format!("{prefix}{mark}"));
            let mut groups = dialect.marks.iter();
            groups.all(|(least, marks)| marks.iter().filter(is_there).count() >= *least)
        };
        T::PREFIXES.iter().find_map(|prefix| {
            let mut dialects = T::DIALECTS.iter();
            let found = dialects.find(|dialect| fits(prefix, dialect))?;
            Some(Self::new(prefix, found))
        })
    }

    /// Like [`detect`](Self::detect), with the first dialect where there is none.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or_else(|| Self::new("", &T::DIALECTS[0]))
    }

    /// The file's name of the tensor that readers call `own`.
    pub fn file_key(self, own: &str) -> String {
        format!("{}{}", self.prefix, self.dialect.rename(own))
    }

    /// Every tensor of a network as the file names it.
    pub fn tensors(self, network: &T) -> Vec<TensorSpec> {
        let schema = Schema::of(network, Some(self.dialect));
        schema.renamed(|name| self.file_key(name))
    }

    /// The file's names of the lists of blocks.
    pub fn lists(self) -> Vec<String> {
        let lists = self.dialect.lists.iter();
        lists
            .map(|list| format!("{}{}", self.prefix, list.other))
            .collect()
    }

    /// Indices of shift and scale in the final modulation, which diffusers has the other way round.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        if self.is_diffusers { (1, 0) } else { (0, 1) }
    }
}

impl<T> Clone for TensorKeys<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorKeys<T> {}

impl<T> PartialEq for TensorKeys<T> {
    fn eq(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.dialect.marks == other.dialect.marks
    }
}

impl<T> Eq for TensorKeys<T> {}

impl<T> fmt::Debug for TensorKeys<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorKeys({:?}, {:?})", self.prefix, self.dialect)
    }
}

/// The name of a tensor in another dialect: within one of `lists`, else by the tables of `outer`.
pub(super) fn renamed(name: &str, lists: &[BlockList], outer: &[&[NamePair]]) -> String {
    for list in lists {
        let inner = name
            .strip_prefix(list.own)
            .and_then(|rest| rest.strip_prefix('.'))
            .and_then(|rest| rest.split_once('.'));
        if let Some((number, rest)) = inner {
            return format!("{}.{number}.{}", list.other, by_tables(rest, list.layers));
        }
    }
    by_tables(name, outer)
}

/// The name of a tensor in another dialect: its beginning by the first of `patterns` that it has, in which `*` is any
/// component, and the rest by `inner`.
pub(super) fn renamed_by_patterns(
    name: &str,
    patterns: &[NamePair],
    inner: &[&[NamePair]],
) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let found = patterns.iter().find_map(|(own, other)| {
        let own: Vec<&str> = own.split('.').collect();
        let start = parts.get(..own.len())?;
        let mut pairs = own.iter().zip(start);
        let fits = pairs.all(|(pattern, part)| *pattern == "*" || pattern == part);
        let any = own
            .iter()
            .zip(start)
            .filter(|(pattern, _)| **pattern == "*");
        let mut any = any.map(|(_, part)| *part);
        fits.then(|| {
            let start = other.split('.').map(|part| match part {
                "*" => any.next().unwrap_or(part),
                part => part,
            });
            let rest = by_tables(&parts[own.len()..].join("."), inner);
            let rest = Some(&*rest).filter(|rest| !rest.is_empty());
            start.chain(rest).collect::<Vec<_>>().join(".")
        })
    });
    found.unwrap_or_else(|| name.to_owned())
}

fn by_tables(name: &str, tables: &[&[NamePair]]) -> String {
    let found = tables.iter().copied().flatten().find_map(|(own, other)| {
        let rest = name.strip_prefix(own)?;
        let is_whole = rest.is_empty() || rest.starts_with('.');
        is_whole.then(|| format!("{other}{rest}"))
    });
    found.unwrap_or_else(|| name.to_owned())
}
