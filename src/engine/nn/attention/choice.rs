//! Decides whether libtorch may compute an attention in one call: only with a kernel that never holds all scores in
//! memory.
//!
//! libtorch is queried once per shape. Computes nothing.

use std::cell::RefCell;
use std::collections::HashMap;

use tch::{Device, Kind, Tensor};

use super::AttentionCall;
use super::sliced::BUDGET;
use crate::runtime::attention_choice;

/// The kernels that libtorch chooses among, in its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdpBackend {
    /// All scores in memory at once.
    Math,
    Flash,
    Efficient,
    CuDnn,
    /// Registered by another library.
    Other,
}

impl SdpBackend {
    fn of_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Math),
            1 => Some(Self::Flash),
            2 => Some(Self::Efficient),
            3 => Some(Self::CuDnn),
            4 => Some(Self::Other),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Math => "math",
            Self::Flash => "flash",
            Self::Efficient => "efficient",
            Self::CuDnn => "cudnn",
            Self::Other => "other",
        }
    }
}

/// A job has a handful of shapes; more than this many are of the past.
const MAX_KNOWN: usize = 256;

thread_local! {
    static KNOWN: RefCell<HashMap<Vec<i64>, bool>> = RefCell::default();
    #[cfg(test)]
    pub(super) static FORCED: std::cell::Cell<Option<SdpBackend>> = const { std::cell::Cell::new(None) };
}

/// Returns whether libtorch computes `call` without all scores in memory, or on the CPU with few.
pub(super) fn is_whole(call: &AttentionCall<'_>) -> bool {
    let key = key(call);
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).copied()) {
        return known;
    }
    let backend = libtorchs_own(call);
    let is_whole = may_be_whole(call, backend);
    tracing::debug!(
        "attention of {:?} to {:?} in {:?}: {} by libtorch, computed {}",
        call.q.size(),
        call.k.size(),
        call.q.kind(),
        backend.map_or("refused", SdpBackend::name),
        if is_whole { "so" } else { "in slices" },
    );
    remember(key, is_whole);
    is_whole
}

/// Returns whether one of libtorch's GPU kernels takes shared key and value heads as in `call`.
pub(super) fn is_shared(call: &AttentionCall<'_>) -> bool {
    if call.q.device() == Device::Cpu {
        return false;
    }
    let key = shared_key(call);
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).copied()) {
        return known;
    }
    let AttentionCall { q, k, v, bias, .. } = *call;
    let number = Tensor::f_internal_fused_sdp_choice(q, k, v, bias, 0.0, false, None, true);
    let backend = number.ok().and_then(SdpBackend::of_number);
    let is_shared = matches!(backend, Some(SdpBackend::Flash | SdpBackend::CuDnn));
    remember(key, is_shared);
    is_shared
}

pub(super) fn never_shared(call: &AttentionCall<'_>) {
    remember(shared_key(call), false);
}

/// Cache key of a call with shared heads; equal to no other call's key.
fn shared_key(call: &AttentionCall<'_>) -> Vec<i64> {
    let mut key = key(call);
    key.push(i64::MIN);
    key
}

/// A kernel that was chosen for `call` does not work.
pub(super) fn never_whole(call: &AttentionCall<'_>) {
    remember(key(call), false);
}

#[cfg(test)]
pub(super) fn forget() {
    KNOWN.with_borrow_mut(HashMap::clear);
}

fn remember(key: Vec<i64>, is_whole: bool) {
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, is_whole);
    });
}

/// Backend that libtorch would select; `None` if it refuses the call.
pub(super) fn libtorchs_own(call: &AttentionCall<'_>) -> Option<SdpBackend> {
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return Some(forced);
    }
    let AttentionCall {
        q,
        k,
        v,
        bias,
        scale,
    } = *call;
    let number = Tensor::f_internal_fused_sdp_choice(q, k, v, bias, 0.0, false, scale, false);
    SdpBackend::of_number(number.ok()?)
}

fn may_be_whole(call: &AttentionCall<'_>, backend: Option<SdpBackend>) -> bool {
    match backend {
        Some(SdpBackend::Math) | None => {
            call.q.device() == Device::Cpu && score_bytes(call) <= BUDGET
        }
        Some(_) => true,
    }
}

/// Of all scores at once, in f32.
fn score_bytes(call: &AttentionCall<'_>) -> usize {
    let sizes = [&call.q.size()[..3], &call.k.size()[2..3]].concat();
    let factors = sizes.iter().map(|&size| size.max(0) as usize);
    factors.fold(size_of::<f32>(), usize::saturating_mul)
}

/// All that libtorch's choice depends on.
fn key(call: &AttentionCall<'_>) -> Vec<i64> {
    let mut key = vec![attention_choice() as i64, kind_number(call.q.kind())];
    key.push(match call.q.device() {
        Device::Cuda(index) => index as i64,
        _ => -1,
    });
    let bias = call.bias.into_iter();
    for tensor in [call.q, call.k, call.v].into_iter().chain(bias) {
        key.extend(tensor.size());
        key.extend(tensor.stride());
    }
    key.extend(call.bias.map(|bias| kind_number(bias.kind())));
    key
}

fn kind_number(kind: Kind) -> i64 {
    kind as i64
}
