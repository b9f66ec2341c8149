// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One fault on one port's way out: which packets it looks at, whether this one is hit, and what then happens to it.
 * A drop is silent: the sender is told that the packet left (STOLEN, not SHOT). Chance is a hash of a seed and the
 * number of the packet, so the same packets are hit each time. Frames are read by mrc_frame.h,
 * records come from fault.h.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "mrc_frame.h"
#include "fault.h"

#define HOST_BYTES 16

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

/* Whether the fault is in force. Ports whose faults come and go together share this map: one write, one edge. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gate SEC(".maps");

struct state {
	struct bpf_spin_lock lock;
	__u32 bad;
	__u64 seen;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tally SEC(".maps");

/* Where a queue pair's messages end: one that is known tells all others, which are as long. */
struct anchor {
	__u32 last_psn;
	__u32 packets;
	__u32 msn;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct anchor);
} anchors SEC(".maps");

/* splitmix64 (Steele, Lea, Flood 2014): the nth number of a seed. */
static __always_inline __u64 chance(__u64 seed, __u64 nth)
{
	__u64 z = seed + (nth + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* The headers that the packet has, out of those in the first FRAME_BYTES. Lengths are constant for older verifiers. */
static __always_inline void load_start(struct __sk_buff *skb, __u8 *frame)
{
	if (skb->len >= FRAME_BYTES)
		bpf_skb_load_bytes(skb, 0, frame, FRAME_BYTES);
	else if (skb->len >= MRC_OFF_INNER)
		bpf_skb_load_bytes(skb, 0, frame, MRC_OFF_INNER);
	else if (skb->len >= MRC_OFF_OUTER)
		bpf_skb_load_bytes(skb, 0, frame, MRC_OFF_OUTER);
}

static __always_inline int is_control(__u32 port, const __u8 *frame)
{
	__u8 opcode = frame[MRC_OFF_BTH_OPCODE];

	return is_mrc(port) && (opcode == MRC_OP_SACK || opcode == MRC_OP_NACK || opcode == MRC_OP_ACKNOWLEDGE);
}

static __always_inline __u32 ev_of(const __u8 *frame)
{
	__u32 sport = be16(frame + MRC_OFF_UDP_SPORT), label = be16(frame + MRC_OFF_INNER_CLASS_WORD + 2);

	return sport << 16 | label;
}

/* How many packets of a write's message follow it, or a number that no message reaches when that is not known. */
static __always_inline __u32 packets_after(struct __sk_buff *skb, const __u8 *frame)
{
	__u8 more[MRC_WRITE_HEADERS_BYTES - MRC_OFF_METH];
	__u32 qpn = dqpn_of(frame), psn = psn_of(frame), last, payload;
	__u8 opcode = frame[MRC_OFF_BTH_OPCODE];
	struct anchor *known = bpf_map_lookup_elem(&anchors, &qpn), fresh = {};
	__s16 ahead;

	if (opcode >= MRC_OP_WRITE_LAST)
		fresh.last_psn = psn;
	if (bpf_skb_load_bytes(skb, MRC_OFF_METH, more, sizeof(more)))
		return opcode >= MRC_OP_WRITE_LAST ? 0 : ~0U;
	fresh.msn = be16(more + MRC_OFF_METH_MSN - MRC_OFF_METH);
	payload = skb->len - MRC_WRITE_HEADERS_BYTES - 4; /* the ICRC; only full packets begin or continue a message */
	if (opcode <= MRC_OP_WRITE_MIDDLE && payload && skb->len > MRC_WRITE_HEADERS_BYTES + 4)
		fresh.packets = (be32(more + MRC_OFF_RETH_DMALEN - MRC_OFF_METH) + payload - 1) / payload;
	else if (known)
		fresh.packets = known->packets;
	if (opcode == MRC_OP_WRITE_FIRST)
		fresh.last_psn = (psn + fresh.packets - 1) & MRC_PSN_MASK;
	if (opcode != MRC_OP_WRITE_MIDDLE)
		bpf_map_update_elem(&anchors, &qpn, &fresh, BPF_ANY);
	if (opcode >= MRC_OP_WRITE_LAST)
		return 0;
	if (opcode == MRC_OP_WRITE_FIRST)
		return fresh.packets - 1;
	if (!known)
		return ~0U;
	ahead = (__s16)(fresh.msn - known->msn);
	last = known->last_psn + (__s32)ahead * fresh.packets;
	return (last - psn) & MRC_PSN_MASK;
}

/* Whether the fault looks at this packet. `frame` holds its first bytes, zeros if it has fewer. */
static __always_inline int selected(struct __sk_buff *skb, const struct config *want, const __u8 *frame)
{
	__u32 only = want->only, port = udp_port(frame);
	int i;

	if (only & ONLY_SIZE && (skb->len < want->min_bytes || skb->len > want->max_bytes))
		return 0;
	if (only & ONLY_FORWARDED && !is_tunnelled(frame))
		return 0;
	if (only & ONLY_CONTROL && !is_control(port, frame))
		return 0;
	if (only & ONLY_QP && (!is_mrc(port) || dqpn_of(frame) != want->qpn))
		return 0;
	if (only & ONLY_EV && (!is_mrc(port) || (ev_of(frame) ^ want->ev) & want->ev_mask))
		return 0;
	if (only & ONLY_DSCP && (!is_ipv6(frame) || dscp_of(frame) != want->dscp))
		return 0;
	if (only & ONLY_FIRST_SENT && (!is_write(port, frame) || frame[MRC_OFF_BTH_FLAGS] & MRC_FLAG_RTX))
		return 0;
	if (only & ONLY_HOST) {
		if (!is_tunnelled(frame))
			return 0;
		for (i = 0; i < HOST_BYTES; i++)
			if (frame[MRC_OFF_INNER_DST + i] != want->host[i])
				return 0;
	}
	if (only & ONLY_LAST && (!is_write(port, frame) || packets_after(skb, frame) >= want->last))
		return 0;
	return 1;
}

static __always_inline int is_hit(const struct config *want, struct state *now, __u64 nth)
{
	__u64 number = chance(want->seed, nth);
	__u32 first = number, second = number >> 32;
	int hit;

	switch (want->mode) {
	case MODE_COUNTED:
		return want->every && nth % want->every == want->every - 1;
	case MODE_BURST:
		bpf_spin_lock(&now->lock);
		hit = first < (now->bad ? want->bad : want->good);
		if (second < (now->bad ? want->to_good : want->to_bad))
			now->bad = !now->bad;
		bpf_spin_unlock(&now->lock);
		return hit;
	default:
		return first < want->threshold;
	}
}

/* Turn one bit behind the outer header: the packet arrives where it should, and is wrong. */
static __always_inline void corrupt(struct __sk_buff *skb, __u64 number)
{
	__u32 first = MRC_OFF_INNER, at;
	__u8 byte;

	if (skb->len <= first)
		first = MRC_OFF_OUTER;
	if (skb->len <= first)
		return;
	at = first + (__u32)(number >> 35) % (skb->len - first);
	if (bpf_skb_load_bytes(skb, at, &byte, 1))
		return;
	byte ^= 1 << ((number >> 32) & 7);
	bpf_skb_store_bytes(skb, at, &byte, 1, 0);
}

/* A copy leaves by the same port. Its mark tells the faults up to this one that they have had it. */
static __always_inline void duplicate(struct __sk_buff *skb, const struct config *want)
{
	__u32 mark = skb->mark;

	skb->mark = COPY_MARK | want->priority;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->mark = mark;
}

SEC("classifier")
int fault(struct __sk_buff *skb)
{
	__u8 frame[FRAME_BYTES] = {};
	__u32 zero = 0;
	__u64 nth;
	__u32 *open = bpf_map_lookup_elem(&gate, &zero);
	struct config *want = bpf_map_lookup_elem(&config, &zero);
	struct tally *mine = bpf_map_lookup_elem(&tally, &zero);
	struct state *now = bpf_map_lookup_elem(&state, &zero);

	if (!open || !*open || !want || !mine || !now)
		return TC_ACT_UNSPEC;
	if ((skb->mark & COPY_MASK) == COPY_MARK && want->priority <= (skb->mark & ~COPY_MASK))
		return TC_ACT_UNSPEC;
	mine->passed++;
	if (want->only) {
		load_start(skb, frame);
		if (!selected(skb, want, frame))
			return TC_ACT_UNSPEC;
	}
	nth = __sync_fetch_and_add(&now->seen, 1);
	mine->seen++;
	if (!is_hit(want, now, nth))
		return TC_ACT_UNSPEC;
	mine->hit++;
	if (want->effect == EFFECT_CORRUPT) {
		corrupt(skb, chance(~want->seed, nth));
		return TC_ACT_UNSPEC;
	}
	if (want->effect == EFFECT_DUPLICATE) {
		duplicate(skb, want);
		return TC_ACT_UNSPEC;
	}
	if (!want->only)
		load_start(skb, frame);
	mine->hit_writes += is_write(udp_port(frame), frame);
	return TC_ACT_STOLEN;
}

char LICENSE[] SEC("license") = "GPL";
