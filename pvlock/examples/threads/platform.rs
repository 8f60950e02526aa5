// Each thread that uses a lock is a CPU, until it ends.
use pvlock::atomic::{ConstZero, Watch};
use pvlock::pv_hash::{HashSlot, slots_for};
use pvlock::word::PortableWord;
use pvlock::{LockEvent, PerCpu, Platform};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

pub(crate) struct Threads;

// How many threads may use locks at the same time.
const CPUS: usize = 8;

// CPU numbers in use.
static TAKEN: Mutex<[bool; CPUS]> = Mutex::new([false; CPUS]);

// A thread's CPU number.
struct Cpu(usize);

impl Cpu {
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = taken.iter().position(|taken| !taken);
        let Some(cpu) = free else {
            drop(taken);
            panic!("{CPUS} threads use locks already, and none has ended; raise CPUS for more");
        };
        taken[cpu] = true;
        Self(cpu)
    }
}

impl Drop for Cpu {
    // The next thread gets the number, unless a lock that this one has never released needs it still.
    fn drop(&mut self) {
        if PER_CPU[self.0].nodes[0].in_use.load(Ordering::Relaxed) == 0 {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
        }
    }
}

// What the locks keep per CPU; all zeros is its initial state.
static PER_CPU: [PerCpu<Threads>; CPUS] = [const { PerCpu::ZERO }; CPUS];
static PV_HASH: [HashSlot<Threads>; slots_for(CPUS)] = [const { HashSlot::ZERO }; slots_for(CPUS)];
// "Somebody kicked this CPU": sticky, so that a kick just before a halt is not lost.
static KICKED: [(Mutex<bool>, Condvar); CPUS] =
    [const { (Mutex::new(false), Condvar::new()) }; CPUS];

#[allow(unsafe_code)]
// SAFETY: a thread has a number, and by it storage, of its own until it ends; a number whose nodes are still in
// use is not given out again. Atomics and waits are the processor's, a lock's key is its address. Of all
// methods only cpu() panics, for a thread that has no number yet.
unsafe impl Platform for Threads {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    type LockWord = PortableWord<AtomicU32>; // on x86-64, word::ByteWord unlocks faster

    fn cpu() -> u32 {
        thread_local!(static CPU: Cpu = Cpu::take());
        u32::try_from(CPU.with(|cpu| cpu.0)).expect("few CPUs")
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
