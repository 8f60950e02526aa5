// Each thread that uses a lock is a CPU.
use pvlock::atomic::{ConstZero, Watch};
use pvlock::pv_hash::{HashSlot, slots_for};
use pvlock::word::PortableWord;
use pvlock::{LockEvent, PerCpu, Platform};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

pub(crate) struct Threads;

const CPUS: usize = 8;

// What the locks keep per CPU; all zeros is its initial state.
static PER_CPU: [PerCpu<Threads>; CPUS] = [const { PerCpu::ZERO }; CPUS];
static PV_HASH: [HashSlot<Threads>; slots_for(CPUS)] = [const { HashSlot::ZERO }; slots_for(CPUS)];
// "Somebody kicked this CPU": sticky, so that a kick just before a halt is not lost.
static KICKED: [(Mutex<bool>, Condvar); CPUS] =
    [const { (Mutex::new(false), Condvar::new()) }; CPUS];

impl Platform for Threads {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    type LockWord = PortableWord<AtomicU32>; // on x86-64, word::ByteWord unlocks faster

    fn cpu() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        thread_local!(static CPU: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
        CPU.with(|&cpu| cpu)
    }
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        &PER_CPU[cpu as usize]
    }
    fn pv_hash() -> &'static [HashSlot<Self>] {
        &PV_HASH
    }
    fn relax() {
        std::hint::spin_loop();
    }
    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        let (kicked, wake) = &KICKED[Self::cpu() as usize];
        let mut kicked = kicked.lock().expect("no thread panics here");
        if asleep(word.load(Ordering::Relaxed)) && !*kicked {
            kicked = wake.wait(kicked).expect("no thread panics here");
        }
        *kicked = false;
    }
    fn kick(cpu: u32) {
        let (kicked, wake) = &KICKED[cpu as usize];
        *kicked.lock().expect("no thread panics here") = true;
        wake.notify_one();
    }
    fn yield_to(_cpu: u32) {
        std::thread::yield_now();
    }
    fn vcpu_is_preempted(_cpu: u32) -> Option<bool> {
        None // the operating system does not say
    }
    fn now() -> u64 {
        0 // no statistics of kicks, then
    }
    fn count(_event: LockEvent, _n: u64) {}
}
