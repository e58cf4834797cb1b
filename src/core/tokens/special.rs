//! Special tokens of a tokenizer, collected as `transformers` does from the files next to it:
//! `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json` and the tokenizer's list.
//!
//! Later entries of a token replace earlier ones, including flags. Adds nothing to a tokenizer.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/tokenization_utils_base.py>.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::files::read_json;
use crate::model::CatalogError;

/// In the order in which they are added.
const ATTRIBUTES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// A token as the files have it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum SpecialToken {
    Plain(String),
    Added(TokenFlags),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct TokenFlags {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    normalized: Option<bool>,
    #[serde(default)]
    special: bool,
}

impl SpecialToken {
    fn text(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Added(flags) => &flags.content,
        }
    }

    /// Token to add; `is_named` for those with a role.
    fn added(&self, is_named: bool) -> AddedToken {
        match self {
            Self::Plain(text) => AddedToken::from(text.clone(), true),
            Self::Added(flags) => AddedToken {
                content: flags.content.clone(),
                single_word: flags.single_word,
                lstrip: flags.lstrip,
                rstrip: flags.rstrip,
                normalized: flags.normalized.unwrap_or(!flags.special),
                special: flags.special || is_named,
            },
        }
    }
}

/// Content of the files next to a tokenizer.
#[derive(Default)]
pub(super) struct SpecialTokens {
    /// Empty where the files do not say it.
    pub(super) class: String,
    /// Number of `<extra_id_…>` tokens of a T5.
    pub(super) extra_ids: Option<u32>,
    named: BTreeMap<&'static str, SpecialToken>,
    added: BTreeMap<u64, SpecialToken>,
}

impl SpecialTokens {
    /// Reads the files of a tokenizer's folder; `own` is the list of `tokenizer.json`.
    pub(super) fn read(folder: &Path, own: &Value) -> Result<Self, CatalogError> {
        let path = folder.join("tokenizer_config.json");
        let config = optional(&path)?;
        let mut special = Self::default();
        let say = |reason| CatalogError::config(reason, path);
        special.take_config(&config).map_err(say)?;
        if config.contains_key("added_tokens_decoder") {
            special.settle();
            return Ok(special);
        }
        let path = folder.join("special_tokens_map.json");
        let map = optional(&path)?;
        let say = |reason| CatalogError::config(reason, path);
        special.take_named(&map, true).map_err(say)?;
        let path = folder.join("added_tokens.json");
        let legacy = optional(&path)?;
        for (content, id) in legacy {
            let Some(id) = id.as_u64() else {
                let reason = format!("its token '{content}' has no number");
                return Err(CatalogError::config(reason, path));
            };
            let is_special = special.named.values().any(|token| token.text() == content);
            special.added.insert(id, legacy_token(content, is_special));
        }
        for token in own.as_array().into_iter().flatten() {
            // A list that makes no sense fails with the tokenizer.
            if let (Some(id), Ok(token)) = (token["id"].as_u64(), SpecialToken::deserialize(token))
            {
                special.added.insert(id, token);
            }
        }
        special.settle();
        Ok(special)
    }

    /// The token with a role such as `eos_token`.
    pub(super) fn named<'a>(&'a self, role: &str, default: &'a str) -> &'a str {
        self.named.get(role).map_or(default, SpecialToken::text)
    }

    /// Everything to add, in order: `defaults` are the roles that a class fills where the files do not, `extra`
    /// the tokens that it has besides.
    pub(super) fn additions(
        &self,
        defaults: &[(&'static str, &str)],
        extra: impl IntoIterator<Item = String>,
    ) -> Vec<AddedToken> {
        let mut named = self.named.clone();
        for (role, text) in defaults {
            named
                .entry(role)
                .or_insert_with(|| SpecialToken::Plain((*text).to_owned()));
        }
        let is_listed = |text: &str| self.added.values().any(|token| token.text() == text);
        let mut further: Vec<SpecialToken> = Vec::new();
        let in_order = ATTRIBUTES.iter().filter_map(|role| named.get(role));
        for token in in_order
            .cloned()
            .chain(extra.into_iter().map(SpecialToken::Plain))
        {
            if !is_listed(token.text()) && !further.contains(&token) {
                further.push(token);
            }
        }
        let has_role =
            |token: &SpecialToken| named.values().any(|other| other.text() == token.text());
        let all = self.added.values().chain(&further);
        all.map(|token| token.added(has_role(token))).collect()
    }

    fn take_config(&mut self, config: &Map<String, Value>) -> Result<(), String> {
        let class = config.get("tokenizer_class").and_then(Value::as_str);
        self.class = class.unwrap_or_default().to_owned();
        let extra_ids = config.get("extra_ids").and_then(Value::as_u64);
        self.extra_ids = extra_ids.and_then(|count| u32::try_from(count).ok());
        self.take_named(config, false)?;
        let listed = config
            .get("added_tokens_decoder")
            .and_then(Value::as_object);
        for (id, token) in listed.into_iter().flatten() {
            let wrong =
                |err: &dyn ToString| format!("its token {id} is wrong: {}", err.to_string());
            let number: u64 = id.parse().map_err(|err| wrong(&err))?;
            let token = SpecialToken::deserialize(token).map_err(|err| wrong(&err))?;
            self.added.insert(number, token);
        }
        Ok(())
    }

    fn take_named(&mut self, file: &Map<String, Value>, is_special: bool) -> Result<(), String> {
        for role in ATTRIBUTES {
            let Some(value) = file.get(role).filter(|value| !value.is_null()) else {
                continue;
            };
            let token = SpecialToken::deserialize(value);
            let mut token = token.map_err(|err| format!("its {role} is wrong: {err}"))?;
            if let SpecialToken::Added(flags) = &mut token {
                flags.special |= is_special;
            }
            self.named.insert(role, token);
        }
        Ok(())
    }

    /// A token of the list is what the list says, whatever its role says.
    fn settle(&mut self) {
        for token in self.named.values_mut() {
            let listed = self.added.values().rev();
            if let Some(listed) = listed.clone().find(|other| other.text() == token.text()) {
                *token = listed.clone();
            }
        }
    }
}

fn legacy_token(content: String, special: bool) -> SpecialToken {
    SpecialToken::Added(TokenFlags {
        content,
        normalized: Some(!special),
        special,
        ..TokenFlags::default()
    })
}

/// The object in a file that need not be there.
fn optional(path: &Path) -> Result<Map<String, Value>, CatalogError> {
    if path.exists() {
        read_json(path)
    } else {
        Ok(Map::new())
    }
}
