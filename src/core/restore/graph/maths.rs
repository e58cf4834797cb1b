//! Numbers that maths nodes compute: an expression of Python's operators and a few functions over the node's inputs.

use serde_json::Value;

use super::ComfyNode;
use super::walk::GraphWalk;

/// Letters of an expression.
const MAX_LETTERS: usize = 500;
/// Brackets and signs within each other.
const MAX_DEPTH: u32 = 40;

impl<'a> GraphWalk<'a> {
    /// Result of a maths node at a slot; `None` for a node of another kind, and for what is not understood.
    pub fn computed_number(&self, node: &'a ComfyNode, slot: u64) -> Option<Value> {
        if node.has("Xi, Xf") {
            return self.slider(node, slot);
        }
        // Others may round in another way.
        if !node.is_called("mathexpression simplemath") {
            return None;
        }
        let text = self.name(node, "expression, value")?;
        let mut expression = MathsExpression {
            rest: Some(text.as_str()).filter(|text| text.len() <= MAX_LETTERS)?,
            variable: |name: &str| self.number(node, &format!("{name}, values.{name}")),
            depth: 0,
        };
        let result = expression.sum()?;
        let is_whole = match node.output(slot).map(|slot| slot.kind.as_str()) {
            Some("FLOAT") => false,
            Some("INT") => true,
            // ComfyUI's own node gives the whole number second.
            _ => (slot == 0) != node.is_called("comfymath"),
        };
        let is_read = expression.rest.trim().is_empty() && result.is_finite();
        is_read.then(|| {
            self.use_node(node);
            match is_whole {
                true if node.is_called("simplemath") => result.round_ties_even(),
                true => result.trunc(),
                false => result,
            }
            .into()
        })
    }

    /// Value of a slider of one or two numbers, each whole or not.
    fn slider(&self, node: &'a ComfyNode, slot: u64) -> Option<Value> {
        let axis = if slot == 0 { 'X' } else { 'Y' };
        let is_float = self
            .number(node, &format!("isfloat{axis}"))
            .is_some_and(|it| it != 0.0);
        self.value(node, &format!("{axis}{}", if is_float { 'f' } else { 'i' }))
    }
}

struct MathsExpression<'t, F> {
    rest: &'t str,
    /// Value of a variable.
    variable: F,
    depth: u32,
}

impl<F: Fn(&str) -> Option<f64>> MathsExpression<'_, F> {
    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        // `*` is no half of `**`.
        let is_half = sign.len() == 1 && rest.starts_with("**");
        let after = rest.strip_prefix(sign).filter(|_| !is_half);
        self.rest = after.unwrap_or(rest);
        after.is_some()
    }

    fn sum(&mut self) -> Option<f64> {
        self.depth += 1;
        let mut sum = self.product().filter(|_| self.depth < MAX_DEPTH)?;
        loop {
            if self.takes("+") {
                sum += self.product()?;
            } else if self.takes("-") {
                sum -= self.product()?;
            } else {
                self.depth -= 1;
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<f64> {
        let mut product = self.power()?;
        loop {
            if self.takes("//") {
                product = (product / self.power()?).floor();
            } else if self.takes("/") {
                product /= self.power()?;
            } else if self.takes("%") {
                let by = self.power()?;
                product -= by * (product / by).floor();
            } else if self.takes("*") {
                product *= self.power()?;
            } else {
                return Some(product);
            }
        }
    }

    fn power(&mut self) -> Option<f64> {
        if self.takes("-") {
            self.depth += 1;
            return self
                .power()
                .filter(|_| self.depth < MAX_DEPTH)
                .map(|it| -it);
        }
        let base = self.term()?;
        if self.takes("**") {
            return self.power().map(|power| base.powf(power));
        }
        Some(base)
    }

    fn term(&mut self) -> Option<f64> {
        if self.takes("(") {
            let inner = self.sum()?;
            return self.takes(")").then_some(inner);
        }
        let is_of_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.');
        let end = self.rest.find(|it: char| !is_of_word(it));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if word.starts_with(|it: char| it.is_ascii_digit() || it == '.') {
            return word.parse().ok();
        }
        if !self.takes("(") {
            return (self.variable)(word);
        }
        let mut inputs = vec![self.sum()?];
        while self.takes(",") {
            inputs.push(self.sum()?);
        }
        if !self.takes(")") {
            return None;
        }
        Some(match (word, &inputs[..]) {
            ("min", _) => inputs.into_iter().fold(f64::INFINITY, f64::min),
            ("max", _) => inputs.into_iter().fold(f64::NEG_INFINITY, f64::max),
            ("int", [it]) => it.trunc(),
            ("float", [it]) => *it,
            ("round", [it]) => it.round_ties_even(),
            ("floor", [it]) => it.floor(),
            ("ceil", [it]) => it.ceil(),
            ("abs", [it]) => it.abs(),
            ("sqrt", [it]) => it.sqrt(),
            _ => return None,
        })
    }
}
