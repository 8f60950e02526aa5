//! Images of guests: parsed, loaded, patched, and asked for names.

use abi::{Dispatch, Layout, Params};
use pvlock::LockKind;
use vmm::layout::{IMAGE, IMAGE_END, MemoryMap};
use vmm::{Image, boot, patch};

/// An ELF file.
pub(crate) fn image(bytes: &[u8]) {
    let Ok(image) = Image::parse(bytes) else {
        return;
    };
    for address in [0, IMAGE, image.entry(), IMAGE_END, u64::MAX] {
        if let Some(symbol) = image.symbolise(address) {
            assert!(!symbol.to_string().is_empty());
        }
    }
    for kind in [LockKind::Tas, LockKind::PvQSpinLock] {
        if let Ok(patches) = patch::patches(&image, kind) {
            assert!(!patches.is_empty());
        }
    }
    let Ok(segments) = image.segments() else {
        return;
    };
    for segment in &segments {
        let end = segment.address + segment.size;
        assert!(IMAGE <= segment.address && end <= IMAGE_END);
        assert!(segment.data.len() as u64 <= segment.size);
        assert!(!(segment.write && segment.execute));
    }
    let layout = Layout::new(1, 1);
    let size = usize::try_from(MemoryMap::new(layout).end()).unwrap_or(0);
    let Ok(memory) = host::region::map(size) else {
        return;
    };
    assert!(
        boot::load(&memory, &image, layout).is_ok(),
        "what has its place fits there"
    );
    let params = Params {
        dispatch: Dispatch::Patched as u64,
        lock_kind: LockKind::Tas.id().into(),
        ..Params::default()
    };
    // It may have nothing to patch.
    let _ = boot::patch(&memory, &image, &params);
}
