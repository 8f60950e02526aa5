//! Compiles the functions that call ConcurrencyKit's, which are inline functions of its headers.

fn main() {
    println!("cargo::rerun-if-changed=src/ck.c");
    #[cfg(feature = "ck")]
    cc::Build::new().file("src/ck.c").compile("pvlab_ck");
}
