//! The guest image: an ELF executable, its segments and its symbols.

use crate::layout;
use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::fmt;

/// The image built from the `guest` crate.
static GUEST: &[u8] = include_bytes!(env!("PVLAB_GUEST_IMAGE"));

/// An image that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not an ELF file for x86-64.
    #[error("the guest image is not a 64-bit ELF executable: {0}")]
    Malformed(#[from] object::Error),
    /// A segment lies where it cannot be put.
    #[error(
        "segment {start:#x}..{end:#x} of the guest image is outside {:#x}..{:#x}",
        layout::IMAGE,
        layout::IMAGE_END
    )]
    Segment {
        /// First address.
        start: u64,
        /// End address.
        end: u64,
    },
}

/// A part of the image to be loaded.
#[derive(Debug)]
pub struct Segment<'a> {
    /// Where it goes.
    pub address: u64,
    /// Size in memory: `data`, then zeros.
    pub size: u64,
    /// Its contents.
    pub data: &'a [u8],
    /// Whether the guest may write to it.
    pub write: bool,
    /// Whether the guest may execute it.
    pub execute: bool,
}

/// A parsed image.
#[derive(Debug)]
pub struct Image<'a> {
    file: ElfFile64<'a>,
}

impl Image<'static> {
    /// The built-in guest.
    ///
    /// # Errors
    /// If it is malformed, which would be a bug of the build.
    pub fn guest() -> Result<Self, ImageError> {
        Self::parse(GUEST)
    }
}

impl<'a> Image<'a> {
    /// Parses an ELF file.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ImageError> {
        Ok(Self {
            file: ElfFile64::parse(bytes)?,
        })
    }

    /// Where execution starts.
    pub fn entry(&self) -> u64 {
        self.file.entry()
    }

    /// The segments to load.
    ///
    /// # Errors
    /// If one is outside the space for the image.
    pub fn segments(&self) -> Result<Vec<Segment<'a>>, ImageError> {
        let endian = Endianness::Little;
        let headers = self.file.elf_program_headers().iter();
        headers
            .filter(|h| h.p_type(endian) == elf::PT_LOAD && h.p_memsz(endian) > 0)
            .map(|h| {
                let (start, size) = (h.p_vaddr(endian), h.p_memsz(endian));
                let end = start.saturating_add(size);
                let data = h
                    .data(endian, self.file.data())
                    .map_err(|()| ImageError::Segment { start, end })?;
                if start < layout::IMAGE || end > layout::IMAGE_END || data.len() as u64 > size {
                    return Err(ImageError::Segment { start, end });
                }
                let flags = h.p_flags(endian);
                Ok(Segment {
                    address: start,
                    size,
                    data,
                    write: flags.contains(elf::PF_W),
                    execute: flags.contains(elf::PF_X),
                })
            })
            .collect()
    }

    /// The contents of a section of that name.
    pub(crate) fn section(&self, name: &str) -> Option<&'a [u8]> {
        self.file.section_by_name(name)?.data().ok()
    }

    /// `length` bytes of code at `address`, if there is code.
    pub(crate) fn code(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        let segments = self.segments().ok()?;
        segments.iter().filter(|s| s.execute).find_map(|segment| {
            let start = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            segment.data.get(start..start.checked_add(length)?)
        })
    }

    /// The function at `address` and the distance from its start.
    pub fn symbolise(&self, address: u64) -> Option<Symbol> {
        let symbol = self
            .file
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Text && s.address() <= address)
            .filter(|s| address < s.address() + s.size().max(1))
            .max_by_key(|s| s.address())?;
        let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
        Some(Symbol {
            name,
            offset: address - symbol.address(),
        })
    }
}

/// A place in the guest's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The function.
    pub name: String,
    /// Bytes from its start.
    pub offset: u64,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.name, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_loads_and_its_entry_is_named() {
        let image = Image::guest().unwrap();
        let segments = image.segments().unwrap();
        assert!(segments.iter().any(|s| s.execute && !s.write));
        assert!(
            segments.iter().all(|s| !(s.execute && s.write)),
            "no page is both"
        );
        let entry = image.symbolise(image.entry()).unwrap();
        assert_eq!(
            entry,
            Symbol {
                name: "_start".into(),
                offset: 0
            }
        );
        assert_eq!(image.symbolise(8), None);
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 4096]] {
            assert!(matches!(Image::parse(bytes), Err(ImageError::Malformed(_))));
        }
    }
}
