#!/usr/bin/env python3
"""Checks a Perfetto trace of pvlab against Perfetto's own descriptors, field by field.

    perfetto_check.py [--dump] FILE

Prints nothing if all is well (--dump: every slice, instant and counter value, a line each). Exit
codes: 0 all is well, 1 it is not, 77 the package `perfetto` is missing.
"""

import argparse
import collections
import json
import sys

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

OURS = 64  # our clock, within our sequence
PACKET, EVENT = pb.TracePacket, pb.TrackEvent
PHASES = {"spinning", "queued", "head", "halted, queued", "halted, head", "halted", "holding"}
STATES = {"running", "preempted", "halted", "off CPU", "running or runnable"}


class Wrong(Exception):
    """The trace is not as it should be."""


def check(condition, *words):
    if not condition:
        raise Wrong(" ".join(str(word) for word in words))


def check_known(message):
    """There is no field that the descriptors do not have, at any depth."""
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    check(not unknown, "unknown fields", unknown, "in", message.DESCRIPTOR.name)
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if isinstance(value, collections.abc.Iterable) else [value]:
                check_known(inner)


class Interned:
    """What a sequence's packets may refer to, since its state was cleared."""

    TABLES = {
        "event_names": "name",
        "event_categories": "name",
        "debug_annotation_names": "name",
        "debug_annotation_string_values": "str",
    }

    def __init__(self):
        self.clear()

    def clear(self):
        self.tables = {table: {} for table in self.TABLES}
        self.clock = None

    def add(self, data):
        for table, text in self.TABLES.items():
            for entry in getattr(data, table):
                value = getattr(entry, text)
                value = value.decode() if isinstance(value, bytes) else value
                check(entry.iid > 0 and value, "an empty entry in", table)
                before = self.tables[table].setdefault(entry.iid, value)
                check(before == value, table, entry.iid, "is both", before, "and", value)

    def get(self, table, iid):
        check(iid in self.tables[table], table, iid, "is not interned here")
        return self.tables[table][iid]


class Track:
    """A track, and what is open on it."""

    def __init__(self, descriptor):
        self.name, self.parent = descriptor.name, descriptor.parent_uuid
        self.counter = descriptor.HasField("counter")
        self.open, self.last, self.children = [], 0, 0


class Checker:
    """Takes the packets of a trace one after another."""

    def __init__(self):
        self.interned = Interned()
        self.tracks = {}
        self.offset = None  # of CLOCK_MONOTONIC_RAW from our clock
        self.header = self.end = None
        self.sources, self.sinks = {}, {}
        self.queued = collections.Counter()
        self.length = collections.Counter()  # as the counter has it
        self.stale = {}  # when it began not to be so
        self.acquired = collections.Counter()
        self.rates = collections.defaultdict(list)
        self.lines = []

    # Packets

    def packet(self, packet, first):
        check(self.end is None, "a packet after the end")
        check(packet.trusted_packet_sequence_id == 1, "another sequence")
        cleared = bool(packet.sequence_flags & PACKET.SEQ_INCREMENTAL_STATE_CLEARED)
        needs = bool(packet.sequence_flags & PACKET.SEQ_NEEDS_INCREMENTAL_STATE)
        check(cleared or not first, "the first packet does not clear the state")
        check(cleared or needs, "a packet that does not need the state")
        check(cleared == packet.HasField("clock_snapshot"), "clocks without a cleared state")
        if cleared:
            self.interned.clear()
            self.interned.clock = packet.trace_packet_defaults.timestamp_clock_id
            check(self.interned.clock == OURS, "the default clock is", self.interned.clock)
            self.clocks(packet.clock_snapshot)
        else:
            check(not packet.HasField("trace_packet_defaults"), "new defaults")
        self.interned.add(packet.interned_data)
        check(not packet.HasField("timestamp_clock_id"), "a clock of its own")
        if packet.HasField("track_descriptor"):
            self.descriptor(packet.track_descriptor)
        if packet.HasField("track_event"):
            check(packet.HasField("timestamp"), "an event without a time")
            self.event(packet.timestamp, packet.track_event)

    def clocks(self, snapshot):
        check(snapshot.primary_trace_clock == pb.BUILTIN_CLOCK_MONOTONIC_RAW, "primary clock")
        times = {clock.clock_id: clock.timestamp for clock in snapshot.clocks}
        check(len(times) == len(snapshot.clocks) == 2, "clocks", times)
        check(not any(c.is_incremental or c.unit_multiplier_ns for c in snapshot.clocks), "units")
        offset = times[pb.BUILTIN_CLOCK_MONOTONIC_RAW] - times[OURS]
        check(self.offset in (None, offset), "clocks drift")
        self.offset = offset

    def descriptor(self, descriptor):
        uuid, parent = descriptor.uuid, descriptor.parent_uuid
        check(uuid > 0 and uuid not in self.tracks, "track", uuid, "is there twice")
        check(descriptor.name, "track", uuid, "has no name")
        self.tracks[uuid] = track = Track(descriptor)
        check(not parent or parent in self.tracks, "track", uuid, "has no parent")
        if parent:
            rank = descriptor.sibling_order_rank
            siblings = [t for t in self.tracks.values() if t.parent == parent and t is not track]
            check(track.name not in [t.name for t in siblings], "siblings", track.name)
            check(not track.counter or descriptor.counter.unit_name, "a counter without unit")
            check(rank >= 0 and not self.tracks[parent].counter, "a child of a counter")

    def path(self, uuid):
        track = self.tracks[uuid]
        return (self.path(track.parent) if track.parent else ()) + (track.name,)

    # Track events

    def event(self, at, event):
        track = self.tracks.get(event.track_uuid)
        check(track, "an event on the unknown track", event.track_uuid)
        path = self.path(event.track_uuid)
        check(at >= track.last, "time goes back to", at, "on", path)
        track.last = at
        args = self.args(event)
        name = event.HasField("name_iid") and self.interned.get("event_names", event.name_iid)
        cats = [self.interned.get("event_categories", iid) for iid in event.category_iids]
        named = event.type in (EVENT.TYPE_SLICE_BEGIN, EVENT.TYPE_INSTANT)
        check(named == bool(name) and named == (len(cats) == 1), "names and categories", path)
        check(track.counter == (event.type == EVENT.TYPE_COUNTER), "counter or not", path)
        check(event.HasField("counter_value") == track.counter, "value of a counter", path)
        if not track.counter and not args.get("derived"):
            since = self.stale.get(path[:1], at)
            check(since is None or at <= since, "no queue length since", since, "of", path[0])
            self.stale.update({path[:1]: at} if since is None else {})
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            self.begin(at, track, path, name, args)
        elif event.type == EVENT.TYPE_SLICE_END:
            self.finish(at, track, path, args)
        elif event.type == EVENT.TYPE_INSTANT:
            self.instant(at, path, name, args)
        else:
            check(event.type == EVENT.TYPE_COUNTER, "type", event.type)
            self.count(at, path, event.counter_value)
        self.flows(at, event, path, name, args)

    def args(self, event):
        args = {}
        for annotation in event.debug_annotations:
            name = self.interned.get("debug_annotation_names", annotation.name_iid)
            check(name not in args, "annotation", name, "is there twice")
            kind = annotation.WhichOneof("value")
            value = getattr(annotation, kind)
            if kind == "string_value_iid":
                value = self.interned.get("debug_annotation_string_values", value)
            args[name] = value
        return args

    def begin(self, at, track, path, name, args):
        if path[-1].endswith(" lock"):
            check(name in PHASES and "lock" in args, "a slice", name, "on", path)
            check(name != "halted" or args.get("derived"), "a halt of which kind?")
            self.waiters(at, path[:1], name, 1, args)
            self.acquired[path[:1]] += name == "holding" and not args.get("derived")
        else:
            check(not track.open, "a slice in a slice on", path)
        if len(path) == 2 and path[1].startswith("vCPU "):
            check(name in STATES, "a state", name)
            check(args.get("derived") or "cpu" in args, "a state without CPU")
        if path[0].endswith("host CPUs"):
            check(name.startswith("VM ") and not args, "a slice", name, "on", path)
        track.open.append((at, name, args))

    def finish(self, at, track, path, args):
        check(track.open, "an end without a begin at", at, "on", path)
        begin, name, more = track.open.pop()
        check(begin <= at, "a slice ends before it begins")
        if args:
            check(name == "holding" and args == {"lock": more["lock"]}, "an end with", args)
        if path[-1].endswith(" lock"):
            self.waiters(at, path[:1], name, -1, args)
        self.lines.append((begin, path, len(track.open), name, at - begin, more))

    def waiters(self, at, vm, name, change, args):
        """The counter has to follow, with this event or, of a derived one, with the next."""
        self.queued[vm] += change * (name in ("queued", "head"))
        if self.queued[vm] == self.length[vm]:
            self.stale.pop(vm, None)
        else:
            self.stale.setdefault(vm, None if args.get("derived") else at)

    def instant(self, at, path, name, args):
        self.lines.append((at, path, -1, name, None, args))
        if path == ("pvlab",):
            if self.header is None:
                self.header = json.loads(args["header"])
                check(at == 0 and self.header["schema"] == name, "the header", name)
                start = self.header["clock"]["monotonic_raw_start_ns"]
                check(start == self.offset, "the clock starts at", start, "and", self.offset)
            else:
                self.end = json.loads(args["end"])
                check(at == self.end["end_ns"], "the end is at", at)

    def count(self, at, path, value):
        self.lines.append((at, path, -2, value, None, {}))
        check(value >= 0, "a negative counter")
        if path[-1] == "queue length":
            check(value == self.queued[path[:1]], "queue length", value, "at", at)
            self.length[path[:1]] = value
            self.stale.pop(path[:1], None)
        else:
            self.rates[path[:1]].append((at, value))

    def flows(self, at, event, path, name, args):
        check(not (event.flow_ids_old or event.terminating_flow_ids_old), "flows of old")
        for flow in event.flow_ids:
            check(name == "kick", "a flow from", name)
            check(flow not in self.sources, "flow", flow, "has two sources")
            self.sources[flow] = (at, path[0], f"vCPU {args['target']} lock")
        for flow in event.terminating_flow_ids:
            check(name == "woken", "a flow to", name)
            check(flow not in self.sinks, "flow", flow, "has two sinks")
            check(flow in self.sources, "flow", flow, "has no source before it")
            self.sinks[flow] = at
            kicked, vm, target = self.sources[flow]
            check(kicked <= at, "a wake before its kick")
            check((path[0], path[-1]) == (vm, target), "a kick of", target, "wakes", path)

    # The whole

    def whole(self):
        check(self.header, "no header")
        vcpus = [len(vm["vcpus"]) for vm in self.header["vms"]]
        paths = {self.path(uuid) for uuid in self.tracks}
        for vm, (spec, count) in enumerate(zip(self.header["vms"], vcpus)):
            kind = "simulated " if self.header["simulated"] else ""
            name = f"{kind}VM {vm} {spec['lock']}"
            for vcpu in (f"vCPU {vcpu}" for vcpu in range(count)):
                for path in [(), (f"{vcpu} lock",), (f"{vcpu} VMM",)]:
                    check((name, vcpu, *path) in paths, "no track of", name, vcpu, path)
        if self.end is None:
            return
        end = self.end["end_ns"]
        for uuid, track in self.tracks.items():
            check(not track.open, "a slice is open in the end on", self.path(uuid))
            check(track.last <= end, "something is after the end on", self.path(uuid))
        for vm, rates in self.rates.items():
            ends = [at for at, _ in rates[1:]] + [end]
            sums = sum(rate * (after - at) / 1e9 for (at, rate), after in zip(rates, ends))
            # Rates are whole numbers.
            slack = 1e-6 + end / 1e9
            check(abs(sums - self.acquired[vm]) <= slack, sums, "of", self.acquired[vm])

    def dump(self):
        for at, path, depth, name, duration, args in sorted(self.lines, key=lambda l: l[:3]):
            if "header" in args or "end" in args:
                continue
            where = " / ".join(path)
            what = [str(name)] + [f"{key}={value}" for key, value in args.items()]
            length = "" if duration is None else f" +{duration}"
            print(f"{at}{length} | {where} | {' '.join(what)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", action="store_true")
    parser.add_argument("file")
    options = parser.parse_args()
    with open(options.file, "rb") as file:
        trace = pb.Trace.FromString(file.read())
    checker = Checker()
    for number, packet in enumerate(trace.packet):
        try:
            check_known(packet)
            checker.packet(packet, number == 0)
        except Wrong as wrong:
            sys.exit(f"packet {number}: {wrong}\n{packet}")
    try:
        checker.whole()
    except Wrong as wrong:
        sys.exit(str(wrong))
    if options.dump:
        checker.dump()


main()
