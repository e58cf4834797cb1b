//! A network for upscaling that tests write.

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
    let zeros = vec![0; 1 << 16];
    let tensors = layers.map(|(name, shape)| {
        let bytes = 4 * shape.iter().product::<usize>();
        let view = TensorView::new(Dtype::F32, shape.to_vec(), &zeros[..bytes]);
        (name, view.expect("the bytes are as many as the shape says"))
    });
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    safetensors::serialize_to_file(tensors, None, path).expect("it can be written");
}
