//! Atomics and lock words of a model.
#![allow(unsafe_code)] // That they are atomics is promised here.

use crate::memory::Model;
use crate::op::{Op, Place, Reply, Site};
use crate::points::order as at;
use crate::thread::ask;
use pvlock::atomic::{Atomic, Watch};
use pvlock::word::{Field, LockWord};
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::Ordering;

thread_local! {
    static MADE: Cell<u32> = const { Cell::new(0) };
    static MODEL: Cell<Model> = const { Cell::new(Model::C11) };
}

/// A new model of that kind is about to be made: its places are numbered from 0.
pub(crate) fn begin(model: Model) {
    MADE.set(0);
    MODEL.set(model);
}

fn number() -> u32 {
    let number = MADE.get();
    MADE.set(number + 1);
    number
}

pub(crate) fn place(initial: u64) -> Place {
    Place {
        number: number(),
        initial,
    }
}

/// An atomic.
#[derive(Debug)]
pub enum Word {
    /// That several CPUs use.
    Shared(SharedPlace),
    /// That one CPU alone uses, so that nobody can tell when it does.
    Own(u32),
}

/// Where a shared one is.
#[derive(Debug)]
pub struct SharedPlace(pub(crate) Place);

impl Word {
    /// One that a CPU alone uses.
    pub(crate) fn own() -> Self {
        Self::Own(number())
    }

    fn shared(value: u64) -> Self {
        Self::Shared(SharedPlace(place(value)))
    }

    fn load(&self, site: Site, order: Ordering) -> u64 {
        match self {
            Self::Own(number) => crate::machinery::own(*number),
            Self::Shared(place) => load(site, place.0, u64::MAX, order).value,
        }
    }

    fn store(&self, site: Site, value: u64, order: Ordering) {
        match self {
            Self::Own(number) => crate::machinery::set_own(*number, value),
            Self::Shared(place) => store(site, place.0, u64::MAX, value, order),
        }
    }

    fn change(
        &self,
        site: Site,
        orders: [Ordering; 2],
        change: impl Fn(u64) -> Option<u64>,
    ) -> Reply {
        match self {
            Self::Own(number) => {
                let value = crate::machinery::own(*number);
                let new = change(value);
                crate::machinery::set_own(*number, new.unwrap_or(value));
                let ok = new.is_some();
                Reply { value, ok }
            }
            Self::Shared(place) => exchange(site, place.0, orders, change),
        }
    }
}

fn load(site: Site, place: Place, mask: u64, order: Ordering) -> Reply {
    match LOADS.get() {
        Loads::Load => {}
        Loads::Name => {
            NAMED.set(Some(place));
            return Reply::default();
        }
        Loads::Yield(value) => return Reply { value, ok: true },
    }
    let order = at(site, 0, order);
    let load = Op::Load {
        at: place,
        mask,
        order,
    };
    ask(site, load)
}

fn store(site: Site, place: Place, mask: u64, value: u64, order: Ordering) {
    let order = at(site, 0, order);
    let store = Op::Store {
        at: place,
        mask,
        value,
        order,
    };
    ask(site, store);
}

pub(crate) fn exchange(
    site: Site,
    place: Place,
    [order, failure]: [Ordering; 2],
    change: impl Fn(u64) -> Option<u64>,
) -> Reply {
    let change: &dyn Fn(u64) -> Option<u64> = &change;
    // SAFETY: only the lifetime is lost; it is used while this thread waits, with `change` on its stack.
    let change: &'static dyn Fn(u64) -> Option<u64> = unsafe { std::mem::transmute(change) };
    let op = Op::Change {
        at: place,
        change,
        order: at(site, 0, order),
        failure: at(site, 1, failure),
    };
    ask(site, op)
}

/// An atomic as the locks use it, of one width.
macro_rules! atomic {
    ($name:ident, $value:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name(pub(crate) Word);

        #[allow(clippy::cast_possible_truncation, reason = "as wide as it was")]
        impl Watch for $name {
            type Value = $value;
            #[track_caller]
            fn load(&self, order: Ordering) -> $value {
                self.0.load(Location::caller(), order) as $value
            }
        }

        // SAFETY: the model of memory does what their namesakes do; what it guards is plain data of the model,
        // races of which are found before they happen. (A weakened ordering is weaker than was asked for.)
        #[allow(clippy::cast_possible_truncation, reason = "as wide as it was")]
        #[allow(clippy::cast_lossless, reason = "of either width")]
        unsafe impl Atomic<$value> for $name {
            fn new(value: $value) -> Self {
                Self(Word::shared(value as u64))
            }
            #[track_caller]
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(Location::caller(), value as u64, order);
            }
            #[track_caller]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                let orders = [order, Ordering::Relaxed];
                let change = |_| Some(value as u64);
                self.0.change(Location::caller(), orders, change).value as $value
            }
            #[track_caller]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let change = |found| (found == current as u64).then_some(new as u64);
                let orders = [success, failure];
                let reply = self.0.change(Location::caller(), orders, change);
                let value = reply.value as $value;
                if reply.ok { Ok(value) } else { Err(value) }
            }
            #[track_caller]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                let change = |found| Some((found as $value).wrapping_add(value) as u64);
                let orders = [order, Ordering::Relaxed];
                self.0.change(Location::caller(), orders, change).value as $value
            }
            #[track_caller]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                let change = |found| Some(found | value as u64);
                let orders = [order, Ordering::Relaxed];
                self.0.change(Location::caller(), orders, change).value as $value
            }
            #[track_caller]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                let change = |found| Some(found & value as u64);
                let orders = [order, Ordering::Relaxed];
                self.0.change(Location::caller(), orders, change).value as $value
            }
        }
    };
}

atomic!(U32, u32, "A 32-bit atomic.");
atomic!(U64, u64, "A 64-bit atomic.");

/// A lock word: one atomic, or one that is also accessed by its parts, as the model says.
#[derive(Debug)]
pub struct LockAtomic {
    pub(crate) place: Place,
    has_bytes: bool,
    sets_bits_in_two_steps: bool,
}

/// The bits of a field.
fn mask(field: Field) -> u64 {
    let all = if field.is_byte() { 0xff } else { 0xffff };
    u64::from(field.put(0, all))
}

fn word(value: u64) -> u32 {
    u32::try_from(value).expect("32 bits")
}

impl LockAtomic {
    fn store_part(&self, site: Site, field: Field, value: u32, order: Ordering) {
        // Of one atomic the memory makes a read-modify-write of it.
        store(
            site,
            self.place,
            mask(field),
            field.put(0, value).into(),
            order,
        );
    }

    fn swap_part(&self, site: Site, field: Field, value: u32, order: Ordering) -> u32 {
        let change = |found| Some(field.put(word(found), value).into());
        let reply = exchange(site, self.place, [order, Ordering::Relaxed], change);
        field.get(word(reply.value))
    }

    fn compare_part(
        &self,
        site: Site,
        field: Field,
        [current, new]: [u32; 2],
        orders: [Ordering; 2],
    ) -> Result<u32, u32> {
        let change = |found| {
            let found = word(found);
            (field.get(found) == current).then(|| field.put(found, new).into())
        };
        let reply = exchange(site, self.place, orders, change);
        let found = field.get(word(reply.value));
        if reply.ok { Ok(found) } else { Err(found) }
    }

    fn load_part(&self, site: Site, field: Field, order: Ordering) -> u32 {
        let bits = if self.has_bytes {
            mask(field)
        } else {
            u64::MAX
        };
        field.get(word(load(site, self.place, bits, order).value))
    }
}

impl Watch for LockAtomic {
    type Value = u32;
    #[track_caller]
    fn load(&self, order: Ordering) -> u32 {
        word(load(Location::caller(), self.place, u64::MAX, order).value)
    }
}

/// The accesses to parts of one width, which say who calls them.
macro_rules! parts {
    ($part:ident, $store:ident, $swap:ident, $compare:ident) => {
        #[track_caller]
        fn $store(&self, lane: usize, value: $part, order: Ordering) {
            self.store_part(Location::caller(), Field::$part(lane), value.into(), order);
        }
        #[track_caller]
        fn $swap(&self, lane: usize, value: $part, order: Ordering) -> $part {
            let field = Field::$part(lane);
            self.swap_part(Location::caller(), field, value.into(), order) as $part
        }
        #[track_caller]
        fn $compare(
            &self,
            lane: usize,
            current: $part,
            new: $part,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$part, $part> {
            let field = Field::$part(lane);
            let values = [current.into(), new.into()];
            self.compare_part(Location::caller(), field, values, [success, failure])
                .map(|found| found as $part)
                .map_err(|found| found as $part)
        }
    };
}

// SAFETY: as that of the atomics above.
#[allow(clippy::cast_possible_truncation, reason = "as wide as the part")]
unsafe impl LockWord for LockAtomic {
    fn new(value: u32) -> Self {
        let model = MODEL.get();
        Self {
            place: place(value.into()),
            has_bytes: model.has_bytes(),
            sets_bits_in_two_steps: model.sets_bits_in_two_steps(),
        }
    }
    #[track_caller]
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let change = |found| (found == u64::from(current)).then_some(new.into());
        let reply = exchange(Location::caller(), self.place, [success, failure], change);
        let found = word(reply.value);
        if reply.ok { Ok(found) } else { Err(found) }
    }
    #[track_caller]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        let change = |found| Some(word(found).wrapping_add(value).into());
        let orders = [order, Ordering::Relaxed];
        word(exchange(Location::caller(), self.place, orders, change).value)
    }
    #[track_caller]
    fn fetch_set_bit(&self, bit: u32, order: Ordering) -> u32 {
        let site = Location::caller();
        let change = |found| Some(found | 1 << bit);
        let old = exchange(site, self.place, [order, Ordering::Relaxed], change);
        let old = word(old.value);
        if !self.sets_bits_in_two_steps {
            return old;
        }
        let rest = Op::Load {
            at: self.place,
            mask: u64::MAX,
            order: match at(site, 0, order) {
                Ordering::AcqRel => Ordering::Acquire,
                Ordering::Release => Ordering::Relaxed,
                order => order,
            },
        };
        word(ask(site, rest).value) & !(1 << bit) | old & 1 << bit
    }
    #[track_caller]
    fn store_field(&self, field: Field, value: u32, order: Ordering) {
        self.store_part(Location::caller(), field, value, order);
    }
    #[track_caller]
    fn swap_field(&self, field: Field, value: u32, order: Ordering) -> u32 {
        self.swap_part(Location::caller(), field, value, order)
    }
    #[track_caller]
    fn compare_exchange_field(
        &self,
        field: Field,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let site = Location::caller();
        self.compare_part(site, field, [current, new], [success, failure])
    }
    #[track_caller]
    fn load_field(&self, field: Field, order: Ordering) -> u32 {
        self.load_part(Location::caller(), field, order)
    }
    #[track_caller]
    fn load_u8(&self, lane: usize, order: Ordering) -> u8 {
        self.load_part(Location::caller(), Field::u8(lane), order) as u8
    }
    parts! { u8, store_u8, swap_u8, compare_exchange_u8 }
    parts! { u16, store_u16, swap_u16, compare_exchange_u16 }
}

/// What loads do.
#[derive(Clone, Copy)]
enum Loads {
    /// What they should.
    Load,
    /// They say of which place they are.
    Name,
    /// They yield this, as a value of their type.
    Yield(u64),
}

thread_local! {
    static LOADS: Cell<Loads> = const { Cell::new(Loads::Load) };
    static NAMED: Cell<Option<Place>> = const { Cell::new(None) };
}

/// The place of a word.
pub(crate) fn place_of<W: Watch>(word: &W) -> Place {
    LOADS.set(Loads::Name);
    word.load(Ordering::Relaxed);
    LOADS.set(Loads::Load);
    NAMED.take().expect("CPUs wait for what is shared")
}

/// `value` as one of that word.
pub(crate) fn value_of<W: Watch>(word: &W, value: u64) -> W::Value {
    let before = LOADS.replace(Loads::Yield(value));
    let value = word.load(Ordering::Relaxed);
    LOADS.set(before);
    value
}
