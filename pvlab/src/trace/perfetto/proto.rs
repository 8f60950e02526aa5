//! Field numbers of the messages used here, from Perfetto's `protos/perfetto/trace`.

/// Declares modules of constants: one for each message, or for one with its inner message.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident: $number:ty { $($(#[$what:meta])* $name:ident = $value:literal,)+ })+) => {
        $($(#[$doc])* pub(super) mod $message {
            $($(#[$what])* pub(in super::super) const $name: $number = $value;)+
        })+
    };
}

messages! {
    /// Of `Trace`.
    trace: u32 { PACKET = 1, }
    /// Of `TracePacket`.
    packet: u32 {
        CLOCK_SNAPSHOT = 6, TIMESTAMP = 8, TRUSTED_PACKET_SEQUENCE_ID = 10, TRACK_EVENT = 11,
        INTERNED_DATA = 12, SEQUENCE_FLAGS = 13, TRACE_PACKET_DEFAULTS = 59, TRACK_DESCRIPTOR = 60,
    }
    /// Values of `SEQUENCE_FLAGS`.
    flags: u64 {
        /// `SEQ_INCREMENTAL_STATE_CLEARED`.
        STATE_CLEARED = 1,
        /// `SEQ_NEEDS_INCREMENTAL_STATE`.
        NEEDS_STATE = 2,
    }
    /// Of `TracePacketDefaults`.
    defaults: u32 { TIMESTAMP_CLOCK_ID = 58, }
    /// Of `ClockSnapshot` and its `Clock`.
    clock: u32 { CLOCKS = 1, PRIMARY_TRACE_CLOCK = 2, CLOCK_ID = 1, TIMESTAMP = 2, }
    /// Values of `CLOCK_ID`.
    clock_id: u64 {
        /// `BUILTIN_CLOCK_MONOTONIC_RAW`.
        MONOTONIC_RAW = 5,
        /// Ours: ns since the trace began. 64 to 127 are each sequence's own.
        SINCE_START = 64,
    }
    /// Of `InternedData`, and of its entries.
    interned: u32 {
        EVENT_CATEGORIES = 1, EVENT_NAMES = 2, DEBUG_ANNOTATION_NAMES = 3,
        DEBUG_ANNOTATION_STRING_VALUES = 29, IID = 1, NAME = 2,
    }
    /// Of `TrackDescriptor` and its `CounterDescriptor`.
    track: u32 {
        UUID = 1, NAME = 2, PARENT_UUID = 5, COUNTER = 8, CHILD_ORDERING = 11,
        SIBLING_ORDER_RANK = 12, COUNTER_UNIT_NAME = 6,
    }
    /// Values of `CHILD_ORDERING`.
    ordering: u64 {
        /// `EXPLICIT`: by `sibling_order_rank`.
        EXPLICIT = 3,
    }
    /// Of `TrackEvent` and its `DebugAnnotation`.
    event: u32 {
        CATEGORY_IIDS = 3, DEBUG_ANNOTATIONS = 4, TYPE = 9, NAME_IID = 10, TRACK_UUID = 11,
        COUNTER_VALUE = 30, FLOW_IDS = 47, TERMINATING_FLOW_IDS = 48,
        ANNOTATION_NAME_IID = 1, BOOL_VALUE = 2, UINT_VALUE = 3, STRING_VALUE = 6, STRING_VALUE_IID = 17,
    }
}
