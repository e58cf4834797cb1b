//! One job on several devices: ranks, each an engine on another device, that compute shares of the same tokens.
//!
//! All ranks run the same stage with the same noise. Tokens are split over the ranks; for attention an exchange gives each
//! rank all tokens of its share of the heads (Ulysses, <https://arxiv.org/abs/2309.14509>), and another one goes back.
//! Predictions are gathered, so that samplers and decisions are the same on all ranks.

mod bands;
mod gloo;
mod nccl;
mod shards;
#[cfg(test)]
pub(crate) mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use gloo::{GlooGroup, RankStore};
use nccl::{NcclGroup, NcclId};
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::protocol::{GroupMember, RankAddresses};
use tch::{Device, Kind, Tensor};
use thiserror::Error;

pub use bands::{RankBands, row_bands};
pub use shards::{PendingExchange, TokenShards};

use crate::error::EngineError;
use crate::kernels::StreamMark;

const MEASURED_BYTES: i64 = 16 << 20;
const MEASURED_TIMES: i64 = 4;

#[derive(Debug, Error)]
pub enum ParallelError {
    #[error("this libtorch brings neither NCCL nor RCCL, so one job cannot use several GPUs")]
    NoLibrary,
    #[error("the address of the first rank cannot be read")]
    Host,
    #[error("a GPU of this job was lost")]
    Lost,
    #[error("{call} failed between the GPUs of a job: {reason}")]
    Call { call: &'static str, reason: String },
}

impl From<ParallelError> for EngineError {
    fn from(err: ParallelError) -> Self {
        let advice = "Run it on one GPU, or run the Doctor to check all of them";
        let error = JobError::from_error(JobErrorKind::Device, &err).advise(advice);
        Self::OtherRank(Box::new(error))
    }
}

/// The first rank of a group before the others have come.
pub struct OpenGroup {
    store: Option<RankStore>,
    member: GroupMember,
}

impl OpenGroup {
    /// `own`: address of the first rank for the others, and `device`: its device
    pub fn new(own: &str, ranks: usize, device: Device) -> Result<Self, ParallelError> {
        let mut member = GroupMember {
            rank: 0,
            ranks,
            host: own.to_owned(),
            own: own.to_owned(),
            port: 0,
            nccl: Vec::new(),
        };
        let mut store = None;
        if device == Device::Cpu {
            let opened = RankStore::open(own, 0, true)?;
            member.port = opened.port;
            store = Some(opened);
        } else {
            member.nccl = NcclId::new()?.bytes().to_vec();
        }
        Ok(Self { store, member })
    }

    /// Another rank of the group. `addresses`: where it is on another computer
    pub fn other(&self, rank: usize, addresses: Option<RankAddresses>) -> GroupMember {
        let mut member = GroupMember {
            rank,
            ..self.member.clone()
        };
        if let Some(RankAddresses { first, own }) = addresses {
            (member.host, member.own) = (first, own);
        }
        member
    }

    /// Returns when all others have come.
    pub fn join(self, device: Device) -> Result<RankGroup, ParallelError> {
        RankGroup::of(&self.member, self.store, device)
    }
}

enum RankLink {
    Gloo(GlooGroup),
    Nccl(NcclGroup),
}

/// Ranks that share work, as one of them sees the others.
pub struct RankGroup {
    link: Rc<RankLink>,
    /// Numbers of the members among all ranks of the job.
    members: Vec<usize>,
    /// This rank among the members.
    rank: usize,
    /// Each rank keeps a part of the weights, so that all must need the same ones at the same time.
    shares_weights: Cell<bool>,
}

/// Tensors for one rank and from it.
struct RankPart<'a> {
    rank: usize,
    send: &'a Tensor,
    receive: &'a Tensor,
}

impl RankGroup {
    /// On a rank that is not the first: returns when all have come.
    pub fn join(member: &GroupMember, device: Device) -> Result<Self, ParallelError> {
        Self::of(member, None, device)
    }

    fn of(
        member: &GroupMember,
        store: Option<RankStore>,
        device: Device,
    ) -> Result<Self, ParallelError> {
        let &GroupMember { rank, ranks, .. } = member;
        let link = if device == Device::Cpu {
            let store = match store {
                Some(store) => store,
                None => RankStore::open(&member.host, member.port, false)?,
            };
            RankLink::Gloo(GlooGroup::join(store, &member.own, rank, ranks)?)
        } else {
            let id = NcclId::of_bytes(&member.nccl)?;
            RankLink::Nccl(NcclGroup::join(id, rank, ranks, device)?)
        };
        Ok(Self {
            link: Rc::new(link),
            members: (0..ranks).collect(),
            rank,
            shares_weights: Cell::default(),
        })
    }

    fn ranks(&self) -> usize {
        self.members.len()
    }

    /// Ends all exchanges between GPUs, from any thread, when a rank is lost.
    pub fn abort_handle(&self) -> impl Fn() + Send + use<> {
        let handle = match &*self.link {
            RankLink::Gloo(_) => None,
            RankLink::Nccl(group) => Some(group.handle()),
        };
        move || {
            if let Some(handle) = &handle {
                handle.abort();
            }
        }
    }

    fn is_lost(&self) -> bool {
        matches!(&*self.link, RankLink::Nccl(group) if group.is_lost())
    }

    /// Members of which this rank is one: `members`: their places in this group
    fn of_members(&self, members: impl Iterator<Item = usize>) -> Self {
        let members: Vec<usize> = members.map(|index| self.members[index]).collect();
        let own = self.members[self.rank];
        Self {
            link: Rc::clone(&self.link),
            rank: members.iter().position(|it| *it == own).unwrap_or(0),
            members,
            shares_weights: Cell::default(),
        }
    }

    /// Start and length of a rank's even share of `len`.
    fn share(&self, len: i64, rank: usize) -> (i64, i64) {
        let (rank, ranks) = (rank as i64, self.ranks() as i64);
        let start = len * rank / ranks;
        (start, len * (rank + 1) / ranks - start)
    }

    /// Contiguous tensors of `sizes`, filled by what each member has for all, which is `own` on this rank.
    fn gathered(&self, own: &Tensor, sizes: impl Iterator<Item = Vec<i64>>) -> Vec<Tensor> {
        let own = own.contiguous();
        let mut all: Vec<Tensor> = sizes
            .map(|size| own.new_empty(size, (own.kind(), own.device())))
            .collect();
        let send: Vec<Tensor> = all.iter().map(|_| own.shallow_clone()).collect();
        self.exchange(&send, &mut all);
        all
    }

    /// Sends `send[i]` to each member and fills `receive[i]` by what it sends: contiguous tensors on this rank's device.
    /// Panics if that fails, as tch's operators do.
    fn exchange(&self, send: &[Tensor], receive: &mut [Tensor]) {
        self.start(send, receive).wait();
    }

    /// [`Self::exchange`] next to the work that follows: all tensors stay until the result was waited for.
    fn start(&self, send: &[Tensor], receive: &mut [Tensor]) -> StartedExchange {
        let parts = self.members.iter().zip(send.iter().zip(receive.iter()));
        let parts = parts.map(|(&rank, (send, receive))| RankPart {
            rank,
            send,
            receive,
        });
        let own = self.members[self.rank];
        let parts: Vec<RankPart<'_>> = parts.filter(|part| part.rank != own).collect();
        let started = match &*self.link {
            RankLink::Gloo(group) => group.exchange(&parts).map(|()| None),
            RankLink::Nccl(group) => group.start(&parts).map(Some),
        };
        receive[self.rank].copy_(&send[self.rank]);
        StartedExchange(started.unwrap_or_else(|err| panic!("{err}")))
    }

    /// Bytes that each rank sends in a second when all send to all.
    pub fn measure(&self, device: Device) -> f64 {
        let sent = Tensor::zeros([MEASURED_BYTES], (Kind::Uint8, device));
        let exchange = || {
            let all = self.gathered(&sent, (0..self.ranks()).map(|_| sent.size()));
            // Waits for the device.
            let ends = all.iter().map(|it| it.get(-1).int64_value(&[]));
            ends.sum::<i64>()
        };
        exchange();
        let began = Instant::now();
        for _ in 0..MEASURED_TIMES {
            exchange();
        }
        let bytes = MEASURED_BYTES * MEASURED_TIMES * (self.ranks() as i64 - 1);
        bytes as f64 / began.elapsed().as_secs_f64()
    }

    /// This rank, counted from 0, and the number of all.
    pub fn place(&self) -> (usize, usize) {
        (self.rank, self.ranks())
    }

    /// Sends `bytes` from rank `owner` to all others, which receive them there, next to the work that follows: they stay
    /// until the result was waited for.
    pub fn send_to_all(&self, owner: usize, bytes: &Tensor) -> StartedExchange {
        let none = || bytes.narrow(0, 0, 0);
        let of = |is_used: &dyn Fn(usize) -> bool| {
            let each = (0..self.ranks()).map(|rank| {
                if is_used(rank) {
                    bytes.shallow_clone()
                } else {
                    none()
                }
            });
            each.collect::<Vec<_>>()
        };
        let is_owner = owner == self.rank;
        let send = of(&|rank| is_owner && rank != owner);
        let mut receive = of(&|rank| !is_owner && rank == owner);
        self.start(&send, &mut receive)
    }
}

/// An exchange that is under way; `None` once it has ended.
pub struct StartedExchange(Option<StreamMark>);

impl StartedExchange {
    /// Makes all that this thread computes from here on come after it.
    pub fn wait(&self) {
        let is_waited_for = self.0.as_ref().is_none_or(StreamMark::wait);
        assert!(is_waited_for, "{}", ParallelError::Lost);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<RankGroup>>> = const { RefCell::new(None) };
}

/// The group whose ranks share the work of this thread, if any.
fn current() -> Option<Rc<RankGroup>> {
    CURRENT.with_borrow(Option::clone)
}

/// Returns whether several ranks share the work of this thread.
pub fn is_shared() -> bool {
    current().is_some()
}

/// The group of this thread, whose ranks from here on each keep a part of the weights.
pub fn share_weights() -> Option<Rc<RankGroup>> {
    let group = current()?;
    group.shares_weights.set(true);
    Some(group)
}

/// Returns whether another rank, the first one, writes the results of this thread's work.
pub fn is_follower() -> bool {
    current().is_some_and(|group| group.members[group.rank] != 0)
}

/// Fails if what was computed since the last call may lack another rank's share. The device's work must have ended.
pub fn check_ranks() -> Result<(), ParallelError> {
    match current() {
        Some(group) if group.is_lost() => Err(ParallelError::Lost),
        _ => Ok(()),
    }
}

/// Ends what [`share_work`] began.
pub struct SharedWork(Option<Rc<RankGroup>>);

/// Until the result is dropped, the ranks of `group` share the work of this thread.
pub fn share_work(group: Option<Rc<RankGroup>>) -> SharedWork {
    SharedWork(CURRENT.replace(group))
}

impl Drop for SharedWork {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Sum over all ranks, the same on each: `xs`: a number
pub fn sum_over_ranks(xs: Tensor) -> Tensor {
    let Some(group) = current() else {
        return xs;
    };
    let sizes = (0..group.ranks()).map(|_| vec![1]);
    let all = group.gathered(&xs.view([1]), sizes);
    Tensor::cat(&all, 0).sum(Kind::Float)
}

/// Results of two pieces of work of equal size, each of which half of the ranks makes; where their number is odd, all make
/// both. `None` where one was cancelled.
pub fn both(
    first: impl FnOnce() -> Option<Tensor>,
    second: impl FnOnce() -> Option<Tensor>,
) -> Option<(Tensor, Tensor)> {
    let is_halved =
        |group: &Rc<RankGroup>| group.ranks().is_multiple_of(2) && !group.shares_weights.get();
    let group = current().filter(is_halved);
    let Some(group) = group else {
        return Some((first()?, second()?));
    };
    let half = group.ranks() / 2;
    let is_first = group.rank < half;
    let start = if is_first { 0 } else { half };
    let own = {
        let half_group = group.of_members(start..start + half);
        let _shared = share_work((half > 1).then(|| Rc::new(half_group)));
        if is_first { first() } else { second() }
    }?;
    let partner = (group.rank + half) % group.ranks();
    let pair = group.of_members([group.rank.min(partner), group.rank.max(partner)].into_iter());
    let mut all = pair
        .gathered(&own, [own.size(), own.size()].into_iter())
        .into_iter();
    all.next().zip(all.next())
}
