//! Field numbers of the messages used here, from Perfetto's `protos/perfetto/trace`.

/// Of `Trace`.
pub(super) mod trace {
    pub(in super::super) const PACKET: u32 = 1;
}

/// Of `TracePacket`.
pub(super) mod packet {
    pub(in super::super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED_DATA: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const TRACE_PACKET_DEFAULTS: u32 = 59;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;

    /// `SEQ_INCREMENTAL_STATE_CLEARED`.
    pub(in super::super) const STATE_CLEARED: u64 = 1;
    /// `SEQ_NEEDS_INCREMENTAL_STATE`.
    pub(in super::super) const NEEDS_STATE: u64 = 2;
}

/// Of `TracePacketDefaults`.
pub(super) mod defaults {
    pub(in super::super) const TIMESTAMP_CLOCK_ID: u32 = 58;
}

/// Of `ClockSnapshot` and its `Clock`.
pub(super) mod clock {
    pub(in super::super) const CLOCKS: u32 = 1;
    pub(in super::super) const PRIMARY_TRACE_CLOCK: u32 = 2;
    pub(in super::super) const CLOCK_ID: u32 = 1;
    pub(in super::super) const TIMESTAMP: u32 = 2;

    /// `BUILTIN_CLOCK_MONOTONIC_RAW`.
    pub(in super::super) const MONOTONIC_RAW: u64 = 5;
    /// Ours: ns since the trace began. 64 to 127 are each sequence's own.
    pub(in super::super) const SINCE_START: u64 = 64;
}

/// Of `InternedData`, and of its entries.
pub(super) mod interned {
    pub(in super::super) const EVENT_CATEGORIES: u32 = 1;
    pub(in super::super) const EVENT_NAMES: u32 = 2;
    pub(in super::super) const DEBUG_ANNOTATION_NAMES: u32 = 3;
    pub(in super::super) const DEBUG_ANNOTATION_STRING_VALUES: u32 = 29;
    pub(in super::super) const IID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
}

/// Of `TrackDescriptor` and its `CounterDescriptor`.
pub(super) mod track {
    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PARENT_UUID: u32 = 5;
    pub(in super::super) const COUNTER: u32 = 8;
    pub(in super::super) const CHILD_ORDERING: u32 = 11;
    pub(in super::super) const SIBLING_ORDER_RANK: u32 = 12;
    pub(in super::super) const COUNTER_UNIT_NAME: u32 = 6;

    /// `EXPLICIT`: by `sibling_order_rank`.
    pub(in super::super) const EXPLICIT: u64 = 3;
}

/// Of `TrackEvent` and its `DebugAnnotation`.
pub(super) mod event {
    pub(in super::super) const CATEGORY_IIDS: u32 = 3;
    pub(in super::super) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const NAME_IID: u32 = 10;
    pub(in super::super) const TRACK_UUID: u32 = 11;
    pub(in super::super) const COUNTER_VALUE: u32 = 30;
    pub(in super::super) const FLOW_IDS: u32 = 47;
    pub(in super::super) const TERMINATING_FLOW_IDS: u32 = 48;

    pub(in super::super) const ANNOTATION_NAME_IID: u32 = 1;
    pub(in super::super) const BOOL_VALUE: u32 = 2;
    pub(in super::super) const UINT_VALUE: u32 = 3;
    pub(in super::super) const STRING_VALUE: u32 = 6;
    pub(in super::super) const STRING_VALUE_IID: u32 = 17;
}
