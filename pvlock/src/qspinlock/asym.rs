//! The paravirtual queued spinlock whose release is a plain store.
//!
//! The release of [`pv`](super::pv) is an atomic exchange, contended or not, because it must not miss that the
//! queue's head has marked the word. Here the head pays for that: it says in the pending byte, which it alone
//! writes while it waits, that it sleeps; the release stores to the locked byte and then looks at the other one.
//!
//! | queue head halts              | holder releases        |
//! |-------------------------------|------------------------|
//! | entered into the table        | locked = 0             |
//! | pending = ASLEEP              | light barrier          |
//! | heavy barrier                 | load pending           |
//! | halt only while held, ASLEEP  | ASLEEP: 2 -> 0, kick   |
//!
//! It is Dekker's entry protocol with its fence on one side ([`Platform::light_barrier`]): both loads cannot miss
//! both stores. Whoever takes the lock past the sleeping head meets the same byte when it releases, so the
//! argument holds for each release after the barrier.
//!
//! | pending    | meaning                                       | leaves to                              |
//! |------------|-----------------------------------------------|----------------------------------------|
//! | 0          | no head, or a kick is on its way to it        | 1, ASLEEP (head); ASLEEP (owner that advances it) |
//! | 1          | the head is awake: nobody may steal           | 0 (head)                               |
//! | ASLEEP, 2  | the head halts, or is about to                | 0 (the one releaser that kicks it), 1 (head) |
//!
//! The head's entry stays in the hash table until it has the lock, and the head takes it out: releasers read
//! it. So a head that was kicked in vain has no need to hash itself again, and says ASLEEP once more. What a
//! releaser reads there may be gone meanwhile: then the head is awake, and a kick of another CPU is one that it
//! need not heed.
//!
//! **A release reads the lock's memory after it has released.** It must outlive the call, as that of a futex's
//! word; what rests on guards that borrow the lock keeps it.

use super::{
    ASLEEP, LOCKED_LANE, PENDING_LANE, RawQSpinLock, UNLOCKED, WORD_ASLEEP, form, locked, pv,
};
use crate::atomic::{Atomic, Watch};
use crate::event::LockEvent;
use crate::percpu::{Node, NodeRef};
use crate::trace::TraceEvent;
use crate::word::LockWord;
use crate::{Platform, pv_hash};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

impl<P: Platform, const FORM: u8> RawQSpinLock<P, FORM> {
    #[inline(always)]
    pub(super) fn asym_unlock(&self) {
        // (*,*,1) -> (*,*,0). Release pairs with every Acquire on the word.
        self.word.store_u8(LOCKED_LANE, UNLOCKED, Release);
        // Table of the module: our store before our load.
        P::light_barrier();
        if self.word.load_u8(PENDING_LANE, Relaxed) == ASLEEP {
            self.asym_kick();
        }
    }

    #[cold]
    #[inline(never)]
    fn asym_kick(&self) {
        // (n,2,*) -> (n,0,*). One release kicks, not each until the head is there. Acquire pairs with the
        // Release in asym_lock_as_head(): we see its entry.
        let claimed = self
            .word
            .compare_exchange_u8(PENDING_LANE, ASLEEP, 0, Acquire, Relaxed);
        if claimed.is_err() {
            return;
        }
        let Some(head) = pv_hash::find::<P>(P::lock_key(self)) else {
            return; // It has the lock already.
        };
        P::count(LockEvent::PvKickUnlock, 1);
        P::trace(self, TraceEvent::Kick(head.cpu()));
        pv::kick::<P>(head.cpu());
    }

    /// Called by the owner that has made the halted `next` head of the queue: enters it, and says for it that it
    /// sleeps. Our own release comes later, so this needs no barrier.
    pub(super) fn asym_advance(&self, next: NodeRef) {
        pv_hash::insert::<P>(P::lock_key(self), next);
        // (n,0,1) -> (n,2,1). If it fails, the head is awake, and speaks for itself. Release as in
        // asym_lock_as_head().
        let _ = self
            .word
            .compare_exchange_u8(PENDING_LANE, 0, ASLEEP, Release, Relaxed);
    }

    /// Waits as head of the queue and takes the lock. Returns a word seen while holding it.
    pub(super) fn asym_lock_as_head(&self, me: NodeRef) -> u32 {
        let node: &Node<P> = me.node();
        let mut hashed = Self::is_promoted(node);
        P::count(LockEvent::LockSlowpath, 1);
        let mut halts = 0;
        loop {
            node.state.store(pv::RUNNING, Relaxed);
            if self.spin_as_head() {
                break;
            }
            let entered = hashed;
            if !hashed {
                pv_hash::insert::<P>(P::lock_key(self), me);
                hashed = true;
            }
            if !entered || Self::has(form::REHASH) {
                // (n,0,*) -> (n,2,*). Release pairs with the Acquire in asym_kick(): our entry first.
                self.word.store_u8(PENDING_LANE, ASLEEP, Release);
                // Table of the module: our store before our load.
                P::heavy_barrier();
            }
            self.halt_as_head(node, &mut halts, |word| {
                locked(word) && word & WORD_ASLEEP != 0
            });
        }
        if hashed {
            // The owner that has entered us has released since, and we have acquired.
            pv_hash::remove::<P>(P::lock_key(self));
        }
        self.word.load(Relaxed)
    }
}
