//! Reading of a network's config: from a `config.json`, or from the header of a file that has none.
//!
//! The meaning of the numbers is in each network's file.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{TensorSpec, VaeHalf};
use crate::formats::read_json;
use crate::formats::weights::{WeightSet, is_weight_file_of};
use crate::model::CatalogError;

/// Returns an error with the sentence of these `format!` arguments unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($sentence:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($sentence)+));
        }
    };
}
pub(super) use ensure;

/// Larger than any published width, small enough that no product of three of these overflows.
const LARGEST_SIZE: i64 = 1 << 20;
/// More layers than any published network has, and few enough for a small schema.
const MOST_LAYERS: i64 = 1000;

/// The numbers of one network, in the terms of diffusers and transformers.
///
/// Sizes are `i64`, as libtorch has them; those that [`NetworkConfig::check`] passed are above 0.
pub trait NetworkConfig: DeserializeOwned {
    /// Key of the numbers in the config of a larger model, such as `text_config` in that of a LLaVA.
    const PART: Option<&'static str> = None;

    /// Returns true if a `config.json` next to a loose weight file is of this network.
    fn is_described_by(config: &Value) -> bool;

    /// The numbers that names and shapes show, and for the rest those of all published files.
    ///
    /// `authors`: the config next to the file in the authors' own terms, where there is one.
    fn of_header(weights: &WeightSet, authors: Option<&Value>) -> Result<Self, String>;

    /// The first thing that is wrong with the numbers, as "expected X, found Y".
    fn check(&self) -> Result<(), String>;

    /// Every tensor that is read of a file, as the file calls them.
    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec>;

    /// Checks that a file has nothing that the config leaves out, such as more layers.
    fn check_spare(&self, _weights: &WeightSet) -> Result<(), CatalogError> {
        Ok(())
    }

    /// Checks that a file has all that is read, in the shapes that the config says, and nothing that it leaves out.
    fn check_weights(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        for tensor in self.tensors(weights) {
            weights.expect(&tensor.name, &tensor.shape)?;
        }
        self.check_spare(weights)
    }

    /// Config at a path: a folder, a weight file or a weight index.
    ///
    /// The `config.json` next to a file counts if the file belongs to the folder.
    fn read(place: &Path) -> Result<Self, CatalogError> {
        let config = read_unchecked::<Self>(place)?;
        match config.check() {
            Ok(()) => Ok(config),
            Err(reason) => Err(CatalogError::config(reason, config_path(place))),
        }
    }
}

/// The config of an autoencoder, whose halves jobs load one at a time.
pub trait AutoencoderConfig: NetworkConfig {
    /// The tensors of one half, as the file calls them; none where it has no such autoencoder.
    fn half(&self, half: VaeHalf, weights: &WeightSet) -> Vec<TensorSpec>;

    fn halves(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        VaeHalf::BOTH.map(|half| self.half(half, weights)).concat()
    }
}

fn read_unchecked<T: NetworkConfig>(place: &Path) -> Result<T, CatalogError> {
    let is_folder = place.is_dir();
    let folder = if is_folder {
        place
    } else {
        place.parent().unwrap_or_else(|| Path::new(""))
    };
    let file = folder.join("config.json");
    let is_own = is_folder || is_weight_file_of(place, folder);
    let mut authors = None;
    if is_own && file.exists() {
        let config: Value = read_json(&file)?;
        // Wan's authors publish theirs in another layout.
        if matches!(class_name(&config), Some("WanModel" | "VaceWanModel")) {
            authors = Some(config);
        } else if is_folder || T::is_described_by(&config) {
            return of_json(config, place);
        }
    }
    let weights = WeightSet::open(place)?;
    T::of_header(&weights, authors.as_ref()).map_err(|reason| CatalogError::config(reason, place))
}

fn of_json<T: NetworkConfig>(mut config: Value, place: &Path) -> Result<T, CatalogError> {
    if let Some(inner @ Value::Object(_)) = T::PART.and_then(|part| config.get_mut(part)) {
        config = inner.take();
    }
    serde_json::from_value(config).map_err(|err| {
        CatalogError::damaged(format!("this config is damaged: {err}"), config_path(place))
    })
}

/// The file that is to blame for the numbers of a network.
pub fn config_path(place: &Path) -> PathBuf {
    if place.is_dir() {
        place.join("config.json")
    } else {
        place.to_owned()
    }
}

/// Checks that widths and other sizes are above 0 and within what any network has.
pub(crate) fn check_sizes(sizes: &[(&str, i64)]) -> Result<(), String> {
    check_range(sizes, LARGEST_SIZE)
}

/// Checks one size, which a config may leave out.
pub(super) fn check_size(name: &str, size: impl Into<Option<i64>>) -> Result<(), String> {
    size.into()
        .map_or(Ok(()), |size| check_sizes(&[(name, size)]))
}

pub(crate) fn check_layers(counts: &[(&str, i64)]) -> Result<(), String> {
    check_range(counts, MOST_LAYERS)
}

fn check_range(numbers: &[(&str, i64)], most: i64) -> Result<(), String> {
    for (name, found) in numbers {
        ensure!(
            (1..=most).contains(found),
            "expected a {name} between 1 and {most}, found {found}"
        );
    }
    Ok(())
}

/// Checks a number that keeps a norm from dividing by 0.
pub(crate) fn check_epsilon(name: &str, found: f64) -> Result<(), String> {
    ensure!(
        found.is_finite() && found >= 0.0,
        "expected a {name} of at least 0, found {found}"
    );
    Ok(())
}

/// Checks a value that may be one alone.
pub(super) fn check_only<T>(name: &str, found: &T, only: &T) -> Result<(), String>
where
    T: PartialEq + Serialize,
{
    if found == only {
        return Ok(());
    }
    let text = |value: &T| match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) | Err(_) => "none".to_owned(),
        Ok(value) => value.to_string(),
    };
    let (only, found) = (text(only), text(found));
    Err(format!("expected the {name} {only}, found {found}"))
}

pub(super) fn check_within(
    name: &str,
    found: f64,
    range: RangeInclusive<f64>,
) -> Result<(), String> {
    let (least, most) = (range.start(), range.end());
    ensure!(
        range.contains(&found),
        "expected a {name} between {least:?} and {most:?}, found {found:?}"
    );
    Ok(())
}

/// Checks the base of rotary frequencies.
pub(super) fn check_base(name: &str, found: f64) -> Result<(), String> {
    ensure!(
        found.is_finite() && found >= 1.0,
        "expected a {name} of at least 1, found {found}"
    );
    Ok(())
}

/// The class that a `config.json` of diffusers states.
pub(super) fn class_name(config: &Value) -> Option<&str> {
    config.get("_class_name")?.as_str()
}

/// The model type that a `config.json` of `transformers` states.
pub(super) fn model_type(config: &Value) -> Option<&str> {
    config.get("model_type")?.as_str()
}
