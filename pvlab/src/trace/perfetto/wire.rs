//! The protobuf wire format, as far as it is needed.

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// Where small messages are made.
pub(super) type Scratch = [u8; 256];

/// A message of at most 255 bytes being made, without allocation or bounds checks: an index of 8 bits
/// cannot leave an array of 256. Longer ones would come out wrong; the largest that is made here has
/// less than 128.
///
/// The length is not beside the bytes, so that it can stay in a register: of a store to a place that
/// is not known, the compiler has to assume that it may hit what is beside it.
pub(super) struct Small<'a> {
    bytes: &'a mut Scratch,
    len: u8,
}

impl<'a> Small<'a> {
    #[inline]
    pub(super) const fn new(bytes: &'a mut Scratch) -> Self {
        Self { bytes, len: 0 }
    }

    #[inline]
    pub(super) const fn len(&self) -> u8 {
        self.len
    }

    #[inline]
    pub(super) const fn byte(&mut self, byte: u8) {
        self.bytes[self.len as usize] = byte;
        self.len = self.len.wrapping_add(1);
    }

    #[inline]
    pub(super) const fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.byte(value.to_le_bytes()[0]);
    }

    /// The tag of a field of that wire type.
    #[inline]
    const fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint((field << 3 | wire_type) as u64);
    }

    #[inline]
    pub(super) const fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    #[inline]
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        for byte in value.to_le_bytes() {
            self.byte(byte);
        }
    }

    /// Begins an inner message of less than 128 bytes, whose length [`Small::end`] then sets at the
    /// place returned.
    #[inline]
    pub(super) const fn message(&mut self, field: u32) -> u8 {
        self.tag(field, BYTES);
        let place = self.len;
        self.byte(0);
        place
    }

    /// Ends the inner message whose length is at `place`.
    #[inline]
    pub(super) const fn end(&mut self, place: u8) {
        self.bytes[place as usize] = self.len.wrapping_sub(place).wrapping_sub(1);
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A message of any length.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    pub(super) fn uint(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
        self
    }

    pub(super) fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(u64::from(field << 3 | BYTES));
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn message(self, field: u32, inner: &Self) -> Self {
        self.bytes(field, &inner.0)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint.
    Uint(u64),
    /// Eight bytes or four, which nothing here is read from.
    Fixed,
    /// A string or message.
    Bytes(&'a [u8]),
}

/// The fields of a message that somebody else may have written.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field's number and value; `None`: that was all; an error: this is no message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, NoMessage> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).map_err(|_| NoMessage)?;
        let wire_type = u32::from(tag.to_le_bytes()[0] & 7);
        let value = match wire_type {
            VARINT => Value::Uint(self.varint()?),
            FIXED64 => self.take(8).map(|_| Value::Fixed)?,
            FIXED32 => self.take(4).map(|_| Value::Fixed)?,
            BYTES => {
                let len = usize::try_from(self.varint()?).map_err(|_| NoMessage)?;
                Value::Bytes(self.take(len)?)
            }
            _ => return Err(NoMessage),
        };
        Ok(Some((field, value)))
    }

    fn varint(&mut self) -> Result<u64, NoMessage> {
        let mut value = 0;
        for (i, &byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(value);
            }
        }
        Err(NoMessage)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], NoMessage> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(NoMessage)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// These bytes are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoMessage;
