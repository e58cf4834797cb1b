//! Tokens of a sequence that are split over ranks.

use std::rc::Rc;

use tch::Tensor;

use super::{RankGroup, StartedExchange, current};

/// Each rank's tokens of a sequence: an even share of each of its parts, so that text, image and references are spread alike.
/// Without other ranks, all tokens.
///
/// Shapes: `L` tokens, `S` of them on this rank; `H` heads, `h` of them on this rank; `D` numbers in each.
#[derive(Clone)]
pub struct TokenShards {
    group: Option<Rc<RankGroup>>,
    /// Lengths of the parts of the whole sequence.
    parts: Vec<i64>,
}

impl TokenShards {
    /// Split over the ranks that share this thread's work; whole on each where no part has a token for every rank.
    pub fn new(parts: impl IntoIterator<Item = i64>) -> Self {
        let parts: Vec<i64> = parts.into_iter().collect();
        let largest = parts.iter().copied().max().unwrap_or(0);
        Self {
            group: current().filter(|group| largest >= group.ranks() as i64),
            parts,
        }
    }

    /// All tokens on this rank.
    pub fn whole() -> Self {
        Self {
            group: None,
            parts: Vec::new(),
        }
    }

    /// Same ranks for another sequence.
    pub fn of(&self, parts: impl IntoIterator<Item = i64>) -> Self {
        Self {
            group: self.group.clone(),
            parts: parts.into_iter().collect(),
        }
    }

    pub fn parts(&self) -> &[i64] {
        &self.parts
    }

    pub fn is_whole(&self) -> bool {
        self.group.is_none()
    }

    fn rank(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.rank)
    }

    fn share(&self, len: i64, rank: usize) -> (i64, i64) {
        let of = |group: &Rc<RankGroup>| group.share(len, rank);
        self.group.as_ref().map_or((0, len), of)
    }

    /// Number of a rank's tokens.
    fn len_on(&self, rank: usize) -> i64 {
        let shares = self.parts.iter().map(|&len| self.share(len, rank).1);
        shares.sum()
    }

    /// Start and length of each part among this rank's tokens.
    pub fn ranges(&self) -> Vec<(i64, i64)> {
        let mut done = 0;
        let range = |&len: &i64| {
            let (_, own) = self.share(len, self.rank());
            done += own;
            (done - own, own)
        };
        self.parts.iter().map(range).collect()
    }

    /// Start and length of a rank's share of each part in the whole sequence.
    fn places(&self, rank: usize) -> impl Iterator<Item = (i64, i64)> {
        let mut done = 0;
        self.parts.iter().map(move |&len| {
            let (start, own) = self.share(len, rank);
            done += len;
            (done - len + start, own)
        })
    }

    /// This rank's tokens of all: the length of dimension `dim` becomes `S`.
    pub fn own(&self, xs: &Tensor, dim: i64) -> Tensor {
        if self.is_whole() {
            return xs.shallow_clone();
        }
        let places = self.places(self.rank());
        let parts = places.map(|(start, len)| xs.narrow(dim, start, len));
        Tensor::cat(&parts.collect::<Vec<_>>(), dim)
    }

    /// This rank's share of heads, `(.., H, D)` -> `(.., h, D)`, a view
    pub fn own_heads(&self, xs: &Tensor) -> Tensor {
        let heads = xs.size()[xs.dim() - 2];
        let (start, len) = self.share(heads, self.rank());
        xs.narrow(-2, start, len)
    }

    /// All tokens of each rank's: `(B, S, C)` -> `(B, L, C)`
    pub fn gathered(&self, xs: &Tensor) -> Tensor {
        let Some(group) = &self.group else {
            return xs.shallow_clone();
        };
        let (batch, _, width) = xs.size3().expect("tokens have three dimensions");
        let sizes = (0..group.ranks()).map(|rank| vec![batch, self.len_on(rank), width]);
        let received = group.gathered(xs, sizes);
        let whole = [batch, self.parts.iter().sum(), width];
        let all = Tensor::empty(whole, (xs.kind(), xs.device()));
        for (rank, part) in received.iter().enumerate() {
            let mut done = 0;
            for (start, len) in self.places(rank) {
                let mut to = all.narrow(1, start, len);
                to.copy_(&part.narrow(1, done, len));
                done += len;
            }
        }
        all
    }

    /// Bias of scores in the order of [`Self::start_heads`]: `(1, 1, L, L)` -> the same
    pub fn bias(&self, bias: &Tensor) -> Tensor {
        let Some(group) = &self.group else {
            return bias.shallow_clone();
        };
        let ordered = |xs: &Tensor, dim: i64| {
            let places = (0..group.ranks()).flat_map(|rank| self.places(rank));
            let parts = places.map(|(start, len)| xs.narrow(dim, start, len));
            Tensor::cat(&parts.collect::<Vec<_>>(), dim)
        };
        ordered(&ordered(bias, 2), 3)
    }

    /// Starts to exchange tokens for heads, next to what is computed until the result is waited for: `xs`:
    /// `(B, S, .., H, D)` -> all tokens of this rank's share of the heads, rank by rank, `(B, L, .., h, D)`; heads are split
    /// in groups of `together`
    pub fn start_heads(&self, xs: &Tensor, together: i64) -> PendingExchange {
        let Some(group) = &self.group else {
            return PendingExchange::Done(xs.shallow_clone());
        };
        let mut size = xs.size();
        let dim = size.len() - 2;
        let share = |rank| {
            let (start, len) = self.share(size[dim] / together, rank);
            (start * together, len * together)
        };
        let send = (0..group.ranks()).map(|rank| {
            let (start, len) = share(rank);
            let part = xs.narrow(-2, start, len);
            // This rank's own part is copied where it belongs.
            if rank == group.rank {
                part
            } else {
                part.contiguous()
            }
        });
        let send: Vec<Tensor> = send.collect();
        size[dim] = share(group.rank).1;
        let lens: Vec<i64> = (0..group.ranks()).map(|rank| self.len_on(rank)).collect();
        let options = (xs.kind(), xs.device());
        // Tokens of one batch are adjacent: they are received in place.
        let whole = (size[0] == 1).then(|| {
            size[1] = lens.iter().sum();
            Tensor::empty(&size, options)
        });
        let mut start = 0;
        let receive = lens.iter().map(|&len| {
            start += len;
            if let Some(whole) = &whole {
                return whole.narrow(1, start - len, len);
            }
            size[1] = len;
            Tensor::empty(&size, options)
        });
        PendingExchange::start(group, send, receive.collect(), (whole, 1))
    }

    /// Inverse of [`Self::start_heads`] for results: `xs`: `(B, L, h, D)`; `heads`: `H` -> `(B, S, H, D)`
    pub fn own_tokens(&self, xs: &Tensor, heads: i64, together: i64) -> Tensor {
        let Some(group) = &self.group else {
            return xs.shallow_clone();
        };
        let size = xs.size();
        let mut start = 0;
        let send = (0..group.ranks()).map(|rank| {
            let len = self.len_on(rank);
            start += len;
            let part = xs.narrow(1, start - len, len);
            if rank == group.rank {
                part
            } else {
                part.contiguous()
            }
        });
        let send: Vec<Tensor> = send.collect();
        let own = self.len_on(group.rank);
        let options = (xs.kind(), xs.device());
        let receive = (0..group.ranks()).map(|rank| {
            let (_, len) = self.share(heads / together, rank);
            Tensor::empty([size[0], own, len * together, size[3]], options)
        });
        PendingExchange::start(group, send, receive.collect(), (None, 2)).wait()
    }
}

/// An exchange that is under way, with the tensors that it reads and writes.
pub enum PendingExchange {
    /// Without other ranks.
    Done(Tensor),
    Started {
        exchange: StartedExchange,
        _sent: Vec<Tensor>,
        received: Vec<Tensor>,
        /// Tensor that the received parts are views of, if any.
        whole: Option<Tensor>,
        /// Dimension in which the parts follow each other.
        dim: i64,
    },
}

impl PendingExchange {
    fn start(
        group: &Rc<RankGroup>,
        mut sent: Vec<Tensor>,
        mut received: Vec<Tensor>,
        (whole, dim): (Option<Tensor>, i64),
    ) -> Self {
        let exchange = group.start(&sent, &mut received);
        // This rank's own part has been copied.
        drop(sent.remove(group.rank));
        Self::Started {
            exchange,
            _sent: sent,
            received,
            whole,
            dim,
        }
    }

    /// Its result, for what this thread computes from here on.
    pub fn wait(self) -> Tensor {
        match self {
            Self::Done(xs) => xs,
            Self::Started {
                exchange,
                received,
                whole,
                dim,
                ..
            } => {
                exchange.wait();
                whole.unwrap_or_else(|| Tensor::cat(&received, dim))
            }
        }
    }
}
