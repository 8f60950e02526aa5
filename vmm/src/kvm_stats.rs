//! KVM's binary statistics of a vCPU (KVM_GET_STATS_FD, Linux 5.14).
//!
//! Source: KVM API documentation, section 4.133. The file is a header, then descriptors that name
//! the values, then the values. All counts are cumulative or instantaneous 64-bit numbers;
//! histograms are left out.

use kvm_bindings::{
    KVM_STATS_TYPE_CUMULATIVE, KVM_STATS_TYPE_INSTANT, KVM_STATS_TYPE_MASK, KVM_STATS_TYPE_PEAK,
};
use kvm_ioctls::VcpuFd;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

mod ioctls {
    #![allow(missing_docs)] // The macro writes the function.
    vmm_sys_util::ioctl_io_nr!(KVM_GET_STATS_FD, 0xae, 0xce);
}

/// Size of `struct kvm_stats_header`, and of `struct kvm_stats_desc` without its name.
const HEADER_BYTES: usize = 24;
const DESCRIPTOR_BYTES: usize = 16;

/// The statistics of one vCPU.
#[derive(Debug)]
pub struct KvmStats {
    file: File,
    /// Name and offset of each value.
    values: Vec<(String, u64)>,
}

impl KvmStats {
    /// Opens the statistics of `vcpu`.
    ///
    /// # Errors
    /// If this KVM has none, or there is no file descriptor left for them.
    pub fn open(vcpu: &VcpuFd) -> io::Result<Self> {
        let fd = loop {
            #[allow(unsafe_code)]
            // SAFETY: the ioctl takes no argument and returns a new file descriptor or -1.
            let fd = unsafe { vmm_sys_util::ioctl::ioctl(vcpu, ioctls::KVM_GET_STATS_FD()) };
            if fd >= 0 {
                break fd;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        };
        #[allow(unsafe_code)]
        // SAFETY: `fd` is open and nobody else's.
        let file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        let values = describe(&file).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { file, values })
    }

    /// The values that are not zero, by name; `None` if they cannot be read. One system call.
    pub fn read(&self) -> Option<BTreeMap<String, u64>> {
        let Some(start) = self.values.iter().map(|v| v.1).min() else {
            return Some(BTreeMap::new());
        };
        let end = self.values.iter().map(|v| v.1 + 8).max().unwrap_or(start);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, start).ok()?;
        let value = |offset: u64| {
            let at = usize::try_from(offset - start).ok()?;
            let value = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
            Some(value).filter(|&v| v != 0)
        };
        let values = self.values.iter();
        Some(
            values
                .filter_map(|(name, offset)| Some((name.clone(), value(*offset)?)))
                .collect(),
        )
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

/// Reads header and descriptors.
fn describe(file: &File) -> Option<Vec<(String, u64)>> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    // flags, name_size, num_desc, id_offset, desc_offset, data_offset
    let field = |i: usize| u32_at(&header, 4 * i).map(|v| v as usize);
    let (name_bytes, count) = (field(1)?, field(2)?);
    let (descriptors_at, data_at) = (field(4)?, field(5)?);
    let size = DESCRIPTOR_BYTES + name_bytes;
    let mut bytes = vec![0; count.checked_mul(size)?];
    file.read_exact_at(&mut bytes, descriptors_at as u64).ok()?;
    let mut values = Vec::new();
    for descriptor in bytes.chunks_exact(size) {
        // flags, (exponent, size), offset, bucket_size, name
        let kind = u32_at(descriptor, 0)? & KVM_STATS_TYPE_MASK;
        let offset = u32_at(descriptor, 8)?;
        let name = descriptor[DESCRIPTOR_BYTES..]
            .split(|&b| b == 0)
            .next()
            .unwrap_or_default();
        if [
            KVM_STATS_TYPE_CUMULATIVE,
            KVM_STATS_TYPE_INSTANT,
            KVM_STATS_TYPE_PEAK,
        ]
        .contains(&kind)
        {
            let name = String::from_utf8_lossy(name).into_owned();
            values.push((name, data_at as u64 + u64::from(offset)));
        }
    }
    Some(values)
}
