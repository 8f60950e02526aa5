//! What is to be said of each table: what was fitted, and what does not fit.

use super::tables::TableName;

/// Notes on a table, a line each.
pub(crate) const fn of(table: TableName) -> &'static [&'static str] {
    match table {
        TableName::Rwsem2019 => &[
            "fitted: loop_ns to wlock at 1 thread, transfer_socket_ns to rlock at 4, kick_ns and wake_ns to mixed at 8",
            "the parameters were chosen with all cells in sight: held out from the fit, not from the eye",
            "reads and writes of mixed are drawn by chance; in strict turns all threads stay in step, and 64 are too fast",
            "unexplained: mixed at 4 threads, half of the published rate; the assembly's registers cost nothing here",
        ],
        TableName::Torture => &[
            "fitted: crowd_ns to the old lock's last reads, read_busy_ns to the queued lock's last writes",
            "chosen with both locks in sight; C6 and C7 hold with no write at all by the old lock in its last interval",
            "a slice of 30 ms stands for each interval between reports, the first for the time while threads are created",
            "unexplained: once all readers are there the old lock lets no writer in, where some 50 a second got in; \
             reports come on time here",
        ],
        TableName::Perf => &[
            "fitted: syscall_ns to futex hash, wake_ns to sched pipe, each with the current spinlock",
            "unexplained: pv's gain in futex hash (an atomic release can only lose), and q's loss in pipe",
            "lock-pi's lock is the same in all columns: a control that must not differ",
        ],
        TableName::UnixBench => &[
            "an emulation of lock footprints: each item is a number of spinlocks, assumed, and lowered \
             after a first comparison, and one length of work",
            "fitted: that length to the current spinlock on pHyp and PowerNV; rmw_ns to system calls with pv on pHyp; how \
             much slower KVM is to one file copy",
            "unexplained: what sets KVM apart (exec, context switches, and C14, process creation with the current lock)",
        ],
        TableName::Rwsem2014 => &[
            "no parameter was fitted: loop_ns and kept are as on the machine of 000; the locks were mended after a look at \
             what this table missed",
            "unexplained: the mutex at 2 threads is nearly twice too fast, which is why C17 does not hold",
        ],
        TableName::Aim7 => &[
            "an emulation of lock footprints: 40 operations on a rwsem that all share for each job, which makes gains \
             near the published ones; 1.5 us inside",
            "fitted: the time between them to three figures before the series; the gains were in sight: C18 is no \
             prediction",
        ],
        TableName::Extra => &[
            "kick_ns and wake_ns are 000's, taken after a comparison; of the commits the states between those of the kernels that were released are not modelled",
            "bistable: the new rwsem has two states at 16 threads and more, readers that pass each other and sleepers",
        ],
    }
}
