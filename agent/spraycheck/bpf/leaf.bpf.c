// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SprayCheck's data plane on a leaf, two classifiers that never drop and never redirect:
 * `from_host` marks the packets of announced flows, `from_spine` counts marked packets by destination QP and arrival
 * spine until the flow's last PSN. Thresholds are not computed here. Offsets come from mrc.h, records from leaf.h.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "mrc.h"
#include "leaf.h"

#define BASE_BYTES MRC_OFF_METH /* Ethernet, outer and inner IPv6, UDP, BTH */
#define ANNOUNCE_BYTES (MRC_ANNOUNCE_FRAME_BYTES - MRC_OFF_ANNOUNCE)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u64);
} measured SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct superseded_key);
	__type(value, struct flow);
} superseded SEC(".maps");

/* Never written: the value a new flow starts from, too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} blank SEC(".maps");

static __always_inline __u32 be16(const __u8 *at)
{
	return (__u32)at[0] << 8 | at[1];
}

static __always_inline __u32 be24(const __u8 *at)
{
	return (__u32)at[0] << 16 | (__u32)at[1] << 8 | at[2];
}

static __always_inline __u32 be32(const __u8 *at)
{
	return (__u32)at[0] << 24 | be24(at + 1);
}

/*
 * The UDP destination port of an IPv6-in-IPv6 datagram whose first BASE_BYTES are now in `frame`, or 0. Copied rather
 * than read in place: on its first hop a packet from a TX ring has nothing but its Ethernet header in linear memory.
 */
static __always_inline __u32 udp_port(struct __sk_buff *skb, __u8 *frame)
{
	if (bpf_skb_load_bytes(skb, 0, frame, BASE_BYTES))
		return 0;
	if (be16(frame + MRC_OFF_ETH_TYPE) != MRC_ETHERTYPE_IPV6 || frame[MRC_OFF_OUTER_NH] != MRC_NH_IPV6 ||
	    frame[MRC_OFF_INNER_NH] != MRC_NH_UDP)
		return 0;
	return be16(frame + MRC_OFF_UDP_DPORT);
}

static __always_inline int is_write(__u32 port, const __u8 *frame)
{
	__u8 opcode = frame[MRC_OFF_BTH_OPCODE];

	return (port == MRC_PORT || port == MRC_PORT_ALT) && opcode >= MRC_OP_WRITE_FIRST &&
	       opcode <= MRC_OP_WRITE_ONLY_IMM;
}

static __always_inline __u32 dqpn_of(const __u8 *frame)
{
	return be24(frame + MRC_OFF_BTH_DQP_WORD + 1);
}

static __always_inline __u32 psn_of(const __u8 *frame)
{
	return be24(frame + MRC_OFF_BTH_PSN_WORD + 1);
}

/* Loads an announcement's body; 0 if this is one that crosses the fabric. */
static __always_inline int load_announcement(struct __sk_buff *skb, __u8 *body)
{
	if (bpf_skb_load_bytes(skb, MRC_OFF_ANNOUNCE, body, ANNOUNCE_BYTES))
		return -1;
#define FIELD(name) (body + MRC_OFF_ANNOUNCE_##name - MRC_OFF_ANNOUNCE)
	if (be32(FIELD(MAGIC)) != MRC_ANNOUNCE_MAGIC || *FIELD(VERSION) != MRC_ANNOUNCE_VERSION)
		return -1;
	return be16(FIELD(SRC_LEAF)) == be16(FIELD(DST_LEAF)) ? -1 : 0;
}

SEC("classifier")
int from_host(struct __sk_buff *skb)
{
	__u8 frame[BASE_BYTES], body[ANNOUNCE_BYTES];
	__u32 dqpn, port = udp_port(skb, frame);

	if (is_write(port, frame)) {
		__u8 var_res = frame[MRC_OFF_BTH_VAR_RES] | MRC_SPRAYCHECK_MARK;

		dqpn = dqpn_of(frame);
		if (bpf_map_lookup_elem(&measured, &dqpn)) /* outside the ICRC, and the UDP checksum is zero */
			bpf_skb_store_bytes(skb, MRC_OFF_BTH_VAR_RES, &var_res, 1, 0);
	} else if (port == MRC_PORT_ANNOUNCE && !load_announcement(skb, body)) {
		__u64 now = bpf_ktime_get_ns();

		dqpn = be32(FIELD(DQPN));
		bpf_map_update_elem(&measured, &dqpn, &now, BPF_ANY);
	}
	return TC_ACT_UNSPEC;
}

/* Whether a PSN belongs to the announced flow, modulo 2^24; flows are shorter than that. */
static __always_inline int in_flow(__u32 psn, __u32 start, __u32 last)
{
	return ((psn - start) & MRC_PSN_MASK) <= ((last - start) & MRC_PSN_MASK);
}

static __always_inline struct flow *begin_flow(__u32 dqpn)
{
	__u32 zero = 0;
	struct flow *flow = bpf_map_lookup_elem(&blank, &zero);

	if (!flow)
		return 0;
	bpf_map_update_elem(&flows, &dqpn, flow, BPF_ANY);
	flow = bpf_map_lookup_elem(&flows, &dqpn);
	if (flow) {
		flow->dqpn = dqpn;
		flow->seen_ns = bpf_ktime_get_ns();
	}
	return flow;
}

/* An announcement comes once a path: the first copy begins the flow, or completes one whose packets overtook it. */
static __always_inline void announce(const __u8 *body)
{
	__u32 dqpn = be32(FIELD(DQPN)), epoch = be16(FIELD(EPOCH));
	__u32 start = be32(FIELD(START_PSN)), last = be32(FIELD(LAST_PSN));
	struct flow *flow = bpf_map_lookup_elem(&flows, &dqpn);

	if (flow && flow->announced_ns) {
		struct superseded_key key = {.dqpn = dqpn, .epoch = flow->epoch};

		if (flow->epoch == epoch)
			return;
		bpf_map_update_elem(&superseded, &key, flow, BPF_ANY);
		flow = 0;
	}
	if (!flow || !in_flow(flow->first_psn, start, last))
		flow = begin_flow(dqpn);
	if (!flow)
		return;
	flow->start_psn = start;
	flow->last_psn = last;
	flow->packets = be32(FIELD(PACKETS));
	flow->epoch = epoch;
	flow->spines = be16(FIELD(SPINES));
	flow->src_leaf = be16(FIELD(SRC_LEAF));
	flow->dst_leaf = be16(FIELD(DST_LEAF));
	flow->src_host = be16(FIELD(SRC_HOST));
	flow->dst_host = be16(FIELD(DST_HOST));
	flow->plane = *FIELD(PLANE);
	flow->policy = *FIELD(POLICY);
	flow->announced_ns = bpf_ktime_get_ns();
}

static __always_inline void count(const __u8 *frame, __u32 spine)
{
	__u32 dqpn = dqpn_of(frame), psn = psn_of(frame);
	int first = !(frame[MRC_OFF_BTH_FLAGS] & MRC_FLAG_RTX);
	struct flow *flow = bpf_map_lookup_elem(&flows, &dqpn);

	if (!flow && first) {
		flow = begin_flow(dqpn);
		if (flow)
			flow->first_psn = psn;
	}
	if (!flow || spine >= MAX_SPINES || (flow->announced_ns && !in_flow(psn, flow->start_psn, flow->last_psn)))
		return;
	if (first) {
		barrier_var(spine); /* or the compiler drops the mask, and the verifier the program */
		spine &= MAX_SPINES - 1;
		__sync_fetch_and_add(flow->stopped_ns ? &flow->late[spine] : &flow->arrived[spine], 1);
	}
	if (flow->announced_ns && psn == flow->last_psn && !flow->stopped_ns)
		flow->stopped_ns = bpf_ktime_get_ns();
}

SEC("classifier")
int from_spine(struct __sk_buff *skb)
{
	__u8 frame[BASE_BYTES], body[ANNOUNCE_BYTES];
	__u32 port = udp_port(skb, frame);

	if (is_write(port, frame)) {
		if (frame[MRC_OFF_BTH_VAR_RES] & MRC_SPRAYCHECK_MARK)
			count(frame, skb->ifindex - FIRST_SPINE_IFINDEX);
	} else if (port == MRC_PORT_ANNOUNCE && !load_announcement(skb, body)) {
		announce(body);
	}
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
