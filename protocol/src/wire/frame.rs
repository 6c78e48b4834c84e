//! Frames as bytes: pure, and safe for bytes of anybody. A length is looked at before anything is made room for.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{FRAME_BYTES_MAX, NESTING_MAX};

/// Bytes of a frame's length.
const LENGTH: usize = 4;

/// Why bytes are no frame, or a message is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It says that it is longer than any frame may be.
    #[error("a frame of {len} bytes; at most {FRAME_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// What is in it is no message, or not one that this program knows.
    #[error("a frame that is no message: {0}")]
    Body(#[source] rmp_serde::decode::Error),
    /// A message that cannot be written.
    #[error("a message cannot be encoded: {0}")]
    Encode(#[source] rmp_serde::encode::Error),
}

impl FrameError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "frame_too_long",
            Self::Body(_) => "frame_body",
            Self::Encode(_) => "frame_encode",
        }
    }
}

/// Takes the first frame from the bytes that have come, without its length; `None` where it is not whole yet, and nothing is
/// taken then.
///
/// # Errors
///
/// [`FrameError::TooLong`] as soon as the length is there: what follows has no beginning any more.
pub fn take(come: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
    let Some(length) = come.first_chunk::<LENGTH>() else { return Ok(None) };
    let len = u32::from_be_bytes(*length) as usize;
    if len > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong { len });
    }
    if come.len() - LENGTH < len {
        return Ok(None);
    }
    come.advance(LENGTH);
    Ok(Some(come.split_to(len).freeze()))
}

/// Reads what is in a frame. Nesting is bounded, so that hostile bytes end in an error and not in an exhausted stack.
///
/// # Errors
///
/// [`FrameError::Body`].
pub fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, FrameError> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(frame);
    reader.set_max_depth(NESTING_MAX);
    T::deserialize(&mut reader).map_err(FrameError::Body)
}

/// Appends a message as a frame.
///
/// # Errors
///
/// [`FrameError::TooLong`] and [`FrameError::Encode`]; `out` is as it was then.
pub fn encode(message: &impl Serialize, out: &mut BytesMut) -> Result<(), FrameError> {
    let start = out.len();
    out.put_u32(0);
    let written = rmp_serde::encode::write_named(&mut (&mut *out).writer(), message);
    let len = out.len() - start - LENGTH;
    let checked = match written {
        Err(error) => Err(FrameError::Encode(error)),
        Ok(()) => length(len),
    };
    match checked {
        Ok(length) => {
            out.iter_mut().skip(start).zip(length).for_each(|(byte, of)| *byte = of);
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// The start of the frame of an event, up to its envelope of `len` bytes, which goes behind it as it is: it was encoded once
/// for all who want it. Together they are [`Told::Item`](super::Told::Item) with [`Item::Event`](super::Item::Event).
///
/// # Errors
///
/// [`FrameError::TooLong`].
pub fn item_head(id: u64, len: usize) -> Result<[u8; EVENT_HEAD], FrameError> {
    let length = length(EVENT_HEAD - LENGTH + len)?;
    let id = id.to_be_bytes();
    // {"item": {"id": <u64>, "item": {"event": <envelope>}}}
    let parts: [&[u8]; 5] = [&length, b"\x81\xa4item\x82\xa2id\xcf", &id, b"\xa4item", b"\x81\xa5event"];
    let mut head = [0; EVENT_HEAD];
    head.iter_mut().zip(parts.into_iter().flatten()).for_each(|(byte, of)| *byte = *of);
    Ok(head)
}

/// Bytes before the envelope of an event.
const EVENT_HEAD: usize = LENGTH + 11 + 8 + 5 + 7;

fn length(len: usize) -> Result<[u8; LENGTH], FrameError> {
    match u32::try_from(len) {
        Ok(length) if len <= FRAME_BYTES_MAX => Ok(length.to_be_bytes()),
        Ok(_) | Err(_) => Err(FrameError::TooLong { len }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::About;
    use crate::record::SessionOpened;
    use crate::wire::{Asked, Call, Item, Request, Told};
    use crate::{Entry, Envelope, Seq, SessionId};

    fn framed(message: &impl Serialize) -> BytesMut {
        let mut out = BytesMut::new();
        encode(message, &mut out).unwrap();
        out
    }

    #[test]
    fn a_frame_is_taken_once_it_is_whole_and_not_before() {
        let asked = Asked::Request(Request { id: 7, call: Call::Status });
        let whole = framed(&asked);
        for len in 0..whole.len() {
            let mut come = BytesMut::from(&whole[..len]);
            assert_eq!(take(&mut come).unwrap(), None, "{len}");
            assert_eq!(come.len(), len, "nothing is taken");
        }
        let mut come = whole.clone();
        come.extend_from_slice(&whole);
        for _ in 0..2 {
            let frame = take(&mut come).unwrap().unwrap();
            assert!(matches!(decode(&frame).unwrap(), Asked::Request(Request { id: 7, call: Call::Status })));
        }
        assert!(come.is_empty());
    }

    #[test]
    fn a_length_is_refused_before_there_is_room_for_it() {
        let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
        for length in [too_long, u32::MAX] {
            let mut come = BytesMut::from(&length.to_be_bytes()[..]);
            assert!(matches!(take(&mut come), Err(FrameError::TooLong { .. })));
            assert!(come.capacity() < 1024);
        }
        let mut most = BytesMut::from(&(too_long - 1).to_be_bytes()[..]);
        assert_eq!(take(&mut most).unwrap(), None);
    }

    #[test]
    fn a_message_that_is_too_long_leaves_nothing_behind() {
        let mut out = BytesMut::from(&b"before"[..]);
        let text = "x".repeat(FRAME_BYTES_MAX);
        assert!(matches!(encode(&text, &mut out), Err(FrameError::TooLong { .. })));
        assert_eq!(&out[..], b"before");
    }

    #[test]
    fn nesting_ends_in_an_error() {
        for one in [b'\x91', b'\x81'] {
            let deep = vec![one; 100_000];
            assert!(matches!(decode::<Asked>(&deep), Err(FrameError::Body(_))));
            assert!(matches!(decode::<Told>(&deep), Err(FrameError::Body(_))));
        }
    }

    #[test]
    fn an_event_that_was_encoded_before_is_a_frame_as_any_other() {
        let main = SessionId::parse("main").unwrap();
        let entry = Entry {
            seq: Seq(3),
            ts_ms: 5,
            about: About::of(Some(main.clone()), None).into(),
            run: None,
            record: SessionOpened { session: main, profile: Default::default(), bounds: Default::default() }
                .into(),
        };
        let envelope = Envelope::wrap(&entry).unwrap();
        let bytes = envelope.encode().unwrap();
        let mut come = BytesMut::from(&item_head(u64::MAX - 1, bytes.len()).unwrap()[..]);
        come.extend_from_slice(&bytes);
        let frame = take(&mut come).unwrap().unwrap();
        let Told::Item { id, item: Item::Event(found) } = decode(&frame).unwrap() else { panic!("an event") };
        assert_eq!((id, found), (u64::MAX - 1, envelope));
        assert!(item_head(1, FRAME_BYTES_MAX).is_err());
    }

    proptest! {
        #[test]
        fn bytes_of_anybody_end_in_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let mut come = BytesMut::from(&bytes[..]);
            while let Ok(Some(frame)) = take(&mut come) {
                let _ = decode::<Asked>(&frame);
            }
            let _ = decode::<Asked>(&bytes);
            let _ = decode::<Told>(&bytes);
            let _ = decode::<super::super::Hello>(&bytes);
        }

        // Near to what is right, where a decoder is deepest.
        #[test]
        fn a_message_with_one_wrong_byte_ends_in_a_message_or_an_error(at in 0..200_usize, byte in any::<u8>()) {
            let filter = crate::wire::EventFilter { about: None, kinds: Some(vec!["job.ended".to_owned()]) };
            let subscribe = crate::wire::Subscribe { filter, since: crate::wire::Since::Snapshot };
            let mut bytes = framed(&Asked::Request(Request { id: 300, call: Call::Subscribe(subscribe) }));
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(Some(frame)) = take(&mut bytes) {
                let _ = decode::<Asked>(&frame);
            }
        }
    }
}
