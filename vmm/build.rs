//! Builds the bare-metal guest image with plain cargo and hands its path to the crate.
//!
//! The image is a member of this workspace, compiled a second time for bare metal: own profile, own
//! flags, own target directory (two cargos on one directory would wait for each other for ever).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Flags of the image: no libc, no start files, a fixed low address, and no instructions beyond the
/// x86-64 baseline, because the VMM does not set up XSAVE.
const RUSTFLAGS: &[&str] = &[
    "--cfg=pvlab_image",
    "-Ctarget-cpu=x86-64",
    "-Crelocation-model=static",
    "-Clink-arg=-nostartfiles",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-static",
    "-Clink-arg=-no-pie",
    "-Clink-arg=-Wl,--build-id=none",
    "-Clink-arg=-Wl,-z,max-page-size=4096",
    "-Clink-arg=-Wl,-z,separate-code",
    "-Clink-arg=-Wl,-z,norelro",
    "-Clink-arg=-Wl,--image-base=0x200000",
];

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for input in [
        "abi/src",
        "abi/Cargo.toml",
        "guest/src",
        "guest/Cargo.toml",
        "pvlock/src",
        "pvlock/Cargo.toml",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!("cargo:rerun-if-changed={}", workspace.join(input).display());
    }
    println!("cargo:rerun-if-changed=build.rs");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target_dir = out.join("guest-target");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .current_dir(&workspace)
        .args([
            "build",
            "-p",
            "guest",
            "--bin",
            "guest",
            "--profile",
            "guest",
            "--frozen",
        ])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&target_dir);
    // Whatever wraps or instruments the outer build (clippy, coverage, sanitizers) is not for bare
    // metal. CARGO_HOME and RUSTUP_* say where the toolchain is, and stay.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if (text.starts_with("CARGO") && text != "CARGO_HOME")
            || (text.starts_with("RUST") && !text.starts_with("RUSTUP"))
        {
            cargo.env_remove(&name);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\u{1f}"));

    let status = cargo.status().expect("cargo can be started");
    assert!(
        status.success(),
        "the guest image did not build: {cargo:?} ended with {status}"
    );
    let image = target_dir.join(TARGET).join("guest/guest");
    println!("cargo:rustc-env=PVLAB_GUEST_IMAGE={}", image.display());
}
