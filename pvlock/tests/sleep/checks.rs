//! What must hold after every step.

use super::machine::{Machine, Phase, Side, Vcpu};
use super::subject::Subject;
use pvlock::LockKind;

type Check = Result<(), String>;

fn that(holds: bool, what: &str) -> Check {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// A lock in memory, in parts.
struct Words {
    /// The words before the spinners' queue.
    state: Vec<u32>,
    osq: u32,
    first: u32,
    last: u32,
    wait: u32,
}

impl Words {
    fn of(words: &[u32], kind: LockKind) -> Self {
        let (state, rest) = words.split_at(match kind {
            LockKind::Mutex | LockKind::PiMutex => 1,
            LockKind::Mutex316 => 2,
            _ => 3,
        });
        Self {
            state: state.to_vec(),
            osq: rest[0],
            first: rest[1],
            last: rest[2],
            wait: rest[3],
        }
    }

    fn count(&self) -> u64 {
        u64::from(self.state[0]) | u64::from(self.state[1]) << 32
    }
}

/// Where each task is.
struct Users {
    reading: u64,
    writing: Vec<usize>,
    /// Between outside and inside, asleep or not.
    reads_begun_or_ended: u64,
    writes_begun_or_ended: u64,
    /// Of those, how many are awake.
    at_work: usize,
    asleep: Vec<usize>,
}

impl Users {
    fn of(vcpus: &[Vcpu]) -> Self {
        let is = |phase: Phase| move |vcpu: &&Vcpu| vcpu.phase.get() == phase;
        let number = |phase| vcpus.iter().filter(is(phase)).count() as u64;
        let between = |side| number(Phase::Entering(side)) + number(Phase::Leaving(side));
        let which = |test: &dyn Fn(&Vcpu) -> bool| -> Vec<usize> {
            (0..vcpus.len()).filter(|&i| test(&vcpus[i])).collect()
        };
        let at_work = |vcpu: &Vcpu| {
            !vcpu.sleeps() && matches!(vcpu.phase.get(), Phase::Entering(_) | Phase::Leaving(_))
        };
        Self {
            reading: number(Phase::Inside(Side::Read)),
            writing: which(&|vcpu| vcpu.phase.get() == Phase::Inside(Side::Write)),
            reads_begun_or_ended: between(Side::Read),
            writes_begun_or_ended: between(Side::Write),
            at_work: which(&at_work).len(),
            asleep: which(&Vcpu::sleeps),
        }
    }
}

fn is_mutex(kind: LockKind) -> bool {
    matches!(
        kind,
        LockKind::Mutex | LockKind::PiMutex | LockKind::Mutex316
    )
}

/// Returns how many readers are inside.
pub(crate) fn check(
    machine: &Machine,
    lock: &dyn Subject,
    kind: LockKind,
) -> Result<usize, String> {
    let words = Words::of(&lock.words(), kind);
    let users = Users::of(&machine.vcpus);
    that(users.writing.len() <= 1, "two writers inside")?;
    that(
        users.writing.is_empty() || users.reading == 0,
        "readers inside beside a writer",
    )?;
    // The holder of the wait lock may be halfway.
    let settled = words.wait == 0;
    let list = if settled {
        list(machine, &words)?
    } else {
        vec![]
    };
    match kind {
        LockKind::Mutex | LockKind::PiMutex => mutex(&words, &users, settled)?,
        LockKind::Mutex316 => mutex_316(&words, &users, settled)?,
        LockKind::Rwsem => rwsem(&words, &users, settled)?,
        _ => xadd(&words, &users)?,
    }
    sleepers(machine, &users, &list, settled)?;
    if machine.vcpus.iter().all(|vcpu| vcpu.done.get()) {
        // The owner of a reader-writer lock is a hint, and may stay.
        let count = if is_mutex(kind) {
            words.state[0].into()
        } else {
            words.count()
        };
        that(count == 0, "not free in the end")?;
        that(
            words.first == 0 && words.last == 0,
            "somebody left in the list",
        )?;
        that(words.osq == 0, "somebody left among the spinners")?;
        that(words.wait == 0, "the wait lock is left taken")?;
    }
    Ok(usize::try_from(users.reading).unwrap())
}

/// The names in the list, which is linked in both directions.
fn list(machine: &Machine, words: &Words) -> Result<Vec<u32>, String> {
    let mut names = vec![];
    let (mut before, mut name) = (0, words.first);
    while name != 0 {
        that(
            name as usize <= machine.vcpus.len() && !names.contains(&name),
            "the list is no list",
        )?;
        names.push(name);
        let waiter = &machine.percpu[name as usize - 1].waiter;
        that(
            look(&waiter.prev) == before,
            "the list is not linked backwards",
        )?;
        (before, name) = (name, look(&waiter.next));
    }
    that(words.last == before, "the list ends elsewhere")?;
    Ok(names)
}

/// Outside of any step, so that it is none.
fn look(word: &impl pvlock::atomic::Watch<Value = u32>) -> u32 {
    word.load(std::sync::atomic::Ordering::Relaxed)
}

/// A sleeper is known to somebody who will wake it.
fn sleepers(machine: &Machine, users: &Users, list: &[u32], settled: bool) -> Check {
    if users.asleep.is_empty() {
        return Ok(());
    }
    let awake_in_it = machine
        .vcpus
        .iter()
        .any(|vcpu| !vcpu.sleeps() && vcpu.phase.get() != Phase::Outside);
    that(awake_in_it, "all that use the lock sleep")?;
    for &cpu in &users.asleep {
        let listed = list.iter().any(|&name| name as usize == cpu + 1);
        // Chosen, and about to be told so.
        that(
            listed || !settled || users.at_work > 0,
            "somebody sleeps, and nobody knows",
        )?;
    }
    Ok(())
}

fn mutex(words: &Words, users: &Users, settled: bool) -> Check {
    let word = words.state[0];
    let (owner, waiters) = (word >> 3, word & 1 != 0);
    let (handoff, pickup) = (word & 2 != 0, word & 4 != 0);
    that(owner != 0 || !handoff, "free, and to be handed over")?;
    that(owner != 0 || !pickup, "handed over to nobody")?;
    if let [holder] = users.writing[..] {
        that(owner as usize == holder + 1, "somebody else is the owner")?;
        that(!pickup, "inside without having picked it up")?;
    }
    if settled {
        let waits = words.first != 0;
        that(waiters || !waits, "waiters whom the release will not see")?;
        that(
            waits || !waiters || users.at_work > 0,
            "the release will look for waiters in vain",
        )?;
        that(!handoff || waits, "to be handed over to nobody")?;
    }
    Ok(())
}

fn mutex_316(words: &Words, users: &Users, settled: bool) -> Check {
    let claims = words.state[0];
    that(
        claims > 0 || users.writing.is_empty(),
        "held, and nobody has claimed it",
    )?;
    if let [_] = users.writing[..] {
        let waits = settled && words.first != 0 && users.at_work == 0;
        that(
            claims > 1 || !waits,
            "waiters whom the release will not see",
        )?;
    }
    Ok(())
}

fn rwsem(words: &Words, users: &Users, settled: bool) -> Check {
    let count = words.count();
    let (writer, readers) = (count & 1 != 0, count >> 8);
    that(count & 0xf8 == 0 && count >> 63 == 0, "count is none")?;
    that(
        writer || users.writing.is_empty(),
        "a writer inside is not counted",
    )?;
    that(
        readers >= users.reading,
        "readers inside are not all counted",
    )?;
    // One more for each vCPU that looks whether readers of the list can be let in.
    let most = users.reading + users.reads_begun_or_ended + users.at_work as u64;
    that(readers <= most, "more readers are counted than there are")?;
    if users.at_work == 0 && users.asleep.is_empty() {
        let holds = users.reading << 8 | users.writing.len() as u64;
        that(count == holds, "the count is not the sum of the holders")?;
    }
    if let [holder] = users.writing[..] {
        that(
            words.state[2] >> 2 == u32::try_from(holder).unwrap() + 1,
            "somebody else is the owner",
        )?;
    }
    if settled {
        let waits = words.first != 0;
        that((count & 2 != 0) == waits, "the flag is not as the list")?;
        that(count & 4 == 0 || waits, "to be handed over to nobody")?;
    }
    Ok(())
}

fn xadd(words: &Words, users: &Users) -> Check {
    const WAITING: u64 = 1_u64.wrapping_neg() << 32;
    let count = words.count();
    let active = count & u64::from(u32::MAX);
    let inside = users.reading + users.writing.len() as u64;
    that(active >= inside, "those inside are not all counted")?;
    let between = users.reads_begun_or_ended + users.writes_begun_or_ended;
    that(
        active <= inside + between + users.at_work as u64,
        "more are counted than there are",
    )?;
    if users.at_work == 0 {
        let waits = u64::from(words.first != 0);
        let summands = WAITING.wrapping_mul(users.writing.len() as u64 + waits);
        that(
            count == summands.wrapping_add(inside),
            "the count is not the sum of the holders and the list",
        )?;
    }
    Ok(())
}
