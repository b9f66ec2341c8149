/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading of an MRC frame by an eBPF program: IPv6 in IPv6, UDP, BTH. `frame` holds the first FRAME_BYTES of the
 * frame, in place, or as a copy with zeros after the end of a shorter packet.
 */
#ifndef SPRAYLAB_MRC_FRAME_H
#define SPRAYLAB_MRC_FRAME_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "mrc.h"

#define FRAME_BYTES MRC_OFF_METH /* Ethernet, outer and inner IPv6, UDP, BTH */

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

static __always_inline int is_ipv6(const __u8 *frame)
{
	return be16(frame + MRC_OFF_ETH_TYPE) == MRC_ETHERTYPE_IPV6;
}

static __always_inline int is_tunnelled(const __u8 *frame)
{
	return is_ipv6(frame) && frame[MRC_OFF_OUTER_NH] == MRC_NH_IPV6;
}

/* DSCP of the outer IPv6 header. */
static __always_inline __u32 dscp_of(const __u8 *frame)
{
	return be16(frame + MRC_OFF_OUTER_CLASS_WORD) >> 6 & 0x3f;
}

/* The destination port of UDP inside IPv6 inside IPv6, or 0. */
static __always_inline __u32 udp_port(const __u8 *frame)
{
	if (!is_tunnelled(frame) || frame[MRC_OFF_INNER_NH] != MRC_NH_UDP)
		return 0;
	return be16(frame + MRC_OFF_UDP_DPORT);
}

static __always_inline int is_mrc(__u32 port)
{
	return port == MRC_PORT || port == MRC_PORT_ALT;
}

static __always_inline int is_write(__u32 port, const __u8 *frame)
{
	__u8 opcode = frame[MRC_OFF_BTH_OPCODE];

	return is_mrc(port) && opcode >= MRC_OP_WRITE_FIRST && opcode <= MRC_OP_WRITE_ONLY_IMM;
}

static __always_inline __u32 dqpn_of(const __u8 *frame)
{
	return be24(frame + MRC_OFF_BTH_DQP_WORD + 1);
}

static __always_inline __u32 psn_of(const __u8 *frame)
{
	return be24(frame + MRC_OFF_BTH_PSN_WORD + 1);
}

#endif
