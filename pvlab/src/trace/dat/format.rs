//! The events of a `trace.dat`: those that kernel developers' tools know by name, and our own.

/// A field: its type and name, its offset and size in bytes, and whether it is signed.
type Field = (&'static str, u32, u32, bool);

/// An event's number, system, name, fields, and how it is printed.
pub(super) struct Format {
    pub(super) id: u16,
    pub(super) system: &'static str,
    name: &'static str,
    fields: &'static [Field],
    print: &'static str,
}

/// Fields that every event has.
const COMMON: &[Field] = &[
    ("unsigned short common_type", 0, 2, false),
    ("unsigned char common_flags", 2, 1, false),
    ("unsigned char common_preempt_count", 3, 1, false),
    ("int common_pid", 4, 4, true),
];

const LOCK: Field = ("void * lock_addr", 8, 8, false);

pub(super) const SWITCH: u16 = 1;
pub(super) const ENTRY: u16 = 2;
pub(super) const EXIT: u16 = 3;
pub(super) const WAKEUP: u16 = 4;
pub(super) const CONTENTION_BEGIN: u16 = 5;
pub(super) const CONTENTION_END: u16 = 6;
pub(super) const STEP: u16 = 7;
pub(super) const BLOCKED: u16 = 8;
pub(super) const INJECTED: u16 = 9;
pub(super) const GAP: u16 = 10;

/// Every event, those of one system one after the other.
pub(super) const FORMATS: &[Format] = &[
    Format {
        id: SWITCH,
        system: "sched",
        name: "sched_switch",
        fields: &[
            ("char prev_comm[16]", 8, 16, false),
            ("pid_t prev_pid", 24, 4, true),
            ("int prev_prio", 28, 4, true),
            ("long prev_state", 32, 8, true),
            ("char next_comm[16]", 40, 16, false),
            ("pid_t next_pid", 56, 4, true),
            ("int next_prio", 60, 4, true),
        ],
        print: r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, __print_symbolic(REC->prev_state, { 0, "R" }, { 1, "S" }), REC->next_comm, REC->next_pid, REC->next_prio"#,
    },
    Format {
        id: ENTRY,
        system: "kvm",
        name: "kvm_entry",
        fields: &[
            ("unsigned int vcpu_id", 8, 4, false),
            ("unsigned long rip", 16, 8, false),
        ],
        print: r#""vcpu %u, rip 0x%lx", REC->vcpu_id, REC->rip"#,
    },
    Format {
        id: EXIT,
        system: "kvm",
        name: "kvm_exit",
        fields: &[
            ("unsigned int exit_reason", 8, 4, false),
            ("unsigned int isa", 12, 4, false),
            ("unsigned long guest_rip", 16, 8, false),
            ("u64 info1", 24, 8, false),
            ("u64 info2", 32, 8, false),
            ("unsigned int vcpu_id", 40, 4, false),
        ],
        print: r#""vcpu %u reason %u", REC->vcpu_id, REC->exit_reason"#,
    },
    Format {
        id: WAKEUP,
        system: "kvm",
        name: "kvm_vcpu_wakeup",
        fields: &[
            ("__u64 ns", 8, 8, false),
            ("bool waited", 16, 1, false),
            ("bool valid", 17, 1, false),
        ],
        print: r#""%s time %llu ns", REC->waited ? "wait" : "poll", REC->ns"#,
    },
    Format {
        id: CONTENTION_BEGIN,
        system: "lock",
        name: "contention_begin",
        fields: &[LOCK, ("unsigned int flags", 16, 4, false)],
        print: r#""%p (flags=SPIN)", REC->lock_addr"#,
    },
    Format {
        id: CONTENTION_END,
        system: "lock",
        name: "contention_end",
        fields: &[LOCK, ("int ret", 16, 4, true)],
        print: r#""%p (ret=%d)", REC->lock_addr, REC->ret"#,
    },
    Format {
        id: STEP,
        system: "pvlab",
        name: "lock_step",
        fields: &[
            ("unsigned short vm", 8, 2, false),
            ("unsigned short lock", 10, 2, false),
            ("unsigned int detail", 12, 4, false),
            ("char step[16]", 16, 16, false),
        ],
        print: r#""vm%u lock %u: %s %u", REC->vm, REC->lock, REC->step, REC->detail"#,
    },
    Format {
        id: BLOCKED,
        system: "pvlab",
        name: "vcpu_blocked",
        fields: &[("unsigned int vcpu_id", 8, 4, false)],
        print: r#""vcpu %u is halted", REC->vcpu_id"#,
    },
    Format {
        id: INJECTED,
        system: "pvlab",
        name: "held_off",
        fields: &[("u64 ns", 8, 8, false)],
        print: r#""off its CPU for %llu ns, as asked", REC->ns"#,
    },
    Format {
        id: GAP,
        system: "pvlab",
        name: "gap",
        fields: &[("u64 dropped", 8, 8, false)],
        print: r#""%llu events are missing here", REC->dropped"#,
    },
];

impl Format {
    /// The event's format file, as in tracefs.
    pub(super) fn text(&self) -> String {
        let lines = |fields: &[Field]| -> String {
            let fields = fields.iter();
            let line = |(what, offset, size, signed): &Field| {
                let signed = u8::from(*signed);
                format!("\tfield:{what};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
            };
            fields.map(line).collect()
        };
        format!(
            "name: {}\nID: {}\nformat:\n{}\n{}\nprint fmt: {}\n",
            self.name,
            self.id,
            lines(COMMON),
            lines(self.fields),
            self.print
        )
    }
}

/// What a page begins with.
pub(super) const HEADER_PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

/// How an event begins.
pub(super) const HEADER_EVENT: &str = "\
# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";
