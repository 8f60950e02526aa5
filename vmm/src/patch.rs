//! Redirects calls in the guest image to the lock that a VM uses, before it runs.
//!
//! The image says where the calls are and what they may call ([`abi::patch`]).

use crate::image::{Image, code};
use abi::patch::{CallSite, SITES, TARGETS, operation};
use pvlock::LockKind;
use std::collections::BTreeMap;
use std::mem::size_of;

/// `call rel32`: its opcode and its length (Intel SDM vol. 2A, CALL).
const CALL: u8 = 0xe8;
const CALL_LENGTH: usize = 5;

/// Calls that cannot be redirected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The image does not say what there is to patch.
    #[error("the guest image has no calls to patch, or does not say what they may call")]
    NothingToPatch,
    /// The instruction is none that this host knows to change.
    #[error("{address:#x} of the guest image should call {unpatched:#x}, but is {bytes:02x?}")]
    NotThatCall {
        /// Its address.
        address: u64,
        /// What it should call.
        unpatched: u64,
        /// The bytes found there; none if it is not in code.
        bytes: Vec<u8>,
    },
    /// No function for it.
    #[error("the guest image has no operation {operation} of lock '{kind}' to call")]
    NoTarget {
        /// The lock.
        kind: LockKind,
        /// The [`operation`].
        operation: u64,
    },
    /// The function is further away than a call reaches.
    #[error("a call at {address:#x} of the guest image cannot reach {target:#x}")]
    TooFar {
        /// Its address.
        address: u64,
        /// What it should call.
        target: u64,
    },
}

/// Bytes to be written over a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where.
    pub address: u64,
    /// What.
    pub bytes: [u8; CALL_LENGTH],
}

/// What makes the calls in `image` call the lock `kind`.
///
/// # Errors
/// If a call is not as the image says.
pub fn patches(image: &Image<'_>, kind: LockKind) -> Result<Vec<Patch>, PatchError> {
    let sites: Vec<CallSite> = triples(image, SITES)
        .map(|[address, unpatched, operation]| CallSite {
            address,
            unpatched,
            operation,
        })
        .collect();
    // Of two functions for the same, the first.
    let mut targets = BTreeMap::new();
    for [kind, operation, function] in triples(image, TARGETS) {
        targets.entry((kind, operation)).or_insert(function);
    }
    let segments = image.segments().unwrap_or_default();
    if sites.is_empty() || targets.is_empty() {
        return Err(PatchError::NothingToPatch);
    }
    sites
        .into_iter()
        .map(|site| {
            let target = targets.get(&(u64::from(kind.id()), site.operation));
            let &target = target.ok_or(PatchError::NoTarget {
                kind,
                operation: site.operation,
            })?;
            let found = code(&segments, site.address, CALL_LENGTH).unwrap_or_default();
            Ok(Patch {
                address: site.address,
                bytes: redirect(found, site, target)?,
            })
        })
        .collect()
}

/// The section's contents, three 64-bit words at a time; nothing if there is no such section.
fn triples(image: &Image<'_>, section: &str) -> impl Iterator<Item = [u64; 3]> {
    let data = image.section(section).unwrap_or_default();
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    data.chunks_exact(size_of::<CallSite>())
        .map(move |entry| [word(&entry[..8]), word(&entry[8..16]), word(&entry[16..])])
}

/// The call at `site`, found to be `found`, redirected to `target`.
fn redirect(found: &[u8], site: CallSite, target: u64) -> Result<[u8; CALL_LENGTH], PatchError> {
    let end = site.address.wrapping_add(CALL_LENGTH as u64);
    let not_that_call = || PatchError::NotThatCall {
        address: site.address,
        unpatched: site.unpatched,
        bytes: found.to_vec(),
    };
    let [CALL, distance @ ..] = found else {
        return Err(not_that_call());
    };
    let distance = distance.try_into().map_err(|_| not_that_call())?;
    let distance = i64::from(i32::from_le_bytes(distance));
    if end.wrapping_add_signed(distance) != site.unpatched || site.operation >= operation::COUNT {
        return Err(not_that_call());
    }
    let distance = i32::try_from(target.wrapping_sub(end).cast_signed());
    let [a, b, c, d] = distance
        .map_err(|_| PatchError::TooFar {
            address: site.address,
            target,
        })?
        .to_le_bytes();
    Ok([CALL, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: CallSite = CallSite {
        address: 0x20_1000,
        unpatched: 0x20_1105,
        operation: operation::LOCK,
    };

    #[test]
    fn a_call_is_redirected_forwards_and_backwards() {
        let found = [0xe8, 0x00, 0x01, 0x00, 0x00];
        let patched = redirect(&found, SITE, 0x20_1005);
        assert_eq!(patched, Ok([0xe8, 0, 0, 0, 0]));
        let patched = redirect(&found, SITE, 0x20_0005);
        assert_eq!(patched, Ok([0xe8, 0x00, 0xf0, 0xff, 0xff]));
    }

    #[test]
    fn what_is_not_that_call_is_refused() {
        for found in [
            &[0xe9, 0x00, 0x01, 0x00, 0x00][..], // a jump
            &[0xff, 0x15, 0x00, 0x01, 0x00],     // a call through memory
            &[0xe8, 0x01, 0x01, 0x00, 0x00],     // a call of something else
            &[0xe8, 0x00, 0x01],                 // cut off
            &[],
        ] {
            let error = redirect(found, SITE, 0x20_2000).unwrap_err();
            assert_eq!(
                error,
                PatchError::NotThatCall {
                    address: SITE.address,
                    unpatched: SITE.unpatched,
                    bytes: found.to_vec()
                }
            );
        }
        let unknown = CallSite {
            operation: operation::COUNT,
            ..SITE
        };
        assert!(redirect(&[0xe8, 0x00, 0x01, 0x00, 0x00], unknown, 0x20_2000).is_err());
    }

    #[test]
    fn what_a_call_cannot_reach_is_refused() {
        let found = [0xe8, 0x00, 0x01, 0x00, 0x00];
        let target = SITE.address + (1 << 31) + 5;
        let error = redirect(&found, SITE, target).unwrap_err();
        assert!(matches!(error, PatchError::TooFar { .. }));
    }

    #[test]
    fn every_call_of_the_guest_can_be_made_to_call_every_lock() {
        let image = Image::guest().unwrap();
        for &kind in LockKind::ALL {
            let patches = patches(&image, kind).unwrap();
            // Lock and unlock, instrumented and not, at least.
            assert!(patches.len() >= 4, "{kind}: {patches:?}");
            for patch in &patches {
                let distance = i32::from_le_bytes(patch.bytes[1..].try_into().unwrap());
                let target = (patch.address + 5).wrapping_add_signed(distance.into());
                // The target has its own name, and the call is in a named function still.
                assert_eq!(image.symbolise(target).unwrap().offset, 0);
                assert!(image.symbolise(patch.address).is_some());
            }
        }
    }
}
