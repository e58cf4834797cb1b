//! Links that "Anything Everywhere" nodes make on a canvas, to inputs without a link: by a list that newer files hold,
//! else by type and side.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conditioning::named_side;
use super::nodes::{Id, MAX_NODES, NodeLink, has_word, id_of};
use super::tables::BROADCASTERS;
use crate::restore::fields::JsonFields;

#[derive(Default)]
pub(super) struct BroadcastLinks {
    /// By node and number of the input.
    listed: BTreeMap<(Id, u64), NodeLink>,
    /// By type, with the names of the inputs; `None` from a node with rules.
    by_kind: BTreeMap<String, Vec<(String, Option<NodeLink>)>>,
}

impl BroadcastLinks {
    pub fn new(
        canvas: JsonFields<'_>,
        nodes: &[JsonFields<'_>],
        links: &BTreeMap<Id, NodeLink>,
    ) -> Self {
        let extra = canvas.object("extra");
        let listed = extra.map_or(&[][..], |extra| extra.list("ue_links"));
        let listed = listed.iter().take(MAX_NODES).filter_map(|link| {
            let link = JsonFields::from_value(link)?;
            let slot = |name| link.get(name)?.as_u64();
            let to = (id_of(link.get("downstream")?)?, slot("downstream_slot")?);
            let found = NodeLink {
                from: id_of(link.get("upstream")?)?,
                slot: slot("upstream_slot")?,
                kind: link.text("type").unwrap_or_default(),
            };
            Some((to, found))
        });
        let mut broadcasts = Self {
            listed: listed.collect(),
            ..Self::default()
        };
        let runs = |node: JsonFields<'_>| !matches!(node.number("mode"), Some(2.0 | 4.0));
        let nodes = nodes.iter().take(MAX_NODES);
        for node in nodes.filter(|node| is_broadcaster(**node) && runs(**node)) {
            for input in node
                .list("inputs")
                .iter()
                .filter_map(JsonFields::from_value)
            {
                let link = input.get("link").and_then(id_of);
                let Some(link) = link.and_then(|id| links.get(&id)) else {
                    continue;
                };
                let name = input.text("label, name").unwrap_or_default();
                let link = Some(link.clone()).filter(|_| broadcasts.reads(*node));
                let kind = input.text("type").filter(|kind| kind != "*");
                let kind = kind.or_else(|| Some(link.as_ref()?.kind.clone()));
                let all = broadcasts.by_kind.entry(kind.unwrap_or_default());
                all.or_default().push((name, link));
            }
        }
        broadcasts
    }

    /// Returns whether it is known where a node's inputs go.
    pub fn reads(&self, node: JsonFields<'_>) -> bool {
        let rules = node
            .object("properties")
            .and_then(|it| it.object("ue_properties"));
        let mut rules = rules.into_iter().flat_map(|rules| rules.0);
        let is_rule = |name: &str| name.ends_with("_regex") || name.ends_with("_restricted");
        let acts = |value: &Value| !(value.is_null() || value == 0 || value == "" || value == ".*");
        let mut texts = node.list("widgets_values").iter();
        let has_rules = rules.any(|(name, value)| is_rule(name) && acts(value))
            || texts.any(|it| it.is_number() || acts(it));
        let class = node.text("type").unwrap_or_default();
        let is_listed = !self.listed.is_empty() && !class.contains("Global");
        is_listed || !has_rules
    }

    /// Link to an input that has none.
    pub fn find(&self, node: &str, slot: u64, input: JsonFields<'_>) -> Option<NodeLink> {
        if !self.listed.is_empty() {
            return self.listed.get(&(node.to_owned(), slot)).cloned();
        }
        if input.object("widget").is_some() {
            return None;
        }
        let all = self.by_kind.get(&input.text("type")?)?;
        let wanted = side(&input.text("name")?);
        let mut fitting = all.iter().filter(|(name, _)| {
            let own = side(name);
            own == wanted || (own.is_none() && all.len() == 1)
        });
        let link = fitting.next()?.1.clone();
        link.filter(|_| fitting.next().is_none() && all.iter().all(|(_, link)| link.is_some()))
    }
}

/// Returns whether a node gives its inputs to nodes that it is not linked to.
pub(super) fn is_broadcaster(node: JsonFields<'_>) -> bool {
    let class = node.text("type").unwrap_or_default();
    has_word(&class.to_lowercase(), BROADCASTERS)
}

/// Side of a prompt by the name of an input: `+ve`, `positive`, `-ve`.
fn side(name: &str) -> Option<&'static str> {
    match name.get(..1) {
        Some("+") => Some("positive"),
        Some("-") => Some("negative"),
        _ => named_side(name),
    }
}
