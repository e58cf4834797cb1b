//! Linear layer with an optional bias. The matrix keeps its storage format and is dequantized for each product.
//!
//! LoRA updates come from the same [`Weights`]; networks do not handle them.

use tch::{Device, Kind, Tensor};

use super::adapter::{AdapterRemainder, LoraAdapter};
use super::{gelu_tanh, silu_times};
use crate::weights::{LayerUpdate, StoredMatrix, Weights, WeightsError};

pub struct Linear {
    /// Rows of the matrix, one part below the other; nearly always one part.
    parts: Vec<LinearPart>,
    /// LoRA updates, if any.
    adapter: Option<LoraAdapter>,
    /// Compute dtype, whatever the storage.
    kind: Kind,
}

struct LinearPart {
    weight: StoredMatrix,
    bias: Option<Tensor>,
}

impl Linear {
    pub fn new(in_features: i64, out_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        Self::biased(true, in_features, out_features, w)
    }

    pub fn without_bias(
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Self::biased(false, in_features, out_features, w)
    }

    /// A layer that has a bias if `has_bias`.
    pub fn biased(
        has_bias: bool,
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Self::as_stored(has_bias, in_features, out_features, w)?.adapted(in_features, w)
    }

    fn as_stored(
        has_bias: bool,
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let weight = w.matrix("weight", [out_features, in_features])?;
        let bias = has_bias.then(|| w.tensor("bias", &[out_features]));
        Ok(Self::from_parts(weight, bias.transpose()?, w.kind()))
    }

    /// A single row without bias, which some converters to GGUF leave without its axis.
    pub fn one_row(in_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        let squeezed = w.shape_of("weight");
        if squeezed.is_none_or(|shape| shape != [in_features]) {
            return Self::without_bias(in_features, 1, w);
        }
        let weight = w.tensor("weight", &[in_features])?.view([1, in_features]);
        Self::from_parts(StoredMatrix::Plain(weight), None, w.kind()).adapted(in_features, w)
    }

    /// Several products of one input with concatenated results: `parts` are their names and sizes.
    ///
    /// Files store them as one matrix or as separate matrices below `w`. On a GPU equal storage formats are
    /// concatenated into one matrix: one large product is faster than several. On the CPU they stay in the mapped file,
    /// which costs no memory.
    pub fn fused(
        has_bias: bool,
        in_features: i64,
        parts: &[(&str, i64)],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let read = |size, w: &Weights| Self::as_stored(has_bias, in_features, size, w);
        if w.has("weight") || parts.is_empty() {
            let out_features = parts.iter().map(|(_, size)| size).sum();
            return read(out_features, w)?.adapted(in_features, w);
        }
        let mut all = Vec::with_capacity(parts.len());
        // LoRAs may change all rows together, or those of one part.
        let (mut updates, mut first) = (w.layer_updates()?, 0);
        for (name, size) in parts {
            let w = &(w / name);
            all.append(&mut read(*size, w)?.parts);
            updates.extend(w.layer_updates()?.into_iter().map(|update| LayerUpdate {
                rows: (update.rows.0 + first, update.rows.1),
                ..update
            }));
            first += size;
        }
        let weights: Vec<&StoredMatrix> = all.iter().map(|part| &part.weight).collect();
        if w.device() != Device::Cpu
            && let Some(weight) = StoredMatrix::stack(&weights)
        {
            let biases: Option<Vec<&Tensor>> = all.iter().map(|part| part.bias.as_ref()).collect();
            let bias = biases.map(|biases| Tensor::cat(&biases, 0));
            let joined = Self::from_parts(weight, bias, w.kind());
            return Ok(joined.updated(updates, in_features, w));
        }
        let apart = Self {
            parts: all,
            adapter: None,
            kind: w.kind(),
        };
        Ok(apart.updated(updates, in_features, w))
    }

    /// A convolution whose kernel is also its stride: `kernel` lists the sizes, inputs are flattened patches.
    pub fn from_patch_conv(
        in_channels: i64,
        out_channels: i64,
        kernel: &[i64],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let mut shape = vec![out_channels, in_channels];
        shape.extend_from_slice(kernel);
        // Too small to be worth a narrow storage.
        let weight = StoredMatrix::Plain(w.tensor("weight", &shape)?.view([out_channels, -1]));
        let bias = w.tensor("bias", &[out_channels])?;
        let in_features = in_channels * kernel.iter().product::<i64>();
        Self::from_parts(weight, Some(bias), w.kind()).adapted(in_features, w)
    }

    /// With what the LoRAs at this position add.
    fn adapted(self, in_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        Ok(self.updated(w.layer_updates()?, in_features, w))
    }

    fn updated(mut self, updates: Vec<LayerUpdate>, in_features: i64, w: &Weights) -> Self {
        if updates.is_empty() {
            return self;
        }
        let sides = [self.out_features(), in_features];
        let base = |first, count| self.rows(first, count);
        let AdapterRemainder { bias, adapter } =
            LoraAdapter::gather(updates, sides, self.kind, &base);
        if let Some(bias) = bias {
            self.add_to_biases(&bias);
        }
        self.adapter = adapter;
        if let Some(adapter) = &mut self.adapter
            && adapter.row_scale.is_some()
        {
            // The bias may be added only to the scaled rows.
            let (kind, device) = (self.kind, w.device());
            let take = |part: &mut LinearPart| {
                let zeros = || Tensor::zeros([part.weight.rows()], (kind, device));
                part.bias.take().unwrap_or_else(zeros)
            };
            let biases: Vec<Tensor> = self.parts.iter_mut().map(take).collect();
            adapter.bias = Some(Tensor::cat(&biases, 0));
        }
        if let Some(adapter) = &self.adapter {
            adapter.tensors().for_each(|tensor| w.note_fixed(tensor));
        }
        self
    }

    /// `more`: `(out_features)` in f32
    fn add_to_biases(&mut self, more: &Tensor) {
        let mut start = 0;
        for part in &mut self.parts {
            let features = part.weight.rows();
            let more = more.narrow(0, start, features);
            // Never in place: what is stored may be a file.
            let sum = match &part.bias {
                Some(own) => own.to_kind(Kind::Float) + more,
                None => more,
            };
            part.bias = Some(sum.to_kind(self.kind));
            start += features;
        }
    }

    /// Some of the matrix's rows, `(count, in_features)` in f32.
    fn rows(&self, first: i64, count: i64) -> Tensor {
        let wide = |part: &LinearPart| part.weight.expand_early(Kind::Float);
        if let [only] = &self.parts[..] {
            return wide(only).narrow(0, first, count);
        }
        let parts: Vec<Tensor> = self.parts.iter().map(wide).collect();
        Tensor::cat(&parts, 0).narrow(0, first, count)
    }

    fn from_parts(weight: StoredMatrix, bias: Option<Tensor>, kind: Kind) -> Self {
        Self {
            parts: vec![LinearPart { weight, bias }],
            adapter: None,
            kind,
        }
    }

    /// The type of the numbers that go in and come out.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn out_features(&self) -> i64 {
        self.parts.iter().map(|part| part.weight.rows()).sum()
    }

    /// `xs`: `(.., in_features)` -> `(.., out_features)`
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        if let [only] = &self.parts[..]
            && xs.is_contiguous()
            && only.is_one_piece(as_rows(xs).size()[0], self.kind)
        {
            let out = xs.linear(&only.weight.expand(self.kind), only.bias.as_ref());
            if let Some(adapter) = &self.adapter {
                adapter.add_to(&as_rows(xs), &as_rows(&out));
            }
            return out;
        }
        let mut size = xs.size();
        size.pop();
        size.push(self.out_features());
        let out = Tensor::empty(&size, (xs.kind(), xs.device()));
        self.forward_into(xs, &out);
        out
    }

    /// Like [`Self::forward`], written to `out`. Rows of both may have any stride.
    pub fn forward_into(&self, xs: &Tensor, out: &Tensor) {
        let (xs, out) = (as_rows(xs), as_rows(out));
        let mut start = 0;
        for part in &self.parts {
            let features = part.weight.rows();
            part.multiply(&xs, &out.narrow(1, start, features), self.kind);
            start += features;
        }
        if let Some(adapter) = &self.adapter {
            adapter.add_to(&xs, &out);
        }
    }
}

impl LinearPart {
    fn is_one_piece(&self, others: i64, kind: Kind) -> bool {
        self.weight.rows_per_piece(others, kind) >= self.weight.rows()
    }

    /// `xs`: `(N, in_features)`, `out`: `(N, rows)`, both `kind`
    fn multiply(&self, xs: &Tensor, out: &Tensor, kind: Kind) {
        let rows = self.weight.rows();
        let step = self.weight.rows_per_piece(xs.size()[0], kind);
        let mut first = 0;
        while first < rows {
            let count = step.min(rows - first);
            let out = out.narrow(1, first, count);
            let weight = self.weight.expand_rows(first, count, kind);
            drop(match &self.bias {
                Some(bias) => bias
                    .narrow(0, first, count)
                    .addmm_out(&out, xs, &weight.tr()),
                None => xs.mm_out(&out, &weight.tr()),
            });
            first += count;
        }
    }
}

/// `(.., features)` -> `(N, features)`, a view
fn as_rows(xs: &Tensor) -> Tensor {
    xs.view([-1, xs.size().last().copied().unwrap_or(1)])
}

/// Two linear layers with an activation between them.
pub struct Mlp {
    first: Linear,
    second: Linear,
}

impl Mlp {
    /// `names`: of the layers in `w`
    pub fn new(sizes: [i64; 3], names: [&str; 2], w: &Weights) -> Result<Self, WeightsError> {
        Self::biased(true, sizes, names, w)
    }

    /// Layers that have biases if `has_bias`.
    pub fn biased(
        has_bias: bool,
        [input, inner, output]: [i64; 3],
        names: [&str; 2],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            first: Linear::biased(has_bias, input, inner, &(w / names[0]))?,
            second: Linear::biased(has_bias, inner, output, &(w / names[1]))?,
        })
    }

    /// `(.., input)` -> `(.., output)`
    pub fn forward(&self, xs: &Tensor, activation: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        self.second.forward(&activation(self.first.forward(xs)))
    }
}

pub struct SwiGlu {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl SwiGlu {
    /// `names`: of the gate, the values and the way back, `(dim)` to `(inner)` twice and `(inner)` to `(dim)`.
    pub fn new(
        [gate, up, down]: [&str; 3],
        dim: i64,
        inner: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            gate: Linear::without_bias(dim, inner, &(w / gate))?,
            up: Linear::without_bias(dim, inner, &(w / up))?,
            down: Linear::without_bias(inner, dim, &(w / down))?,
        })
    }

    /// `(B, L, dim)` -> the same
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        self.down(&self.hidden(xs))
    }

    /// Like [`Self::forward`], with the tanh form of GELU in place of SiLU (GeGLU).
    pub fn forward_gelu(&self, xs: &Tensor) -> Tensor {
        let mut hidden = gelu_tanh(self.gate.forward(xs));
        self.down(&hidden.g_mul_(&self.up.forward(xs)))
    }

    /// The first half: `(B, L, dim)` -> `(B, L, inner)`
    pub fn hidden(&self, xs: &Tensor) -> Tensor {
        silu_times(self.gate.forward(xs), &self.up.forward(xs))
    }

    /// The second half: `(B, L, inner)` -> `(B, L, dim)`
    pub fn down(&self, hidden: &Tensor) -> Tensor {
        self.down.forward(hidden)
    }
}
