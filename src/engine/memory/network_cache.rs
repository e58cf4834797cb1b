//! Cache of networks that stay loaded after their stage, if the stage order allows it: for the next job, or the next
//! section of this one.
//!
//! At most one network per component. Another file, other LoRAs or changes, another dtype or another share of the
//! device is another network, and the cached one is dropped before it is loaded. The stage thread owns all of them.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::job::LoraChoice;

use crate::error::EngineError;
use crate::placement::ComputePlacement;
use crate::runtime::{chunk_frames, conv_backend};
use crate::weights::Weights;

thread_local! {
    static KEPT: RefCell<Vec<CacheEntry>> = const { RefCell::new(Vec::new()) };
}

struct CacheEntry {
    key: CacheKey,
    network: Box<dyn Any>,
}

/// Identity of a cached network.
#[derive(Clone, Debug, PartialEq)]
struct CacheKey {
    component: &'static str,
    place: ComputePlacement,
    /// Backend that its layers were built for.
    conv_backend: ConvBackend,
    chunk: i64,
    files: Vec<FileState>,
    /// Their strengths, as bits.
    loras: Vec<(FileState, u64, Option<u64>)>,
}

#[derive(Clone, Debug, PartialEq)]
struct FileState {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    fn from_path(path: PathBuf) -> Self {
        let metadata = path.metadata().ok();
        Self {
            path,
            len: metadata.as_ref().map_or(0, |it| it.len()),
            modified: metadata.and_then(|it| it.modified().ok()),
        }
    }
}

impl CacheKey {
    fn new(
        component: &'static str,
        place: ComputePlacement,
        home: &Path,
        loras: &[LoraChoice],
    ) -> Self {
        let lora = |lora: &LoraChoice| {
            let (one, two) = (lora.strength.to_bits(), lora.strength_2.map(f64::to_bits));
            (FileState::from_path(lora.path.clone()), one, two)
        };
        Self {
            component,
            place,
            conv_backend: conv_backend(),
            chunk: chunk_frames(),
            files: Weights::files_of(home)
                .into_iter()
                .map(FileState::from_path)
                .collect(),
            loras: loras.iter().map(lora).collect(),
        }
    }
}

/// A network for one stage. Behind it, it is kept or gone.
pub struct CachedNetwork<T: 'static> {
    network: Option<T>,
    key: Option<CacheKey>,
}

impl<T: 'static> Deref for CachedNetwork<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.network
            .as_ref()
            .expect("a network is there until it is given back")
    }
}

impl<T: 'static> Drop for CachedNetwork<T> {
    fn drop(&mut self) {
        // After a failure the network may be incomplete.
        if let (Some(network), Some(key), false) =
            (self.network.take(), self.key.take(), thread::panicking())
        {
            let network = Box::new(network);
            // A thread that ends keeps nothing.
            KEPT.try_with(|kept| kept.borrow_mut().push(CacheEntry { key, network }))
                .ok();
        }
    }
}

impl ComputePlacement {
    /// The network of a component: the kept one, where it is this one, or what `build` makes. `home` and `loras` are all
    /// that it is made of.
    pub fn network<T: 'static>(
        self,
        component: &'static str,
        home: &Path,
        loras: &[LoraChoice],
        build: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<CachedNetwork<T>, EngineError> {
        if !self.keeps {
            return Ok(CachedNetwork {
                network: Some(build()?),
                key: None,
            });
        }
        let key = CacheKey::new(component, self, home, loras);
        let kept = take(component).filter(|slot| slot.key == key);
        let network = match kept.and_then(|slot| slot.network.downcast::<T>().ok()) {
            Some(network) => {
                tracing::info!("the {component} is still loaded");
                *network
            }
            None => build()?,
        };
        Ok(CachedNetwork {
            network: Some(network),
            key: Some(key),
        })
    }
}

fn take(component: &str) -> Option<CacheEntry> {
    KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        let place = kept.iter().position(|slot| slot.key.component == component);
        place.map(|place| kept.swap_remove(place))
    })
}

pub fn forget_all() {
    let all = KEPT.with(|kept| std::mem::take(&mut *kept.borrow_mut()));
    drop(all);
}

#[cfg(test)]
pub fn kept_components() -> Vec<&'static str> {
    KEPT.with(|kept| {
        kept.borrow()
            .iter()
            .map(|slot| slot.key.component)
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn a_network_is_loaded_again_only_where_it_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        fs::write(&file, b"one").unwrap();
        let built = Cell::new(0);
        let get = |place: ComputePlacement, loras: &[LoraChoice]| {
            let network = place.network("transformer", &file, loras, || {
                built.set(built.get() + 1);
                Ok(built.get())
            });
            *network.unwrap()
        };
        let place = ComputePlacement {
            device: Device::Cpu,
            kind: Kind::Float,
            resident_bytes: None,
            keeps: true,
        };
        let lora = |strength| LoraChoice {
            path: folder.path().join("lora.safetensors"),
            strength,
            strength_2: None,
        };
        assert_eq!([get(place, &[]), get(place, &[])], [1, 1]);
        assert_eq!([get(place, &[lora(0.5)]), get(place, &[lora(0.5)])], [2, 2]);
        assert_eq!(get(place, &[lora(0.7)]), 3);
        let half = ComputePlacement {
            kind: Kind::BFloat16,
            ..place
        };
        assert_eq!([get(half, &[]), get(half, &[])], [4, 4]);
        fs::write(&file, b"another").unwrap();
        assert_eq!([get(half, &[]), get(half, &[])], [5, 5]);
        let gone = ComputePlacement {
            keeps: false,
            ..half
        };
        assert_eq!([get(gone, &[]), get(gone, &[])], [6, 7]);
        assert_eq!(get(half, &[]), 5);
        forget_all();
        assert_eq!(get(half, &[]), 8);
        let failed = half.network("transformer", &folder.path().join("x"), &[], || {
            Err::<i32, _>(EngineError::internal("no"))
        });
        // The one before it was gone already: there is no room for two.
        assert!(failed.is_err());
        assert_eq!(get(half, &[]), 9);
        forget_all();
    }
}
