//! Secrets that are known by the names of their variables, and texts without them. It reads names and values, and keeps the
//! values in memory alone.

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;

use fanin_protocol::limits::SECRET_BYTES_MIN;

/// What a variable's name holds whose value is a secret.
const NAMES: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// What stands in for a secret.
const MASK: &str = "***";

/// The secrets that are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mask {
    /// The longest first: one may be a part of another.
    secrets: Vec<String>,
}

impl Mask {
    /// Those in the environment of this program, as it was when this was called first.
    pub(crate) fn known() -> &'static Self {
        static KNOWN: OnceLock<Mask> = OnceLock::new();
        KNOWN.get_or_init(|| Self::of(env::vars_os()))
    }

    /// Those among these variables.
    fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut mask = Self::default();
        mask.add(variables.into_iter().filter_map(|(name, value)| {
            // A text that is shown is UTF-8, and so is a secret in it.
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }));
        mask
    }

    /// As [`Mask::of`], beside those that are known.
    pub(crate) fn add(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in variables {
            if !is_secret(&name) {
                continue;
            }
            // Of one with several lines a single one may be shown.
            for secret in std::iter::once(value.as_str()).chain(value.lines()) {
                if secret.len() >= SECRET_BYTES_MIN && !self.secrets.iter().any(|known| known == secret) {
                    self.secrets.push(secret.to_owned());
                }
            }
        }
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// The text without them.
    pub(crate) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), MASK));
            }
        }
        text
    }
}

/// True for the name of a variable whose value nobody shall read.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_named_like_secrets_are_hidden_wherever_they_stand() {
        let variables = [
            ("API_KEY", "abc123"),
            ("github_token", "abc123-and-more"),
            ("DB_PASSWORD", "short"),
            ("PATH", "/usr/bin"),
            ("CLIENT_SECRET", "s3cr3t!"),
        ];
        let mask = Mask::of(variables.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(mask.hide("a abc123-and-more b abc123 c s3cr3t!s3cr3t!"), "a *** b *** c ******");
        // What is that short stands in half of all texts.
        assert_eq!(mask.hide("/usr/bin short"), "/usr/bin short");
        assert!(matches!(mask.hide("nothing here"), Cow::Borrowed(_)));
    }
}
