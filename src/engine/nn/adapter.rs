//! LoRA updates computed next to a matrix product: the matrix itself stays as it is stored.
//!
//! Updates of one layer become one thin product down, and one up for each range of rows. Those that are not low-rank
//! keep their form. Reads no files.
//!
//! Shapes: `N` rows of input, `in` and `out` the sides of the layer.

use tch::{Kind, Tensor};

use crate::weights::{LayerDelta, LayerUpdate};

pub(super) struct LoraAdapter {
    /// All of low rank, one below the other: `(R, in)`
    down: Option<Tensor>,
    ups: Vec<UpFactor>,
    others: Vec<DenseDelta>,
    /// Factor of the layer's product, `(out)` in f32: DoRA rescales the norm of each row.
    pub(super) row_scale: Option<Tensor>,
    /// `(out)`
    pub(super) bias: Option<Tensor>,
}

impl LoraAdapter {
    /// All that stays on the device for it.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let ups = self.ups.iter().map(|it| &it.up);
        let others = self.others.iter().flat_map(|it| match &it.delta {
            LayerDelta::LowRank { up, down } => vec![up, down],
            LayerDelta::Hadamard { w1, w2 } => w1.iter().chain(w2).collect(),
            LayerDelta::Kronecker { w1, w2 } => vec![w1, w2],
            LayerDelta::Whole(all) => vec![all],
        });
        let own = [&self.down, &self.row_scale, &self.bias];
        own.into_iter().flatten().chain(ups).chain(others)
    }
}

struct UpFactor {
    /// First and number, of the outputs.
    rows: (i64, i64),
    /// Ranks: of the first and the second factor.
    ranks: (i64, i64),
    /// `(rows, ranks)`
    up: Tensor,
}

/// A change that is no product of two thin matrices.
struct DenseDelta {
    rows: (i64, i64),
    delta: LayerDelta,
}

/// Remainder of an adapter that is applied to the layer itself.
pub(super) struct AdapterRemainder {
    /// Added to the bias, `(out)` in f32.
    pub(super) bias: Option<Tensor>,
    /// `None` where only the bias changes.
    pub(super) adapter: Option<LoraAdapter>,
}

/// Updates of one layer while they are collected.
struct LoraAccumulator<'a> {
    out_features: i64,
    /// The layer's own rows, first and number, in f32.
    base: &'a dyn Fn(i64, i64) -> Tensor,
    /// Rows, up and down.
    low_ranks: Vec<((i64, i64), Tensor, Tensor)>,
    others: Vec<((i64, i64), LayerDelta)>,
    row_scale: Option<Tensor>,
    bias: Option<Tensor>,
}

impl LoraAccumulator<'_> {
    fn add(&mut self, update: LayerUpdate, in_features: i64) {
        let update = unswapped(update);
        let (rows, strength) = (update.rows, update.strength);
        if let Some(more) = update.bias {
            self.bias = Some(summed(
                self.bias.take(),
                self.out_features,
                0.0,
                rows,
                &more,
            ));
        }
        let Some(delta) = update.delta else {
            return;
        };
        let delta = match update.dora_scale {
            None => with_rows(delta, |xs| xs * strength),
            Some(norms) => {
                let own = (self.base)(rows.0, rows.1);
                let (delta, scale) = decomposed(delta, &norms, &own, strength);
                if let Some(more) = scale {
                    let scale = self.row_scale.take();
                    self.row_scale = Some(summed(scale, self.out_features, 1.0, rows, &more));
                }
                delta
            }
        };
        match low_rank(delta, [rows.1, in_features]) {
            Ok((up, down)) => self.low_ranks.push((rows, up, down)),
            Err(delta) => self.others.push((rows, delta)),
        }
    }
}

/// `more` in its rows of `sum`, which begins with one number everywhere: `(out_features)` in f32
fn summed(
    sum: Option<Tensor>,
    out_features: i64,
    first: f64,
    rows: (i64, i64),
    more: &Tensor,
) -> Tensor {
    let begin = || Tensor::full([out_features], first, (Kind::Float, more.device()));
    let sum = sum.unwrap_or_else(begin);
    let mut part = sum.narrow(0, rows.0, rows.1);
    part += more;
    sum
}

impl LoraAdapter {
    /// `base`: the layer's own rows, first and number, in f32; `kind`: what is computed with.
    pub(super) fn gather(
        updates: Vec<LayerUpdate>,
        [out_features, in_features]: [i64; 2],
        kind: Kind,
        base: &dyn Fn(i64, i64) -> Tensor,
    ) -> AdapterRemainder {
        let mut gathered = LoraAccumulator {
            out_features,
            base,
            low_ranks: Vec::new(),
            others: Vec::new(),
            row_scale: None,
            bias: None,
        };
        for update in updates {
            gathered.add(update, in_features);
        }
        let (down, ups) = joined(gathered.low_ranks, kind);
        let others = gathered.others.into_iter().map(|(rows, delta)| DenseDelta {
            rows,
            delta: as_kind(delta, kind),
        });
        let adapter = Self {
            down,
            ups,
            others: others.collect(),
            row_scale: gathered.row_scale,
            bias: None,
        };
        AdapterRemainder {
            bias: gathered.bias,
            adapter: adapter.changes_products().then_some(adapter),
        }
    }

    fn changes_products(&self) -> bool {
        self.down.is_some() || !self.others.is_empty() || self.row_scale.is_some()
    }

    /// `matrix`, `(out, in)` in f32, with the updates in it.
    pub(super) fn merged(&self, matrix: &Tensor) -> Tensor {
        let sum = match &self.row_scale {
            Some(scale) => matrix * scale.unsqueeze(1),
            None => matrix.copy(),
        };
        let part = |rows: (i64, i64)| sum.narrow(0, rows.0, rows.1);
        if let Some(down) = &self.down {
            for UpFactor { rows, ranks, up } in &self.ups {
                drop(part(*rows).addmm_(up, &down.narrow(0, ranks.0, ranks.1)));
            }
        }
        for DenseDelta { rows, delta } in &self.others {
            drop(part(*rows).g_add_(&dense(delta)));
        }
        sum
    }

    /// `xs`: `(N, in)`, `out`: the layer's own product, `(N, out)`, its rows at any one distance; changed in place.
    pub(super) fn add_to(&self, xs: &Tensor, out: &Tensor) {
        let mut out = out.shallow_clone();
        if let Some(scale) = &self.row_scale {
            out *= scale;
        }
        if let Some(down) = &self.down {
            let inner = xs.matmul(&down.tr()); // (N, R)
            for UpFactor { rows, ranks, up } in &self.ups {
                let inner = inner.narrow(1, ranks.0, ranks.1);
                let mut part = out.narrow(1, rows.0, rows.1);
                drop(part.addmm_(&inner, &up.tr()));
            }
        }
        for DenseDelta { rows, delta } in &self.others {
            add_other(delta, xs, &out.narrow(1, rows.0, rows.1));
        }
        if let Some(bias) = &self.bias {
            out += bias;
        }
    }
}

fn add_other(delta: &LayerDelta, xs: &Tensor, out: &Tensor) {
    let mut out = out.shallow_clone();
    match delta {
        LayerDelta::Whole(delta) => drop(out.addmm_(xs, &delta.tr())),
        // Made anew for each product: it is as large as the layer, its parts are not.
        LayerDelta::Hadamard { w1, w2 } => {
            let delta = w1[0].matmul(&w1[1]) * w2[0].matmul(&w2[1]);
            drop(out.addmm_(xs, &delta.tr()));
        }
        LayerDelta::Kronecker { w1, w2 } => out += kronecker_product(w1, w2, xs),
        LayerDelta::LowRank { up, down } => drop(out.addmm_(&xs.matmul(&down.tr()), &up.tr())),
    }
}

/// Product of `xs`, `(N, in)`, with `kron(w1, w2)`, which is never built.
fn kronecker_product(w1: &Tensor, w2: &Tensor, xs: &Tensor) -> Tensor {
    let ((a, b), (c, d)) = (sides(w1), sides(w2));
    // n (b d) -> n b d -> n b c -> n a c -> n (a c)
    let xs = xs.reshape([-1, b, d]).matmul(&w2.tr());
    w1.matmul(&xs).reshape([-1, a * c])
}

fn sides(matrix: &Tensor) -> (i64, i64) {
    (matrix.size()[0], matrix.size()[1])
}

/// All thin products as one down, and one up for each range of rows.
fn joined(
    mut parts: Vec<((i64, i64), Tensor, Tensor)>,
    kind: Kind,
) -> (Option<Tensor>, Vec<UpFactor>) {
    if parts.is_empty() {
        return (None, Vec::new());
    }
    // The order of a sum does not matter.
    parts.sort_by_key(|(rows, ..)| *rows);
    let downs: Vec<&Tensor> = parts.iter().map(|(_, _, down)| down).collect();
    let down = Tensor::cat(&downs, 0).to_kind(kind);
    let mut ups = Vec::new();
    let mut first = 0;
    for group in parts.chunk_by(|(one, ..), (other, ..)| one == other) {
        let same: Vec<&Tensor> = group.iter().map(|(_, up, _)| up).collect();
        let up = Tensor::cat(&same, 1).to_kind(kind);
        let ranks = up.size()[1];
        ups.push(UpFactor {
            rows: group[0].0,
            ranks: (first, ranks),
            up,
        });
        first += ranks;
    }
    (Some(down), ups)
}

/// A change as two thin matrices, up and down, where those are cheaper than the change itself.
fn low_rank(delta: LayerDelta, [rows, columns]: [i64; 2]) -> Result<(Tensor, Tensor), LayerDelta> {
    match delta {
        LayerDelta::LowRank { up, down } => Ok((up, down)),
        LayerDelta::Hadamard { w1, w2 } => {
            let rank = w1[1].size()[0] * w2[1].size()[0];
            if 2 * rank * (rows + columns) > rows * columns {
                return Err(LayerDelta::Hadamard { w1, w2 });
            }
            // Of all pairs of the ranks of the two: (a @ b) * (c @ d) is one product of them.
            let up = w1[0].unsqueeze(2) * w2[0].unsqueeze(1);
            let down = w1[1].unsqueeze(1) * w2[1].unsqueeze(0);
            Ok((up.flatten(1, 2), down.flatten(0, 1)))
        }
        other => Err(other),
    }
}

/// The change itself: `(out, in)`
fn dense(delta: &LayerDelta) -> Tensor {
    match delta {
        LayerDelta::LowRank { up, down } => up.matmul(down),
        LayerDelta::Hadamard { w1, w2 } => w1[0].matmul(&w1[1]) * w2[0].matmul(&w2[1]),
        LayerDelta::Kronecker { w1, w2 } => w1.kron(w2),
        LayerDelta::Whole(delta) => delta.shallow_clone(),
    }
}

/// Applies a mapping to `own`, the matrix with the selected rows, and keeps `other`.
fn mapped(
    delta: LayerDelta,
    own: impl Fn(Tensor) -> Tensor,
    other: impl Fn(Tensor) -> Tensor,
) -> LayerDelta {
    match delta {
        LayerDelta::LowRank { up, down } => {
            let (up, down) = (own(up), other(down));
            LayerDelta::LowRank { up, down }
        }
        LayerDelta::Hadamard { w1: [a, b], w2 } => {
            let (w1, w2) = ([own(a), other(b)], w2.map(other));
            LayerDelta::Hadamard { w1, w2 }
        }
        LayerDelta::Kronecker { w1, w2 } => {
            let (w1, w2) = (own(w1), other(w2));
            LayerDelta::Kronecker { w1, w2 }
        }
        LayerDelta::Whole(delta) => LayerDelta::Whole(own(delta)),
    }
}

fn with_rows(delta: LayerDelta, change: impl Fn(Tensor) -> Tensor) -> LayerDelta {
    mapped(delta, change, |xs| xs)
}

/// DoRA: rescales the rows (or columns) of `base + delta` to the trained norms. `strength` interpolates between the
/// layer without and with it. Returns the change added to the layer, and the change of its row scales.
fn decomposed(
    delta: LayerDelta,
    norms: &Tensor,
    base: &Tensor,
    strength: f64,
) -> (LayerDelta, Option<Tensor>) {
    let change = dense(&delta);
    let whole = base + &change;
    let norm_over = |dim: i64, keep: bool| {
        let norm = whole.norm_scalaropt_dim(2, [dim].as_slice(), keep);
        // A row of zeros stays one.
        norm.clamp_min(f64::from(f32::MIN_POSITIVE))
    };
    if norms.dim() == 2 {
        let gain = norms / norm_over(0, true);
        return (LayerDelta::Whole((whole * gain - base) * strength), None);
    }
    let gain = norms / norm_over(1, false);
    let rows = (&gain * strength).unsqueeze(1);
    let delta = match delta {
        LayerDelta::Kronecker { .. } | LayerDelta::Whole(_) => LayerDelta::Whole(change * rows),
        delta => with_rows(delta, |xs| xs * &rows),
    };
    (delta, Some((gain - 1.0) * strength))
}

/// The update with its rows as the layer has them.
fn unswapped(update: LayerUpdate) -> LayerUpdate {
    if !update.has_swapped_halves {
        return update;
    }
    let half = update.rows.1 / 2;
    let swap = |xs: Tensor| xs.roll([half], [0]);
    let delta = update.delta.map(|delta| match delta {
        LayerDelta::LowRank { up, down } => LayerDelta::LowRank { up: swap(up), down },
        other => LayerDelta::Whole(swap(dense(&other))),
    });
    LayerUpdate {
        delta,
        dora_scale: update.dora_scale.map(|scale| {
            let is_of_rows = scale.dim() == 1;
            if is_of_rows { swap(scale) } else { scale }
        }),
        bias: update.bias.map(swap),
        has_swapped_halves: false,
        ..update
    }
}

fn as_kind(delta: LayerDelta, kind: Kind) -> LayerDelta {
    let of = |xs: Tensor| xs.to_kind(kind);
    mapped(delta, of, of)
}
