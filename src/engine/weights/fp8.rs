//! Numbers of eight bits with a point (`e4m3fn`, `e5m2`) to numbers that can be computed with, in one pass.
//!
//! On the CPU through a table of all 256, which also holds the scale: libtorch's own cast takes one number after
//! the other, at a tenth of the speed. Other devices have a kernel, or cast and multiply. Does not know where a scale is written.

use std::ops::Range;
use std::slice;

use tch::{Device, Kind, Tensor};

use crate::kernels;
use crate::runtime::for_each_range;

/// About this many numbers are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 64 * 1024;

pub(super) fn is_fp8(kind: Kind) -> bool {
    matches!(kind, Kind::Float8e4m3fn | Kind::Float8e5m2)
}

/// `numbers` times `scale` as `kind`, rounded once; `numbers` are of a kind that [`is_fp8`].
pub(super) fn expand(numbers: &Tensor, scale: f32, kind: Kind) -> Tensor {
    let by_table = match kind {
        Kind::Float | Kind::Half | Kind::BFloat16 => numbers.device() == Device::Cpu,
        _ => false,
    };
    if !by_table {
        return kernels::expand_fp8(numbers, scale, kind);
    }
    let table = table(numbers.kind(), scale, kind);
    let numbers = numbers.contiguous();
    let out = Tensor::empty(numbers.size(), (kind, Device::Cpu));
    // Only the element width matters.
    match kind {
        Kind::Float => look_up::<u32>(&numbers, &table, &out),
        _ => look_up::<u16>(&numbers, &table, &out),
    }
    out
}

/// Value of each byte.
fn table(stored: Kind, scale: f32, kind: Kind) -> Tensor {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let numbers = Tensor::from_slice(&bytes).view_dtype(stored);
    (numbers.to_kind(Kind::Float) * f64::from(scale)).to_kind(kind)
}

/// Output shared by threads, each with a separate range.
struct ThreadOutput<T>(*mut T);

#[expect(unsafe_code, reason = "threads write to different parts of one tensor")]
// SAFETY: `range` is the only way in, and its callers share no place.
unsafe impl<T> Sync for ThreadOutput<T> {}

impl<T> ThreadOutput<T> {
    #[expect(unsafe_code, reason = "threads write to different parts of one tensor")]
    #[expect(clippy::mut_from_ref, reason = "of each place there is one writer")]
    /// # Safety
    /// The tensor is alive, has these elements, and nothing else uses them meanwhile.
    unsafe fn range(&self, range: Range<usize>) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

/// `T`: as wide as a number of `table` and `out`, which are contiguous, as `numbers` is.
fn look_up<T: Copy + Send + Sync>(numbers: &Tensor, table: &Tensor, out: &Tensor) {
    let len = numbers.numel();
    assert_eq!(out.numel(), len, "one place for each number");
    assert_eq!(
        out.kind().elt_size_in_bytes(),
        size_of::<T>(),
        "a place is as wide as what is written there"
    );
    if len == 0 {
        return;
    }
    #[expect(
        unsafe_code,
        reason = "reads tensors as what they are: bytes and words"
    )]
    // SAFETY: both are contiguous CPU tensors with this number of elements of this width; `numbers` outlives its slice.
    let (bytes, table) = unsafe {
        (
            slice::from_raw_parts(numbers.data_ptr().cast::<u8>().cast_const(), len),
            table.data_ptr().cast::<[T; 256]>().read(),
        )
    };
    let places = ThreadOutput(out.data_ptr().cast::<T>());
    for_each_range(len, NUMBERS_PER_TURN, &|range| {
        #[expect(unsafe_code, reason = "threads write to different parts of one tensor")]
        // SAFETY: `out` has `len` places, and each range is handed out once.
        let out = unsafe { places.range(range.clone()) };
        for (out, byte) in out.iter_mut().zip(&bytes[range]) {
            *out = table[usize::from(*byte)];
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sign, exponent with its bias, and mantissa, as the two formats are defined.
    fn truth(byte: u8, kind: Kind) -> f32 {
        let (mantissa_bits, bias, has_infinity) = match kind {
            Kind::Float8e4m3fn => (3, 7, false),
            _ => (2, 15, true),
        };
        let magnitude = i32::from(byte & 0x7f);
        let (exponent, mantissa) = (
            magnitude >> mantissa_bits,
            magnitude & ((1 << mantissa_bits) - 1),
        );
        let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
        let value = match exponent {
            0 => fraction * 2_f64.powi(1 - bias),
            31 if has_infinity && mantissa == 0 => f64::INFINITY,
            31 if has_infinity => f64::NAN,
            _ if !has_infinity && magnitude == 0x7f => f64::NAN,
            _ => (1.0 + fraction) * 2_f64.powi(exponent - bias),
        };
        (if byte >> 7 == 1 { -value } else { value }) as f32
    }

    #[test]
    fn every_byte_is_the_number_that_its_format_defines() {
        // More than one turn, and the last one short.
        let bytes: Vec<u8> = (0..2 * NUMBERS_PER_TURN + 77).map(|i| i as u8).collect();
        for stored in [Kind::Float8e4m3fn, Kind::Float8e5m2] {
            let numbers = Tensor::from_slice(&bytes).view_dtype(stored);
            for scale in [1.0, 0.0078, -3.5e-5] {
                let expected: Vec<f32> = bytes
                    .iter()
                    .map(|&byte| truth(byte, stored) * scale)
                    .collect();
                let expected = Tensor::from_slice(&expected);
                for kind in [Kind::Float, Kind::BFloat16, Kind::Half, Kind::Double] {
                    let found = expand(&numbers, scale, kind);
                    assert_eq!(found.kind(), kind);
                    let same = found.allclose(&expected.to_kind(kind), 0.0, 0.0, true);
                    assert!(same || kind == Kind::Double, "{stored:?} as {kind:?}");
                    let near = found.allclose(&expected.to_kind(kind), 1e-7, 0.0, true);
                    assert!(near, "{stored:?} as {kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_matrix_of_nothing_and_a_view_of_columns_are_expanded() {
        let numbers = Tensor::arange(24, (Kind::Float, Device::Cpu)).view([4, 6]);
        let stored = numbers.to_kind(Kind::Float8e5m2);
        let exact = stored.to_kind(Kind::Float);
        let columns = stored.view_dtype(Kind::Uint8).narrow(1, 2, 3);
        let found = expand(&columns.view_dtype(Kind::Float8e5m2), 1.0, Kind::Float);
        assert!(found.equal(&exact.narrow(1, 2, 3)));
        let none = expand(&stored.narrow(0, 0, 0), 1.0, Kind::BFloat16);
        assert_eq!(none.size(), [0, 6]);
    }
}
