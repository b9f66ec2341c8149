// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Random loss on one port's way out: each packet is dropped when a 32-bit random number is below a threshold. Counts
 * what it saw and dropped. The loss is silent: the sender is told that the packet left (STOLEN, not SHOT).
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "mrc.h"
#include "drop.h"

#define BASE_BYTES MRC_OFF_METH /* Ethernet, outer and inner IPv6, UDP, BTH */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64); /* 2^32 drops everything */
} threshold SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tally SEC(".maps");

static __always_inline __u32 be16(const __u8 *at)
{
	return (__u32)at[0] << 8 | at[1];
}

/* Whether this is an MRC write, so that losses can be held against retransmissions. */
static __always_inline int is_write(struct __sk_buff *skb)
{
	__u8 frame[BASE_BYTES];
	__u32 port;

	if (bpf_skb_load_bytes(skb, 0, frame, BASE_BYTES))
		return 0;
	if (be16(frame + MRC_OFF_ETH_TYPE) != MRC_ETHERTYPE_IPV6 || frame[MRC_OFF_OUTER_NH] != MRC_NH_IPV6 ||
	    frame[MRC_OFF_INNER_NH] != MRC_NH_UDP)
		return 0;
	port = be16(frame + MRC_OFF_UDP_DPORT);
	return (port == MRC_PORT || port == MRC_PORT_ALT) && frame[MRC_OFF_BTH_OPCODE] >= MRC_OP_WRITE_FIRST &&
	       frame[MRC_OFF_BTH_OPCODE] <= MRC_OP_WRITE_ONLY_IMM;
}

SEC("classifier")
int drop(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *below = bpf_map_lookup_elem(&threshold, &zero);
	struct tally *mine = bpf_map_lookup_elem(&tally, &zero);

	if (!below || !mine)
		return TC_ACT_UNSPEC;
	mine->seen++;
	if (bpf_get_prandom_u32() >= *below)
		return TC_ACT_UNSPEC;
	mine->dropped++;
	mine->dropped_writes += is_write(skb);
	return TC_ACT_STOLEN;
}

char LICENSE[] SEC("license") = "GPL";
