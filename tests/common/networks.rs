//! Networks for finishing that tests write: all their numbers are 0.

use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};

/// Writes a compact network for ×4 whose numbers are all 0: it gives the nearest pixels. Makes its folder.
pub fn write_upscaler(path: &Path) {
    let layers: [(&str, &[usize]); 8] = [
        ("body.0.weight", &[4, 3, 3, 3]),
        ("body.0.bias", &[4]),
        ("body.1.weight", &[4]),
        ("body.2.weight", &[4, 4, 3, 3]),
        ("body.2.bias", &[4]),
        ("body.3.weight", &[4]),
        ("body.4.weight", &[48, 4, 3, 3]),
        ("body.4.bias", &[48]),
    ];
    write_zeros(
        path,
        layers.map(|(name, shape)| (name.to_owned(), shape.to_vec())),
    );
}

/// Writes RIFE 4.6 with blocks of two channels: it moves nothing and blends both frames by halves. Makes its folder.
pub fn write_interpolator(path: &Path) {
    let mut tensors: Vec<(String, Vec<usize>)> = Vec::new();
    let mut conv = |name: String, shape: [usize; 4], bias: usize| {
        tensors.push((format!("{name}.weight"), shape.to_vec()));
        tensors.push((format!("{name}.bias"), vec![bias]));
    };
    for block in 0..4 {
        let inputs = if block == 0 { 7 } else { 12 };
        conv(format!("block{block}.conv0.0.0"), [1, inputs, 3, 3], 1);
        conv(format!("block{block}.conv0.1.0"), [2, 1, 3, 3], 2);
        for number in 0..8 {
            let name = format!("block{block}.convblock.{number}.conv");
            conv(name, [2, 2, 3, 3], 2);
        }
        conv(format!("block{block}.lastconv.0"), [2, 24, 4, 4], 24);
    }
    for (block, number) in (0..4).flat_map(|block| (0..8).map(move |number| (block, number))) {
        let name = format!("block{block}.convblock.{number}.beta");
        tensors.push((name, vec![1, 2, 1, 1]));
    }
    write_zeros(path, tensors);
}

pub fn write_zeros(path: &Path, tensors: impl IntoIterator<Item = (String, Vec<usize>)>) {
    let zeros = vec![0; 1 << 20];
    let tensors = tensors.into_iter().map(|(name, shape)| {
        let bytes = 4 * shape.iter().product::<usize>();
        let view = TensorView::new(Dtype::F32, shape, &zeros[..bytes]);
        (name, view.expect("the bytes are as many as the shape says"))
    });
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    safetensors::serialize_to_file(tensors, None, path).expect("it can be written");
}
