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
    /// There is no code where it should start.
    #[error("the guest image should start at {entry:#x}, where it has no code")]
    Entry {
        /// Where.
        entry: u64,
    },
    /// Two segments want the same page, which can have one set of permissions only.
    #[error("two segments of the guest image share the page at {page:#x}")]
    Overlap {
        /// The page's address.
        page: u64,
    },
    /// A page could be written to and executed.
    #[error("the segment at {start:#x} of the guest image is both code and writable")]
    WritableCode {
        /// The segment's address.
        start: u64,
    },
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

impl Segment<'_> {
    /// Its end; there is one, as it lies in the space for the image.
    fn end(&self) -> u64 {
        self.address + self.size
    }
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

    /// The segments to load, by address.
    ///
    /// # Errors
    /// If one is outside the space for the image, or shares a page with another, or there is no code to start
    /// with.
    pub fn segments(&self) -> Result<Vec<Segment<'a>>, ImageError> {
        let endian = Endianness::Little;
        let headers = self.file.elf_program_headers().iter();
        let mut segments = Vec::new();
        for h in headers.filter(|h| h.p_type(endian) == elf::PT_LOAD && h.p_memsz(endian) > 0) {
            let (start, size) = (h.p_vaddr(endian), h.p_memsz(endian));
            let end = start.saturating_add(size);
            let data = h
                .data(endian, self.file.data())
                .map_err(|()| ImageError::Segment { start, end })?;
            if start < layout::IMAGE || end > layout::IMAGE_END || data.len() as u64 > size {
                return Err(ImageError::Segment { start, end });
            }
            let flags = h.p_flags(endian);
            let segment = Segment {
                address: start,
                size,
                data,
                write: flags.contains(elf::PF_W),
                execute: flags.contains(elf::PF_X),
            };
            if segment.write && segment.execute {
                return Err(ImageError::WritableCode { start });
            }
            segments.push(segment);
            // So there are no more of them than pages, whatever the file says.
            if segments.len() as u64 > (layout::IMAGE_END - layout::IMAGE) / layout::PAGE {
                return Err(ImageError::Overlap { page: start });
            }
        }
        segments.sort_by_key(|segment| segment.address);
        for pair in segments.windows(2) {
            let last_page = (pair[0].end() - 1) / layout::PAGE;
            if pair[1].address / layout::PAGE <= last_page {
                let page = last_page * layout::PAGE;
                return Err(ImageError::Overlap { page });
            }
        }
        let entry = self.entry();
        let is_code = |s: &Segment<'_>| s.execute && (s.address..s.end()).contains(&entry);
        if !segments.iter().any(is_code) {
            return Err(ImageError::Entry { entry });
        }
        Ok(segments)
    }

    /// The contents of a section of that name.
    pub(crate) fn section(&self, name: &str) -> Option<&'a [u8]> {
        self.file.section_by_name(name)?.data().ok()
    }

    /// The function at `address` and the distance from its start.
    pub fn symbolise(&self, address: u64) -> Option<Symbol> {
        let symbol = self
            .file
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Text && s.address() <= address)
            .filter(|s| address - s.address() < s.size().max(1))
            .max_by_key(|s| s.address())?;
        let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
        Some(Symbol {
            name,
            offset: address - symbol.address(),
        })
    }
}

/// `length` bytes of code at `address`, if there is code.
pub(crate) fn code<'a>(segments: &[Segment<'a>], address: u64, length: usize) -> Option<&'a [u8]> {
    segments.iter().filter(|s| s.execute).find_map(|segment| {
        let start = usize::try_from(address.checked_sub(segment.address)?).ok()?;
        segment.data.get(start..start.checked_add(length)?)
    })
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

    /// The guest with `bytes` written over what is at `at` of its file.
    fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut image = GUEST.to_vec();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    }

    /// Where the program headers to be loaded are in the file.
    fn headers() -> Vec<usize> {
        let word = |at: usize| u64::from_le_bytes(GUEST[at..at + 8].try_into().unwrap());
        let (first, size) = (usize::try_from(word(32)).unwrap(), 56);
        let count = usize::from(u16::from_le_bytes([GUEST[56], GUEST[57]]));
        let headers = (0..count).map(|i| first + i * size);
        headers
            .filter(|&at| GUEST[at..at + 4] == [1, 0, 0, 0])
            .collect()
    }

    #[test]
    fn an_image_that_cannot_be_is_refused_and_says_why() {
        // Offsets in an ELF64 header and program header (System V ABI, gABI chapters 4 and 5).
        const ENTRY: usize = 24;
        const FLAGS: usize = 4;
        const OFFSET: usize = 8;
        const ADDRESS: usize = 16;
        const FILE_SIZE: usize = 32;
        const SIZE: usize = 40;
        let error = |image: &[u8]| Image::parse(image).and_then(|i| i.segments().map(|_| ()));
        let error = |image: Vec<u8>| error(&image).unwrap_err();
        let entry = |address: u64| error(changed(ENTRY, &address.to_le_bytes()));
        for nowhere in [0, 8, layout::REGION, u64::MAX] {
            assert!(matches!(entry(nowhere), ImageError::Entry { entry } if entry == nowhere));
        }
        let headers = headers();
        for &header in &headers {
            for (field, value) in [
                (ADDRESS, 0),
                (ADDRESS, layout::IMAGE_END),
                (ADDRESS, u64::MAX),
                (SIZE, 1 << 40),
                (SIZE, u64::MAX),
                (FILE_SIZE, 1 << 40),
                (OFFSET, u64::MAX),
            ] {
                let bytes = value.to_le_bytes();
                let error = error(changed(header + field, &bytes));
                assert!(
                    matches!(error, ImageError::Segment { .. }),
                    "{field} {value:#x}: {error}"
                );
            }
        }
        let code = headers
            .iter()
            .find(|&&at| GUEST[at + FLAGS] & 1 != 0)
            .unwrap();
        let both = error(changed(code + FLAGS, &[7]));
        assert!(matches!(both, ImageError::WritableCode { .. }), "{both}");
        // Another segment moved onto the code.
        let other = headers.iter().find(|at| *at != code).unwrap();
        let address = GUEST[code + ADDRESS..code + ADDRESS + 8].to_vec();
        let overlap = error(changed(other + ADDRESS, &address));
        assert!(matches!(overlap, ImageError::Overlap { .. }), "{overlap}");
        // Cut off anywhere, it is refused or is a part that can be looked at.
        for end in (0..GUEST.len()).step_by(997) {
            if let Ok(image) = Image::parse(&GUEST[..end]) {
                let _ = image.segments();
                let _ = image.symbolise(image.entry());
            }
        }
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 4096]] {
            assert!(matches!(Image::parse(bytes), Err(ImageError::Malformed(_))));
        }
    }
}
