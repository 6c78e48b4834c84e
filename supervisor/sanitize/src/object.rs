//! A JSON object whose members keep their order and their exact text, except those that are set.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The members, as they came.
#[derive(Debug, Default)]
pub(crate) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// The parser's, where it is none.
    pub(crate) fn read(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// A member as it was written. Of several with one name it is the last, which is the one that counts.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// All members, in their order.
    #[cfg(feature = "testing")]
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// An object that is a member; an empty one where there is none, or null.
    ///
    /// # Errors
    ///
    /// The parser's, where it is something else.
    pub(crate) fn object(&self, name: &str) -> serde_json::Result<Self> {
        match self.get(name) {
            Some(raw) if raw.get() != "null" => Self::read(raw.get()),
            Some(_) | None => Ok(Self::default()),
        }
    }

    /// Sets a member where it stands, or at the end.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub(crate) fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        let value = to_raw_value(value)?;
        match self.0.iter_mut().rfind(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
        Ok(())
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_keeps_its_place_and_its_text() {
        let text = r#"{"z":1.50,"a":{"b" : [1e3, "\u0041"]},"big":12345678901234567890123,"z":2}"#;
        let mut object = Object::read(text).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        object.set("a", "x").unwrap();
        object.set("new", &true).unwrap();
        let text = r#"{"z":1.50,"a":"x","big":12345678901234567890123,"z":2,"new":true}"#;
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        assert_eq!(object.get("z").unwrap().get(), "2");
    }

    #[test]
    fn what_is_no_object_is_none() {
        assert!(Object::read("[]").is_err());
        let object = Object::read(r#"{"a":1,"b":null}"#).unwrap();
        assert!(object.object("a").is_err());
        assert!(object.object("b").unwrap().0.is_empty() && object.object("c").unwrap().0.is_empty());
    }
}
