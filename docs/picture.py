#!/usr/bin/env python3
"""Draws a window of a raw trace as SVG: a row for each vCPU, grouped by host CPU, and one for the lock.

    pvlab trace --lock qspinlock --vcpus 8 --cpus 0-1 --duration 1s -o run.jsonl
    docs/picture.py run.jsonl --from 0.20 --to 0.28 > picture.svg

Times are seconds since the trace began, as in the account. A holder that runs is drawn at least 2.5
pixels wide, or it could not be seen, and holds that then touch are one bar, "again and again";
anything else narrower than 0.2 pixels is left out.
"""

import argparse
import json
from html import escape

WIDTH, LEFT, RIGHT, TOP = 1000, 96, 18, 52
ROW, BAR, GROUP_GAP = 27, 18, 12
COLOURS = {  # in the order of painting, which is that of the legend
    "running": ("#9cc8f0", "on its CPU, spinning"),
    "preempted": ("#cdd1d8", "preempted"),
    "halted": ("#8f97a8", "halted"),
    "kicked": ("#c9a6e4", "kicked, not on its CPU yet"),
    "next_off": ("#f3922b", "lock free, but next in line is off its CPU"),
    "holder_off": ("#d3202f", "holding the lock, off its CPU"),
    "holding": ("#0d5a30", "holding the lock"),
    "often": ("#55ae78", "taking the lock again and again"),
}
LABELS = {"next_off": "next in line, off its CPU for", "holder_off": "has the lock, off its CPU for"}


class Vcpu:
    def __init__(self, on_cpu):
        self.on_cpu, self.blocked, self.kicked = on_cpu, False, False
        self.since, self.spans, self.holds, self.next = 0, {}, [], []

    def state(self):
        if self.on_cpu:
            return "running"
        return ("kicked" if self.kicked else "halted") if self.blocked else "preempted"

    def apply(self, event):
        """Takes over what an event says, and ends the span of the state that was until then."""
        before, kind = self.state(), event["event"]
        if kind in ("switch_in", "switch_out"):
            self.on_cpu = kind == "switch_in"
        elif kind in ("blocked", "unblocked"):
            self.blocked = kind == "blocked"
        elif kind in ("kick", "woken", "halt_queued", "halt_head"):
            self.kicked = kind == "kick"
        if self.state() != before:
            self.close(before, event["at_ns"])

    def close(self, state, now):
        self.spans.setdefault(state, []).append((self.since, now))
        self.since = now


def replay(lines, vm, lock):
    """Returns the header, the vCPUs with all their spans, and the time of the last line."""
    try:
        header = json.loads(next(lines, ""))
    except ValueError:
        header = {}
    if header.get("schema") != "pvlab.trace/1":
        raise SystemExit("not a raw trace of version 1: write one with pvlab trace -o run.jsonl")
    vcpus = [Vcpu(not header["switches"]) for _ in header["vms"][vm]["vcpus"]]
    taken, released, end = {}, None, 0
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # the file ended early
            break
        end = event.get("end_ns", event.get("at_ns", end))
        if event.get("vm") != vm:
            continue
        kind, number = event["event"], event["vcpu"]
        vcpus[event["target"] if kind == "kick" else number].apply(event)
        if event.get("lock") != lock:
            continue
        if kind == "acquired":
            if released is not None and event["how"] in ("queue", "pending"):
                vcpus[number].next.append((released, event["at_ns"]))
            taken[number] = event["at_ns"]
        elif kind == "release":
            if number in taken:
                vcpus[number].holds.append((taken.pop(number), event["at_ns"]))
            released = event["at_ns"]
    for number, since in taken.items():
        vcpus[number].holds.append((since, end))
    for vcpu in vcpus:
        vcpu.close(vcpu.state(), end)
    return header, vcpus, end


def overlap(these, those):
    """What is in both of two sorted lists of spans."""
    both, i, j = [], 0, 0
    while i < len(these) and j < len(those):
        start, end = max(these[i][0], those[j][0]), min(these[i][1], those[j][1])
        if start < end:
            both.append((start, end))
        if these[i][1] < those[j][1]:
            i += 1
        else:
            j += 1
    return both


def layers(vcpu):
    off = sorted(span for state, spans in vcpu.spans.items() if state != "running" for span in spans)
    return dict(vcpu.spans, holding=overlap(vcpu.holds, vcpu.spans.get("running", [])),
                next_off=overlap(vcpu.next, off), holder_off=overlap(vcpu.holds, off))


def draw(header, vcpus, vm, lock, begin, end):
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)
    out, paths = [], {state: [] for state in COLOURS}

    def text(x, y, words, size=14, fill="#30343b", more=""):
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{more}>{escape(words)}</text>')

    def bars(state, spans, y):
        least = 2.5 if state == "holding" else 0.2
        merged = []
        for start, stop in overlap(spans, [(begin, end)]):
            x, width = LEFT + (start - begin) * scale, (stop - start) * scale
            if state == "holding" and width < least:
                x, width = max(LEFT, x - (least - width) / 2), least
            if merged and x - merged[-1][1] < 0.5:
                merged[-1][1] = max(merged[-1][1], x + width)
            elif width >= least:
                merged.append([x, x + width])
        top, height = (y + BAR / 2 - 2, 4) if state == "halted" else (y, BAR)
        for x, stop in merged:
            often = state == "holding" and stop - x > 2 * least
            paths["often" if often else state].append(f"M{x:.1f} {top:.0f}h{stop - x:.1f}v{height}h-{stop - x:.1f}z")
        for start, stop in overlap(spans, [(begin, end)]) if state in LABELS else []:
            short = f"{(stop - start) / 1e6:.1f} ms"
            for words in (f"{LABELS[state]} {short}", short):
                if (stop - start) * scale > 7.5 * len(words):
                    middle = LEFT + ((start + stop) / 2 - begin) * scale
                    labels.append((middle, y + BAR - 4.5, words, "#fff" if state == "holder_off" else "#241505"))
                    break

    labels, y, cpus = [], TOP, header["vms"][vm]["vcpus"]
    rows = [layers(vcpu) for vcpu in vcpus]
    text(LEFT - 10, y + BAR - 4, "the lock", more=' text-anchor="end" font-weight="bold"')
    for state in ("next_off", "holder_off", "holding"):
        shown = len(labels)
        bars(state, sorted(span for row in rows for span in row[state]), y)
        del labels[shown:]
    y += ROW
    for cpu in sorted(set(cpus), key=lambda cpu: -1 if cpu is None else cpu):
        y += GROUP_GAP
        if cpu is not None:
            middle = y + (cpus.count(cpu) * ROW - ROW + BAR) / 2
            text(22, middle, f"CPU {cpu}", 13, "#6a707c",
                 f' text-anchor="middle" transform="rotate(-90 22 {middle:.1f})"')
        for number in (number for number, at in enumerate(cpus) if at == cpu):
            text(LEFT - 10, y + BAR - 4, f"vCPU {number}", more=' text-anchor="end"')
            for state in COLOURS:
                bars(state, rows[number].get(state, []), y)
            y += ROW

    step = next(s for s in (10**p * m for p in range(3, 12) for m in (1, 2, 5)) if (end - begin) / s <= 12)
    grid, tick = [], -(-begin // step) * step
    while tick <= end:
        x = LEFT + (tick - begin) * scale
        grid.append(f"M{x:.1f} {TOP - 8}V{y + 4}")
        text(x, y + 20, f"{tick / 1e6:g}", 13, more=' text-anchor="middle"')
        tick += step
    text((LEFT + WIDTH - RIGHT) / 2, y + 39, "time since the trace began (ms)", 13, "#6a707c", ' text-anchor="middle"')

    on = ", ".join(str(cpu) for cpu in sorted({cpu for cpu in cpus if cpu is not None})) or "any"
    words = f"{header['vms'][vm]['lock']}: {len(cpus)} vCPUs on CPUs {on}"
    text(LEFT, 27, words + (", simulated" if header["simulated"] else ""), 19, more=' font-weight="bold"')
    x, line = LEFT, y + 66
    for state, (colour, meaning) in COLOURS.items():
        width = 22 + sum(4.2 if letter in "fijlt ,'" else 8.2 for letter in meaning)
        if not paths[state]:
            continue
        if x + width > WIDTH - RIGHT:
            x, line = LEFT, line + 21
        thick = 4 if state == "halted" else 12
        out.append(f'<rect x="{x:.0f}" y="{line - thick / 2:.0f}" width="16" height="{thick}" fill="{colour}"/>')
        text(x + 22, line + 4.5, meaning, 13)
        x += width + 18
    body = [f'<path fill="{colour}" d="{"".join(paths[state])}"/>' for state, (colour, _) in COLOURS.items()
            if paths[state]]
    for x, at, words, fill in labels:
        text(x, at, words, 13, fill, ' text-anchor="middle"')
    height = line + 22
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fdfdfb"/>',
        f'<path stroke="#e6e7ea" d="{"".join(grid)}"/>', *body, *out, "</svg>"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=argparse.FileType("r", encoding="utf-8"),
                        help="raw trace, - for standard input")
    parser.add_argument("--from", dest="begin", type=float, default=0, help="begin of the window, s (default: 0)")
    parser.add_argument("--to", dest="end", type=float, help="end of the window, s (default: the end)")
    parser.add_argument("--vm", type=int, default=0, help="which VM (default: 0)")
    parser.add_argument("--lock", type=int, default=0, help="which of its locks (default: 0)")
    args = parser.parse_args()
    header, vcpus, last = replay(args.trace, args.vm, args.lock)
    begin, end = round(args.begin * 1e9), min(last, last if args.end is None else round(args.end * 1e9))
    if begin >= end:
        parser.error(f"nothing to draw: the trace ends at {last / 1e9} s")
    print(draw(header, vcpus, args.vm, args.lock, begin, end))


if __name__ == "__main__":
    main()
