//! Networks that tests write: the numbers of most are 0.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde::Deserialize;
use serde_json::{Value, json};

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

/// Writes the header of FLUX.1-dev-ControlNet-Union-Pro-2.0 with one block, and a hole in the place of its weights.
/// Makes its folder.
pub fn write_flux_control(path: &Path) {
    let known = include_str!("../fixtures/headers/flux.json");
    let known: Value = serde_json::from_str(known).expect("JSON");
    let tensors: Vec<(String, u32, Vec<u64>)> =
        Deserialize::deserialize(&known["controlnet union pro 2.0"]).expect("a list of tensors");
    let (mut header, mut at) = (json!({}), 0);
    for (name, _, shape) in tensors {
        let end = at + 2 * shape.iter().product::<u64>();
        header[name.replace("{N}", "0")] =
            json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, end]});
        at = end;
    }
    let header = header.to_string();
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    let mut file = File::create(path).expect("it can be made");
    file.write_all(&(header.len() as u64).to_le_bytes())
        .and_then(|()| file.write_all(header.as_bytes()))
        .and_then(|()| file.set_len(8 + header.len() as u64 + at))
        .expect("it can be written");
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

/// Writes a Depth Anything of four layers with some numbers in its tensors. Makes its folder.
pub fn write_depth_network(path: &Path) {
    let known = include_str!("../fixtures/depth/shapes.json");
    let known: Value = serde_json::from_str(known).expect("JSON");
    let shapes: BTreeMap<String, Vec<usize>> =
        Deserialize::deserialize(&known["transformers"]).expect("shapes");
    let tensors = shapes.into_iter().map(|(name, shape)| {
        let count: usize = shape.iter().product();
        let inputs = (count / shape[0]) as f32;
        let is_vector = count == *shape.iter().max().expect("an axis");
        let number = |at: usize| {
            let unit = ((at * 7919 + name.len() * 31) % 1009) as f32 / 504.5 - 1.0;
            match (is_vector, name.ends_with("weight")) {
                (true, true) => 1.0 + 0.1 * unit,
                (true, false) => 0.1 * unit,
                _ => unit * (3.0 / inputs).sqrt(),
            }
        };
        let bytes = (0..count).flat_map(|at| number(at).to_le_bytes());
        (name.clone(), shape, bytes.collect::<Vec<u8>>())
    });
    let tensors: Vec<_> = tensors.collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (name, view.expect("the bytes are as many as the shape says"))
    });
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    safetensors::serialize_to_file(views, None, path).expect("it can be written");
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
