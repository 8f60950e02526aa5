//! The bare-metal image. Built for real by `vmm/build.rs` (`--cfg pvlab_image`); as an ordinary
//! member of the workspace it is a stub, so that `cargo test --workspace` needs nothing special.
#![cfg_attr(pvlab_image, no_std, no_main)]

#[cfg(pvlab_image)]
mod image;

#[cfg(not(pvlab_image))]
fn main() {
    eprintln!(
        "this is pvlab's guest: it runs in a virtual machine, try `cargo run --release -- run`"
    );
    std::process::exit(2);
}
