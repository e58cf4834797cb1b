//! The families of models that this version runs: one folder each, and the registry of them.
//!
//! A family's folder declares a [`FamilyDef`] and holds everything that only this family knows. Nothing outside of this
//! folder names a family: others ask the [`ModelFamily`] that a model, a request or a file carries.

pub mod chroma;
mod def;
pub mod flux;
pub mod flux2;
pub mod framepack;
pub mod krea2;
mod parts;
pub mod qwen_image;
mod single;
mod table;
// A family that lives in one folder of the tests. Releases are built without.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/core.rs"]
pub mod toy;
pub mod wan;
pub mod z_image;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use def::{FamilyDef, TemporalConvPolicy};
pub(crate) use def::{
    FileRules, LoraRules, LoraSignature, PublishedNetwork, SharedLoraNames, TinyDecoderRules,
};

/// In the order in which a file is tried: the names of FLUX.1's tensors occur in other families, too.
static FAMILIES: &[&FamilyDef] = &[
    #[cfg(debug_assertions)]
    &toy::DEF,
    &framepack::DEF,
    &wan::DEF,
    &z_image::DEF,
    &flux2::DEF,
    &krea2::DEF,
    &chroma::DEF,
    &qwen_image::DEF,
    &flux::DEF,
];

/// A family of models that share an implementation: what its [`FamilyDef`] says.
///
/// In files it is its id.
#[derive(Clone, Copy)]
pub struct ModelFamily(&'static FamilyDef);

impl ModelFamily {
    const fn new(def: &'static FamilyDef) -> Self {
        Self(def)
    }

    /// All of them, in the order in which a file is tried.
    pub fn all() -> impl Iterator<Item = Self> {
        FAMILIES.iter().map(|def| Self(def))
    }

    /// Those with models that people can get; a family of tests has none.
    pub fn published() -> impl Iterator<Item = Self> {
        Self::all().filter(|family| !family.models.is_empty())
    }

    /// The family with this id; `None` for one that this version does not know.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::all().find(|family| family.id == id)
    }
}

/// The family of a catalogue entry that names none.
impl Default for ModelFamily {
    fn default() -> Self {
        wan::FAMILY
    }
}

impl Deref for ModelFamily {
    type Target = FamilyDef;

    fn deref(&self) -> &FamilyDef {
        self.0
    }
}

impl PartialEq for ModelFamily {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for ModelFamily {}

impl Hash for ModelFamily {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for ModelFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({})", self.id)
    }
}

impl Serialize for ModelFamily {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

impl<'de> Deserialize<'de> for ModelFamily {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::of_id(&id).ok_or_else(|| {
            let known: Vec<&str> = Self::published().map(|family| family.id).collect();
            serde::de::Error::custom(format!(
                "'{id}' is not a family of models that Safelight runs ({})",
                known.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests;
