//! Bands of rows that ranks decode: each convolution takes the row beyond its band from the neighbour.

use std::cell::RefCell;
use std::rc::Rc;

use tch::Tensor;

use super::{RankGroup, current};

/// Rows of frames, `(T, H, W, C)`, split over the ranks; at every resolution a rank has the pixels of its latents.
#[derive(Clone)]
pub struct RankBands {
    group: Rc<RankGroup>,
    /// Rows of the latents.
    rows: i64,
}

thread_local! {
    static IN_FORCE: RefCell<Option<RankBands>> = const { RefCell::new(None) };
}

/// Bands that the convolutions of this thread work on, if any.
pub fn row_bands() -> Option<RankBands> {
    IN_FORCE.with_borrow(Option::clone)
}

/// Until it is dropped, convolutions of this thread work on bands.
pub struct BandsInForce(());

impl Drop for BandsInForce {
    fn drop(&mut self) {
        IN_FORCE.take();
    }
}

impl RankBands {
    /// `None` without other ranks, or where there are fewer rows than ranks.
    pub fn of(rows: i64) -> Option<Self> {
        let group = current().filter(|group| rows >= group.ranks() as i64)?;
        Some(Self { group, rows })
    }

    pub fn in_force(&self) -> BandsInForce {
        IN_FORCE.set(Some(self.clone()));
        BandsInForce(())
    }

    /// Start and number of a rank's rows.
    fn share(&self, rank: usize) -> (i64, i64) {
        self.group.share(self.rows, rank)
    }

    /// This rank's rows of latents; `dim`: of rows
    pub fn own(&self, xs: &Tensor, dim: i64) -> Tensor {
        let (start, len) = self.share(self.group.rank);
        xs.narrow(dim, start, len)
    }

    /// With a row of the neighbours on both sides, zeros at the edges of the frame: `(T, H, W, C)` -> `(T, H + 2, W, C)`
    pub fn bordered(&self, xs: &Tensor) -> Tensor {
        let group = &self.group;
        let height = xs.size()[1];
        let mut size = xs.size();
        size[1] = height + 2;
        let all = Tensor::empty(&size, (xs.kind(), xs.device()));
        all.narrow(1, 1, height).copy_(xs);
        size[1] = 1;
        let none = || {
            let each = (0..group.ranks()).map(|_| xs.narrow(0, 0, 0));
            each.collect::<Vec<Tensor>>()
        };
        let (mut send, mut receive) = (none(), none());
        let sides = [
            (group.rank.checked_sub(1), 0),
            (Some(group.rank + 1), height - 1),
        ];
        let sides = sides.map(|(rank, row)| (rank.filter(|rank| *rank < group.ranks()), row));
        for (rank, row) in sides {
            if let Some(rank) = rank {
                send[rank] = xs.narrow(1, row, 1).contiguous();
                receive[rank] = xs.new_empty(&size, (xs.kind(), xs.device()));
            }
        }
        group.exchange(&send, &mut receive);
        for ((rank, _), row) in sides.into_iter().zip([0, height + 1]) {
            let mut border = all.narrow(1, row, 1);
            match rank {
                Some(rank) => border.copy_(&receive[rank]),
                None => drop(border.zero_()),
            }
        }
        all
    }

    /// All rows on every rank, `dim`: of rows
    pub fn all_rows(&self, xs: &Tensor, dim: i64) -> Tensor {
        let group = &self.group;
        let scale = xs.size()[dim as usize] / self.share(group.rank).1;
        let sizes = (0..group.ranks()).map(|rank| {
            let mut size = xs.size();
            size[dim as usize] = self.share(rank).1 * scale;
            size
        });
        Tensor::cat(&group.gathered(xs, sizes), dim)
    }
}
