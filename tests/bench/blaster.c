/*
 * The reference a transport is measured against: send prebuilt frames as fast as one core can, nothing else.
 *
 *   blaster NETNS INTERFACE FRAMES FRAME_BYTES SECONDS CPU
 *
 * FRAMES is a file of whole frames, FRAME_BYTES each, sent round and round, 64 a sendmmsg call, from an AF_PACKET
 * socket bound in the network namespace NETNS.  Prints one line: frames sent, nanoseconds taken, nanoseconds this
 * process waited for the CPU (/proc/self/schedstat, field 2).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long waited_ns(void)
{
	long long ran = 0, waited = 0;
	FILE *file = fopen("/proc/self/schedstat", "r");

	if (file) {
		if (fscanf(file, "%lld %lld", &ran, &waited) != 2)
			waited = 0;
		fclose(file);
	}
	return waited;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static int open_socket(const char *netns, const char *interface)
{
	struct sockaddr_ll place = { .sll_family = AF_PACKET };
	int space = open(netns, O_RDONLY | O_CLOEXEC);
	int fd;

	if (space < 0 || setns(space, CLONE_NEWNET))
		die(netns);
	close(space);
	place.sll_ifindex = if_nametoindex(interface);
	if (!place.sll_ifindex)
		die(interface);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&place, sizeof(place)))
		die("socket");
	return fd;
}

static char *map_file(const char *path, size_t *bytes)
{
	struct stat facts;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *memory;

	if (fd < 0 || fstat(fd, &facts))
		die(path);
	memory = mmap(NULL, facts.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (memory == MAP_FAILED)
		die(path);
	close(fd);
	*bytes = facts.st_size;
	return memory;
}

int main(int argc, char **argv)
{
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	long long start, end, sent = 0, waited;
	size_t bytes, frame_bytes, frames, next = 0;
	char *memory;
	int fd;

	if (argc != 7) {
		fprintf(stderr, "usage: blaster NETNS INTERFACE FRAMES FRAME_BYTES SECONDS CPU\n");
		return 2;
	}
	frame_bytes = strtoul(argv[4], NULL, 10);
	memory = map_file(argv[3], &bytes);
	frames = bytes / frame_bytes;
	pin(atoi(argv[6]));
	fd = open_socket(argv[1], argv[2]);
	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		parts[i].iov_len = frame_bytes;
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	waited = waited_ns();
	start = now_ns();
	end = start + (long long)(atof(argv[5]) * 1e9);
	while (now_ns() < end) {
		int taken;

		for (int i = 0; i < BATCH; i++) {
			parts[i].iov_base = memory + next * frame_bytes;
			next = next + 1 == frames ? 0 : next + 1;
		}
		taken = sendmmsg(fd, messages, BATCH, 0);
		if (taken > 0)
			sent += taken;
	}
	printf("%lld %lld %lld\n", sent, now_ns() - start, waited_ns() - waited);
	return 0;
}
