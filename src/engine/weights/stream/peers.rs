//! Weights that several devices hold together: each keeps a share of what does not fit on all, and sends a matrix to the
//! others when they need it. All ranks need the same matrices in the same order.

use std::rc::Rc;

use tch::{Device, Kind, Tensor};

use super::matrix::StreamedMatrix;
use super::{PendingTransfer, TransferSource};
use crate::parallel::{RankGroup, share_weights};
use crate::weights::WeightsError;

pub(super) struct PeerShares {
    group: Rc<RankGroup>,
    /// Bytes of the streamed matrices that this rank keeps.
    owned: Vec<Option<Tensor>>,
}

impl PeerShares {
    /// Bytes of matrices that can stay on every device when the others are kept by one each; `None` where even so they do
    /// not fit, or without other ranks. `total`: bytes of all matrices, `budget`: of a device
    pub(super) fn budget(total: u64, budget: u64) -> Option<(Rc<RankGroup>, u64)> {
        let group = share_weights()?;
        let ranks = group.place().1 as u64;
        let spare = budget.checked_sub(total.div_ceil(ranks))?;
        Some((group, spare * ranks / (ranks - 1)))
    }

    /// Reads this rank's share of the streamed matrices.
    pub(super) fn load(
        group: Rc<RankGroup>,
        matrices: &[&Rc<StreamedMatrix>],
        device: Device,
    ) -> Result<Self, WeightsError> {
        let owned = matrices.iter().enumerate().map(|(index, matrix)| {
            if Self::owner(&group, index) != group.place().0 {
                return Ok(None);
            }
            let options = (Kind::Uint8, device);
            let bytes = Tensor::f_empty([matrix.len() as i64], options);
            let bytes = bytes.map_err(|source| matrix.failed(source.into()))?;
            let coming = PendingTransfer::begin(index, &matrix.parts(), bytes);
            let coming = coming.map_err(|source| matrix.failed(source))?;
            coming.wait().map_err(|source| matrix.failed(source))?;
            Ok(Some(coming.bytes.shallow_clone()))
        });
        Ok(Self {
            owned: owned.collect::<Result<_, WeightsError>>()?,
            group,
        })
    }

    fn owner(group: &RankGroup, index: usize) -> usize {
        index % group.place().1
    }

    /// Sends a matrix, or receives it at `bytes`.
    pub(super) fn begin(&self, index: usize, bytes: Tensor) -> PendingTransfer {
        let bytes = match &self.owned[index] {
            Some(owned) => owned.shallow_clone(),
            None => bytes,
        };
        let exchange = self
            .group
            .send_to_all(Self::owner(&self.group, index), &bytes);
        PendingTransfer {
            index,
            bytes,
            source: TransferSource::Peer(exchange),
        }
    }
}
