//! Weights that are a formula of their names, as `tests/fixtures/made_up.py` has it, so that fixtures hold only shapes.
//!
//! For tests alone.

use tch::Tensor;

/// FNV-1a of the name, then splitmix64 of each place; vectors are scales around one or small offsets.
pub fn made_up(name: &str, shape: &[i64]) -> Tensor {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |seed, byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let count: i64 = shape.iter().product();
    let is_vector = shape.contains(&count);
    let is_scale = name.ends_with("weight") || name.ends_with("gamma");
    let spread = (3.0 / (count as f64 / shape[0] as f64)).sqrt();
    let values = (1..=count as u64).map(|place| {
        let mut z = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let u = (z >> 40) as f64 / f64::from(1 << 23) - 1.0;
        match (is_vector, is_scale) {
            (true, true) => (1.0 + 0.1 * u) as f32,
            (true, false) => (0.1 * u) as f32,
            (false, _) => (spread * u) as f32,
        }
    });
    Tensor::from_slice(&values.collect::<Vec<f32>>()).view(shape)
}
