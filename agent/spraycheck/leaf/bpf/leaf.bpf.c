// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SprayCheck's data plane on a leaf, two classifiers that never drop and never redirect:
 * `from_host` chooses which announced flows are measured, marks and counts their packets, `from_spine` counts marked packets by
 * destination QP and arrival spine, and compares the counts when the flow's last PSN comes. Thresholds are not computed
 * here. Frames are read by mrc_frame.h, records from leaf.h.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "mrc_frame.h"
#include "leaf.h"

#define ANNOUNCE_BYTES (MRC_ANNOUNCE_FRAME_BYTES - MRC_OFF_ANNOUNCE)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEASURED_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct mark);
} measured SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct selected);
} selection SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct test);
} tests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct superseded_key);
	__type(value, struct flow);
} superseded SEC(".maps");

/* Flows for which one of the maps had no room, for the control plane. Such a flow is not begun later, in its middle. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, REFUSED_MOST);
	__type(key, __u32);
	__type(value, struct refusal);
} refused SEC(".maps");

/* What senders declare of flows in other planes; the control plane takes it out. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct elsewhere_key);
	__type(value, struct elsewhere);
} elsewhere SEC(".maps");

/* Never written: the values that new flows start from, too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct elsewhere);
} blank_elsewhere SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} blank SEC(".maps");

/*
 * The first FRAME_BYTES of a packet, in place, or 0 where it is shorter. On its first hop a packet from a TX ring has
 * nothing but its Ethernet header in linear memory; the next router would have to fetch the rest anyway.
 */
static __always_inline __u8 *frame_of(struct __sk_buff *skb)
{
	if (skb->len < FRAME_BYTES)
		return 0;
	if (skb->data_end - skb->data < FRAME_BYTES && bpf_skb_pull_data(skb, FRAME_BYTES))
		return 0;
	if ((void *)(long)skb->data + FRAME_BYTES > (void *)(long)skb->data_end)
		return 0;
	return (void *)(long)skb->data;
}

/* Whether a PSN belongs to the announced flow, modulo 2^24; flows are shorter than that. */
static __always_inline int in_flow(__u32 psn, __u32 start, __u32 end)
{
	return ((psn - start) & MRC_PSN_MASK) <= ((end - start) & MRC_PSN_MASK);
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

/* Notes that there was no room for an announced flow; it is not measured, whatever room there will be. */
static __always_inline void refuse(const __u8 *body, __u8 place)
{
	struct refusal refusal = {.since_ns = bpf_ktime_get_ns(), .dqpn = be32(FIELD(DQPN)), .epoch = be16(FIELD(EPOCH)),
				  .start_psn = be32(FIELD(START_PSN)), .end_psn = be32(FIELD(END_PSN)),
				  .src_leaf = be16(FIELD(SRC_LEAF)), .dst_leaf = be16(FIELD(DST_LEAF)),
				  .src_host = be16(FIELD(SRC_HOST)), .dst_host = be16(FIELD(DST_HOST)),
				  .plane = *FIELD(PLANE), .place = place};

	bpf_map_update_elem(&refused, &refusal.dqpn, &refusal, BPF_ANY);
}

/* The same for a packet that has overtaken its announcement, of which only that is known. */
static __always_inline void refuse_packet(__u32 dqpn, __u32 psn)
{
	struct refusal refusal = {.since_ns = bpf_ktime_get_ns(), .dqpn = dqpn, .start_psn = psn, .end_psn = psn,
				  .place = PLACE_UNKNOWN};

	bpf_map_update_elem(&refused, &dqpn, &refusal, BPF_ANY);
}

/* Whether a flow was refused before it was, or by another copy of what is, announced. */
static __always_inline int was_refused(const __u8 *body)
{
	__u32 dqpn = be32(FIELD(DQPN));
	struct refusal *refusal = bpf_map_lookup_elem(&refused, &dqpn);

	if (!refusal)
		return 0;
	if (refusal->place != PLACE_UNKNOWN)
		return refusal->epoch == be16(FIELD(EPOCH));
	if (!in_flow(refusal->start_psn, be32(FIELD(START_PSN)), be32(FIELD(END_PSN))))
		return 0;
	refuse(body, PLACE_FLOWS);
	return 1;
}

static __always_inline int is_of_refused(__u32 dqpn, __u32 psn)
{
	struct refusal *refusal = bpf_map_lookup_elem(&refused, &dqpn);

	return refusal && in_flow(psn, refusal->start_psn, refusal->end_psn);
}

/* Whether no destination with flows waits for its turn. Under the lock. */
static __always_inline int all_had_their_turn(const struct selected *now)
{
	int i;

	for (i = 0; i < MAX_LEAVES / WORD_BITS; i++)
		if (now->available[i] & ~now->history[i])
			return 0;
	return 1;
}

/* Whether a destination is the lowest of those that wait for their turn. Under the lock. */
static __always_inline int is_next(const struct selected *now, __u32 leaf)
{
	int i;

	for (i = 0; i < MAX_LEAVES / WORD_BITS; i++) {
		__u64 waiting = now->available[i] & ~now->history[i], bit = 1ULL << (leaf % WORD_BITS);

		if (i == leaf / WORD_BITS)
			return (waiting & bit) && !(waiting & (bit - 1));
		if (waiting)
			return 0;
	}
	return 0;
}

static __always_inline void empty(__u64 *bitmap)
{
	int i;

	for (i = 0; i < MAX_LEAVES / WORD_BITS; i++)
		bitmap[i] = 0;
}

/* Whether an announced flow is measured: every one, or one at a time, destinations taking turns (F2). */
static __always_inline int choose(const __u8 *body, __u64 time)
{
	__u32 zero = 0, dqpn = be32(FIELD(DQPN)), epoch = be16(FIELD(EPOCH)), leaf = be16(FIELD(DST_LEAF)), word;
	struct selected *now = bpf_map_lookup_elem(&selection, &zero);
	int chosen;

	if (!now || leaf >= MAX_LEAVES)
		return 0;
	if (!now->one)
		return 1;
	word = leaf / WORD_BITS;
	barrier_var(word); /* or the compiler drops the masks below, and the verifier the program */
	bpf_spin_lock(&now->lock);
	if (time - now->reset_ns > now->reset_every_ns) {
		empty(now->available);
		empty(now->history);
		now->reset_ns = time;
	}
	now->available[word & (MAX_LEAVES / WORD_BITS - 1)] |= 1ULL << (leaf % WORD_BITS);
	if (now->dqpn && time - now->since_ns > now->give_up_ns)
		now->dqpn = 0;
	if (!now->dqpn && all_had_their_turn(now))
		empty(now->history);
	chosen = now->dqpn == dqpn && now->epoch == epoch;
	if (!now->dqpn && is_next(now, leaf)) {
		now->history[word & (MAX_LEAVES / WORD_BITS - 1)] |= 1ULL << (leaf % WORD_BITS);
		now->dqpn = dqpn;
		now->epoch = epoch;
		now->since_ns = time;
		now->chosen++;
		chosen = 1;
	}
	bpf_spin_unlock(&now->lock);
	return chosen;
}

/* The measured flow has left: the next destination gets its turn. */
static __always_inline void leave(struct selected *now, __u32 dqpn, __u32 epoch)
{
	bpf_spin_lock(&now->lock);
	if (now->dqpn == dqpn && now->epoch == epoch)
		now->dqpn = 0;
	bpf_spin_unlock(&now->lock);
}

/* A host announces a flow, or closes one; the announcement then shows the next leaves whether it is measured. */
static __always_inline void from_announcement(struct __sk_buff *skb, const __u8 *body)
{
	__u32 dqpn = be32(FIELD(DQPN)), zero = 0;
	struct mark *old = bpf_map_lookup_elem(&measured, &dqpn);
	struct selected *now = bpf_map_lookup_elem(&selection, &zero);
	struct mark mark = {.since_ns = bpf_ktime_get_ns(), .last_psn = be32(FIELD(LAST_PSN)),
			    .epoch = be16(FIELD(EPOCH)), .dst_leaf = be16(FIELD(DST_LEAF)),
			    .start_psn = be32(FIELD(START_PSN)), .end_psn = be32(FIELD(END_PSN))};
	int known = old && old->epoch == mark.epoch, over = *FIELD(KIND) != MRC_ANNOUNCE_OPEN;
	__u8 chosen = known;

	if (!over) {
		chosen = !was_refused(body) && choose(body, mark.since_ns);
		if (chosen && !known && bpf_map_update_elem(&measured, &dqpn, &mark, BPF_ANY)) {
			refuse(body, PLACE_MEASURED);
			chosen = 0;
			over = 1;
		}
		if (!chosen && old && !known)
			bpf_map_delete_elem(&measured, &dqpn);
	}
	if (over && !old && now && !now->one && !was_refused(body))
		refuse(body, PLACE_UNANNOUNCED);
	if (over && now && now->one)
		leave(now, dqpn, mark.epoch);
	bpf_skb_store_bytes(skb, MRC_OFF_ANNOUNCE_MEASURED, &chosen, 1, 0);
}

SEC("classifier")
int from_host(struct __sk_buff *skb)
{
	__u8 *frame = frame_of(skb), body[ANNOUNCE_BYTES];
	__u32 port = frame ? udp_port(frame) : 0;

	if (port && is_write(port, frame)) {
		__u32 dqpn = dqpn_of(frame), psn = psn_of(frame), zero = 0;
		struct mark *mark = bpf_map_lookup_elem(&measured, &dqpn);
		struct selected *now = bpf_map_lookup_elem(&selection, &zero);

		if (!mark || !now)
			return TC_ACT_UNSPEC;
		frame[MRC_OFF_BTH_VAR_RES] |= MRC_SPRAYCHECK_MARK; /* no ICRC or UDP checksum covers it */
		if (now->priority)
			skb->priority = now->priority;
		if (!(frame[MRC_OFF_BTH_FLAGS] & MRC_FLAG_RTX) && in_flow(psn, mark->start_psn, mark->end_psn))
			__sync_fetch_and_add(&mark->entered, 1);
		if (now->one && psn == mark->last_psn)
			leave(now, dqpn, mark->epoch);
	} else if (port == MRC_PORT_ANNOUNCE && !load_announcement(skb, body)) {
		if (*FIELD(KIND) != MRC_ANNOUNCE_ELSEWHERE)
			from_announcement(skb, body);
	}
	return TC_ACT_UNSPEC;
}

/* An empty record in place of what the queue pair has; 0 if there is no room. */
static __always_inline struct flow *begin_flow(__u32 dqpn)
{
	__u32 zero = 0;
	struct flow *flow = bpf_map_lookup_elem(&blank, &zero);

	if (!flow)
		return 0;
	if (bpf_map_update_elem(&flows, &dqpn, flow, BPF_ANY))
		return 0;
	flow = bpf_map_lookup_elem(&flows, &dqpn);
	if (flow) {
		flow->dqpn = dqpn;
		flow->seen_ns = bpf_ktime_get_ns();
	}
	return flow;
}

/* An announcement comes once a path: the first copy begins the flow, or completes one whose packets overtook it. */
static __always_inline struct flow *announce(const __u8 *body)
{
	__u32 dqpn = be32(FIELD(DQPN)), epoch = be16(FIELD(EPOCH));
	__u32 start = be32(FIELD(START_PSN)), end = be32(FIELD(END_PSN));
	struct flow *flow = bpf_map_lookup_elem(&flows, &dqpn);

	if (flow && flow->announced_ns && flow->epoch == epoch)
		return flow;
	if (was_refused(body))
		return 0;
	if (flow && flow->announced_ns) {
		struct superseded_key key = {.dqpn = dqpn, .epoch = flow->epoch};

		if (bpf_map_update_elem(&superseded, &key, flow, BPF_ANY)) {
			refuse(body, PLACE_SUPERSEDED);
			return 0;
		}
		flow = 0;
	}
	if (!flow || !in_flow(flow->first_psn, start, end))
		flow = begin_flow(dqpn);
	if (!flow) {
		refuse(body, PLACE_FLOWS);
		return 0;
	}
	flow->start_psn = start;
	flow->last_psn = be32(FIELD(LAST_PSN));
	flow->end_psn = end;
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
	return flow;
}

/* What the control plane found to be the threshold, if it was in time; bits of spines that are below it (D3). */
static __always_inline void compare(struct flow *flow)
{
	__u32 dqpn = flow->dqpn, i;
	struct test *test = bpf_map_lookup_elem(&tests, &dqpn);

	if (!test || test->epoch != flow->epoch || test->last_psn != flow->last_psn)
		return;
	for (i = 0; i < MAX_SPINES; i++) {
		if (i >= flow->spines)
			break;
		if (flow->arrived[i] < test->threshold)
			flow->flagged[i / WORD_BITS] |= 1ULL << (i % WORD_BITS);
	}
	flow->compared = 1;
}

#if NARROW
/* Two counters share a 32-bit word, the smallest that can be changed as a whole; a full one stays full. */
static __always_inline void add_one(__u16 *counters, __u32 spine)
{
	__u32 *word = (__u32 *)counters + spine / 2, shift = spine % 2 * 16, old, i;

	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the even counter is the lower half of its word");
	for (i = 0; i < 64; i++) { /* another core may be faster, but not 64 times */
		old = *(volatile __u32 *)word;
		if ((old >> shift & NARROW_MOST) == NARROW_MOST ||
		    __sync_val_compare_and_swap(word, old, old + (1U << shift)) == old)
			return;
	}
}

static __always_inline void tally(struct flow *flow, const __u8 *frame, int first, __u32 spine)
{
	if (first && !flow->stopped_ns)
		add_one(flow->arrived, spine);
}

static __always_inline void close_flow(struct __sk_buff *skb, const __u8 *body, __u32 spine)
{
}
#else
static __always_inline int is_trimmed(const __u8 *frame)
{
	__u32 dscp = dscp_of(frame);

	return dscp == MRC_DSCP_TRIMMED || dscp == MRC_DSCP_TRIMMED_LASTHOP;
}

static __always_inline void tally(struct flow *flow, const __u8 *frame, int first, __u32 spine)
{
	if (!first) {
		__sync_fetch_and_add(&flow->again[spine], 1);
		return;
	}
	__sync_fetch_and_add(flow->stopped_ns ? &flow->late[spine] : &flow->arrived[spine], 1);
	if (is_trimmed(frame))
		__sync_fetch_and_add(&flow->trimmed[spine], 1);
}

/* The flow that a closing announcement is about: the one now counted, an older one, or one of which it is the first. */
static __always_inline struct flow *closing(const __u8 *body)
{
	struct superseded_key key = {.dqpn = be32(FIELD(DQPN)), .epoch = be16(FIELD(EPOCH))};
	struct flow *flow = bpf_map_lookup_elem(&flows, &key.dqpn), *older;

	if (flow && flow->announced_ns && flow->epoch == key.epoch)
		return flow;
	older = bpf_map_lookup_elem(&superseded, &key);
	return older ? older : announce(body);
}

/* What the sender declares is taken once; every path's own copy is the barrier of that path. */
static __always_inline void close_flow(struct __sk_buff *skb, const __u8 *body, __u32 spine)
{
	__u32 spines = be16(FIELD(SPINES)), bytes;
	struct flow *flow;

	if (spines < 1 || spines > MAX_SPINES)
		return;
	flow = closing(body);
	if (!flow)
		return;
	if (!flow->closed_ns) {
		bytes = spines * MRC_SHARE_BYTES;
		barrier_var(bytes); /* or the compiler forgets the bounds that the verifier asks for */
		if (bytes > sizeof(flow->sent))
			return;
		barrier_var(bytes); /* or it makes one comparison of two, which Linux 6.1 does not see through */
		if (bytes < MRC_SHARE_BYTES || bpf_skb_load_bytes(skb, MRC_OFF_SHARES, flow->sent, bytes))
			return;
		flow->closed_ns = bpf_ktime_get_ns();
	}
	if (spine < MAX_SPINES) {
		barrier_var(spine);
		flow->barrier[spine & (MAX_SPINES - 1)] = 1;
	}
}
#endif

/* What a sender declares of another plane, whose leaves may have heard nothing of the flow. The first copy counts. */
static __always_inline void note_elsewhere(struct __sk_buff *skb, const __u8 *body)
{
	struct elsewhere_key key = {.dqpn = be32(FIELD(DQPN)), .epoch = be16(FIELD(EPOCH)), .plane = *FIELD(PLANE)};
	__u32 zero = 0, spines = be16(FIELD(SPINES)), bytes;
	struct elsewhere *declared = bpf_map_lookup_elem(&blank_elsewhere, &zero);

	if (!declared || spines < 1 || spines > MAX_SPINES || bpf_map_update_elem(&elsewhere, &key, declared, BPF_NOEXIST))
		return;
	declared = bpf_map_lookup_elem(&elsewhere, &key);
	if (!declared)
		return;
	bytes = spines * MRC_SHARE_BYTES;
	barrier_var(bytes); /* as in close_flow */
	if (bytes > sizeof(declared->sent))
		return;
	barrier_var(bytes);
	if (bytes < MRC_SHARE_BYTES || bpf_skb_load_bytes(skb, MRC_OFF_SHARES, declared->sent, bytes)) {
		bpf_map_delete_elem(&elsewhere, &key);
		return;
	}
	declared->dqpn = key.dqpn;
	declared->packets = be32(FIELD(PACKETS));
	declared->epoch = key.epoch;
	declared->spines = spines;
	declared->src_leaf = be16(FIELD(SRC_LEAF));
	declared->dst_leaf = be16(FIELD(DST_LEAF));
	declared->src_host = be16(FIELD(SRC_HOST));
	declared->dst_host = be16(FIELD(DST_HOST));
	declared->plane = key.plane;
	declared->policy = *FIELD(POLICY);
	declared->seen_ns = bpf_ktime_get_ns();
}

static __always_inline void count(const __u8 *frame, __u32 spine)
{
	__u32 dqpn = dqpn_of(frame), psn = psn_of(frame);
	int first = !(frame[MRC_OFF_BTH_FLAGS] & MRC_FLAG_RTX);
	struct flow *flow = bpf_map_lookup_elem(&flows, &dqpn);

	if (!flow && first && !is_of_refused(dqpn, psn)) {
		flow = begin_flow(dqpn);
		if (flow)
			flow->first_psn = psn;
		else
			refuse_packet(dqpn, psn);
	}
	if (!flow || spine >= MAX_SPINES || (flow->announced_ns && !in_flow(psn, flow->start_psn, flow->end_psn)))
		return;
	barrier_var(spine); /* or the compiler drops the mask, and the verifier the program */
	tally(flow, frame, first, spine & (MAX_SPINES - 1));
	if (flow->announced_ns && psn == flow->last_psn && !flow->stopped_ns) {
		flow->stopped_ns = bpf_ktime_get_ns();
		compare(flow);
	}
}

SEC("classifier")
int from_spine(struct __sk_buff *skb)
{
	__u8 *frame = frame_of(skb), body[ANNOUNCE_BYTES];
	__u32 port = frame ? udp_port(frame) : 0, spine = skb->ifindex - FIRST_SPINE_IFINDEX;

	if (port && is_write(port, frame)) {
		if (frame[MRC_OFF_BTH_VAR_RES] & MRC_SPRAYCHECK_MARK)
			count(frame, spine);
	} else if (port == MRC_PORT_ANNOUNCE && !load_announcement(skb, body)) {
		if (*FIELD(KIND) == MRC_ANNOUNCE_ELSEWHERE)
			note_elsewhere(skb, body);
		else if (*FIELD(MEASURED) && *FIELD(KIND) == MRC_ANNOUNCE_CLOSE)
			close_flow(skb, body, spine);
		else if (*FIELD(MEASURED))
			announce(body);
	}
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
