//! The families of models that this version runs: a file each with what jobs, forms and searches ask of it.
//!
//! Assembly of a family's files and their memory plan: `families`.

mod anima;
pub mod chroma;
mod comfy;
mod flux;
mod flux2;
mod flux2_dev;
mod flux3;
mod framepack;
mod info;
mod krea2;
pub mod ltx2;
mod qwen_image;
mod qwen_image_21;
mod sdxl;
// A family that lives in one folder of the tests. Releases are built without.
#[cfg(debug_assertions)]
#[path = "../../../../tests/toy_family/info.rs"]
mod toy;
mod wan;
mod z_image;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use comfy::{ComfyNodes, ComfyReferences, ComfyVideoNodes};
pub(crate) use info::ReadableFile;
#[cfg(debug_assertions)]
pub(crate) use info::TinyDecoderRules;
pub use info::{FamilyInfo, RecipeKind, TemporalConvPolicy, first_step, with_article};

/// In the order in which a file is tried: the names of FLUX.1's tensors occur in other families, too.
static FAMILIES: &[&FamilyInfo] = &[
    #[cfg(debug_assertions)]
    &toy::INFO,
    &ltx2::INFO,
    &framepack::INFO,
    &anima::INFO,
    &wan::INFO,
    &z_image::INFO,
    &flux3::INFO,
    &flux2_dev::INFO,
    &flux2::INFO,
    &krea2::INFO,
    &chroma::INFO,
    &qwen_image_21::INFO,
    &qwen_image::INFO,
    &sdxl::INFO,
    &flux::INFO,
];

/// A family of models that share an implementation: what its [`FamilyInfo`] says.
///
/// In files it is its id.
#[derive(Clone, Copy)]
pub struct ModelFamily(&'static FamilyInfo);

impl ModelFamily {
    #[cfg(debug_assertions)]
    pub const TOY: Self = Self(&toy::INFO);
    pub const ANIMA: Self = Self(&anima::INFO);
    pub const CHROMA: Self = Self(&chroma::INFO);
    pub const FLUX: Self = Self(&flux::INFO);
    pub const FLUX2: Self = Self(&flux2::INFO);
    pub const FLUX2_DEV: Self = Self(&flux2_dev::INFO);
    pub const FLUX3: Self = Self(&flux3::INFO);
    pub const FRAMEPACK: Self = Self(&framepack::INFO);
    pub const KREA2: Self = Self(&krea2::INFO);
    pub const LTX2: Self = Self(&ltx2::INFO);
    pub const QWEN_IMAGE: Self = Self(&qwen_image::INFO);
    pub const QWEN_IMAGE_21: Self = Self(&qwen_image_21::INFO);
    pub const SDXL: Self = Self(&sdxl::INFO);
    pub const WAN: Self = Self(&wan::INFO);
    pub const Z_IMAGE: Self = Self(&z_image::INFO);

    /// All of them, in the order in which a file is tried.
    pub fn all() -> impl Iterator<Item = Self> {
        FAMILIES.iter().map(|info| Self(info))
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
        Self::WAN
    }
}

impl Deref for ModelFamily {
    type Target = FamilyInfo;

    fn deref(&self) -> &FamilyInfo {
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
